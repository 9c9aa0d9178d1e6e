"""What the library sees of an erased stream, on every database."""

import pytest
from eventsourcing.persistence import ApplicationRecorder, IntegrityError, StoredEvent

from steptrail.domain.kernel.erasure import Erased
from steptrail.infrastructure.store.core.recorder import Recorder


def goes_on_past_an_erased_stream(library: ApplicationRecorder, recorder: Recorder) -> None:
    """Erase the newest of two streams, and look at it through the library. Both are the same recorder."""

    def event(stream: str, version: int) -> StoredEvent:
        return StoredEvent(originator_id=stream, originator_version=version, topic="t", state=b"{}")

    library.insert_events([event("a", 1), event("b", 1), event("b", 2)])
    before = library.max_notification_id() or 0
    recorder.erase({"b": 2}, 1, "ana", "test")
    spent = library.max_notification_id() or 0
    assert spent > before
    for version in (1, 2, 3, 4):
        with pytest.raises(IntegrityError):
            library.insert_events([event("b", version)])
    library.insert_events([event("a", 2)])
    seen = library.select_notifications(None, 10)
    assert [(each.originator_id, each.topic) for each in seen] == [("a", "t"), ("b", Erased.TYPE), ("a", "t")]
    assert [each.id for each in seen] == sorted({each.id for each in seen})
    assert seen[1].id == spent
    assert [each.id for each in library.select_notifications(before, 10, inclusive_of_start=False)] == [
        each.id for each in seen[1:]
    ]
    assert [each.topic for each in library.select_events("b")] == [Erased.TYPE]
