"""The library's own recorder test cases run against our recorders.

Run: every case of the application recorder, the optional subscription case, the process recorder, the factory, and
the case that ids of concurrent inserts do not interleave; on a file, and the first also in memory. Left out are the
`test_performance` and `test_concurrent_throughput` cases: they print rates and assert nothing about them.
The aggregate and the tracking recorder are the library's own classes, built by our factory.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase
from uuid import uuid4

import pytest
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
)
from eventsourcing.sqlite import SQLiteAggregateRecorder, SQLiteDatastore, SQLiteTrackingRecorder
from eventsourcing.tests import persistence as library
from eventsourcing.utils import Environment

from steptrail.infrastructure.store.core.digest import verify_chain
from steptrail.infrastructure.store.library.sqlite import (
    SQLiteEventFactory,
    SQLiteEventProcessRecorder,
    SQLiteEventRecorder,
)
from tests.contracts.library_erasure import goes_on_past_an_erased_stream


class Databases(TestCase):
    """Gives each case a database and closes what was opened on it."""

    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def new_originator_id(self) -> str:
        return str(uuid4())

    def datastore(self) -> SQLiteDatastore:
        return SQLiteDatastore(str(self.folder / "library.db"), originator_id_type="text")

    def event_recorder(self) -> SQLiteEventRecorder:
        recorder = SQLiteEventRecorder(self.datastore())
        recorder.create_table()
        self.addCleanup(recorder.close)
        return recorder


class TestApplicationRecorder(Databases, library.ApplicationRecorderTestCase[SQLiteEventRecorder]):
    test_performance = None  # type: ignore[assignment]
    test_concurrent_throughput = None  # type: ignore[assignment]

    def create_recorder(self) -> SQLiteEventRecorder:
        return self.event_recorder()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderInMemory(TestApplicationRecorder):
    def datastore(self) -> SQLiteDatastore:
        return SQLiteDatastore(f"file:{uuid4().hex}?mode=memory&cache=shared", originator_id_type="text")


class TestIdsDoNotInterleave(Databases, library.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> ApplicationRecorder:
        return self.event_recorder()


class TestProcessRecorder(Databases, library.ProcessRecorderTestCase):
    test_performance = None  # type: ignore[assignment]

    def create_recorder(self) -> ProcessRecorder:
        recorder = SQLiteEventProcessRecorder(self.datastore())
        recorder.create_table()
        self.addCleanup(recorder.close)
        return recorder


class TrackingSubclass(SQLiteTrackingRecorder):
    """What the factory case asks for: some subclass."""


class TestFactory(library.InfrastructureFactoryTestCase[SQLiteEventFactory]):
    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env = Environment("TestCase")
        self.env["PERSISTENCE_MODULE"] = f"{SQLiteEventFactory.__module__}:{SQLiteEventFactory.__qualname__}"
        self.env["SQLITE_DBNAME"] = str(Path(folder.name) / "library.db")
        self.env["ORIGINATOR_ID_TYPE"] = "text"
        super().setUp()

    def expected_factory_class(self) -> type[SQLiteEventFactory]:
        return SQLiteEventFactory

    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return SQLiteAggregateRecorder

    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return SQLiteEventRecorder

    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        return SQLiteTrackingRecorder

    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        return TrackingSubclass

    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        return SQLiteEventProcessRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[SQLiteEventRecorder]:
    recorder = SQLiteEventRecorder(SQLiteDatastore(str(tmp_path / "library.db"), originator_id_type="text"))
    recorder.create_table()
    yield recorder
    recorder.close()


def test_what_the_library_inserts_is_sealed_too(recorder: SQLiteEventRecorder) -> None:
    def event(stream: str, version: int) -> StoredEvent:
        return StoredEvent(originator_id=stream, originator_version=version, topic="t", state=b"{}")

    recorder.insert_events([event("a", 1), event("a", 2), event("b", 1)])
    recorder.insert_events([event("a", 3)])
    chain = recorder.select_chain("a", 0, 10)
    assert [row.actor for row in chain] == ["library", None, "library"]
    assert verify_chain("a", chain) is None
    assert verify_chain("b", recorder.select_chain("b", 0, 10)) is None


def test_a_subscription_in_memory_is_woken_by_each_insert() -> None:
    recorder = SQLiteEventRecorder(SQLiteDatastore(f"file:{uuid4().hex}?mode=memory&cache=shared"))
    recorder.create_table()
    with recorder.subscribe(gt=0) as subscription:
        for version in range(1, 31):
            event = StoredEvent(originator_id=uuid4(), originator_version=version, topic="t", state=b"{}")
            recorder.insert_events([event])
            assert next(subscription).originator_version == version
    recorder.close()


def test_the_library_goes_on_past_an_erased_stream_and_cannot_write_it_again(recorder: SQLiteEventRecorder) -> None:
    goes_on_past_an_erased_stream(recorder, recorder)
