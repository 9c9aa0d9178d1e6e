"""The memory of folds: each stream is folded in order, and the end of a batch is told of those that were in it."""

from collections.abc import Sequence

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.views.fold_memory import FoldMemory
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Table
from steptrail.testing.projection_contract import sample_log
from steptrail.testing.store_samples import Noted


class Ended(Projection[list[int]]):
    """Remembers the numbers of each stream, and with which memories the end of a batch was told."""

    name = "ended"
    tables: Sequence[Table] = ()

    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def begin(self, stream: str) -> list[int]:
        return []

    def apply(self, fold: list[int], entry: LogEntry, changes: Changes) -> list[int] | None:
        assert isinstance(entry.record.event, Noted)
        number = entry.record.event.number
        return [*fold, number] if number else None

    def end_batch(self, fold: list[int], changes: Changes) -> None:
        self.told.append(fold)


LOG = sample_log(
    {"agent:a": [Noted(number=n) for n in (1, 2, 3)], "agent:b": [Noted(number=n) for n in (4, 0)]},
)


def test_the_end_of_a_batch_is_told_once_for_each_stream_of_it_with_the_newest_memory() -> None:
    ended = Ended()
    memory, changes = FoldMemory(ended), Changes()
    assert memory.fold(LOG[:3], changes) is None
    memory.end_batch(changes)
    assert ended.told == [[1, 2], [4]]
    ended.told.clear()
    memory.end_batch(changes)
    assert ended.told == []
    assert memory.fold(LOG[3:], changes) is None
    memory.end_batch(changes)
    assert ended.told == [[], [1, 2, 3]]  # the other stream is not remembered any more


def test_the_end_of_a_batch_is_told_of_a_stream_that_was_folded_again_for_it() -> None:
    ended = Ended()
    memory, changes = FoldMemory(ended), Changes()
    assert memory.fold(LOG[:1], changes) is None
    memory.forget()
    memory.end_batch(changes)
    assert ended.told == []
    missing = memory.fold(LOG[2:3], changes)
    assert missing is not None
    assert missing == LOG[2]
    memory.refold("agent:a", LOG[:1])
    assert memory.fold([missing], changes) is None
    memory.end_batch(changes)
    assert ended.told == [[1, 2]]


def test_a_stream_whose_id_a_hand_has_emptied_is_folded_like_any_other() -> None:
    ended = Ended()
    memory, changes = FoldMemory(ended), Changes()
    first, second, *_ = sample_log({"": [Noted(number=1), Noted(number=2)]})
    assert memory.fold([first], changes) is None
    memory.end_batch(changes)
    assert memory.fold([second], changes) is None
    memory.end_batch(changes)
    assert ended.told == [[1], [1, 2]]


def test_a_stream_that_was_not_seen_since_the_beginning_of_the_log_is_not_made_again() -> None:
    # The first event of each stream is of a type that the projection does not read.
    _, _, _, _, a, b, c, d, again, *_ = sample_log({name: [Noted(number=n) for n in (1, 2, 3)] for name in "abcd"})
    memory, changes = FoldMemory(Ended(), most=1), Changes()
    assert memory.fold([a], changes) == a
    memory.begin_log()
    assert memory.fold([a, b], changes) is None
    memory.end_batch(changes)
    memory.trim()
    assert memory.fold([c, again], changes) == again
    memory.forget()  # a batch has failed
    assert memory.fold([d], changes) is None
    assert memory.fold([c], changes) == c
