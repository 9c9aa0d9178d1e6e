"""What must hold of the effects of trees that have ended, and of who stores what came of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from steptrail.domain.agent.events import (
    StepStarted,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.failures import ErrorType
from steptrail.domain.flow.events import (
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptSettledLate,
    NodeAttemptStarted,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.tools import ToolEffect
from tests.properties.tree_processes import Stored

Logs = Mapping[str, Sequence[Recorded[Any]]]
_LATE = ToolExecutionSettledLate | NodeAttemptSettledLate


class _Try(NamedTuple):
    """A try of a call or a node. `end` is the event of its end, None when it has none, or was cut off."""

    start: ToolExecutionStarted | NodeAttemptStarted
    end: Any

    @property
    def has_answered(self) -> bool:
        """Whether it has ended, by itself and well."""
        is_well = isinstance(self.end, ToolExecutionCompleted | NodeAttemptCompleted)
        return is_well and self.end.settled_by is None


def _tries(records: Sequence[Recorded[Any]]) -> Iterator[_Try]:
    """Yield each try of a stream, in the order in which they ended or were followed by another one."""
    open_at = dict[Any, ToolExecutionStarted | NodeAttemptStarted]()
    for event in (record.event for record in records):
        match event:
            case ToolExecutionStarted(position=at) | NodeAttemptStarted(node=at):
                place = at if isinstance(event, ToolExecutionStarted) else (at, event.visit, event.item)
                if place in open_at:
                    yield _Try(open_at[place], None)
                open_at[place] = event
            case ToolExecutionCompleted(position=at) | ToolExecutionFailed(position=at) if at in open_at:
                yield _Try(open_at.pop(at), event)
            case NodeAttemptCompleted() | NodeAttemptFailed():
                place = (event.node, event.visit, event.item)
                if place in open_at:
                    yield _Try(open_at.pop(place), event)
            case _:
                pass
    for start in open_at.values():
        yield _Try(start, None)


def effects_are_once(begun: Mapping[str, int], logs: Logs) -> None:
    """Check that what was done outside is in the logs, and that nothing was begun again that must not be.

    What has ended well is not begun again, and what is unsafe only after an end. Effects of two streams differ.
    """
    starts, ended, streams = Counter[str](), Counter[str](), dict[str, str]()
    for stream, records in logs.items():
        last = dict[str, _Try]()
        for each in _tries(records):
            effect = each.start.effect_id
            assert streams.setdefault(effect, stream) == stream, effect
            # A stream that is run again gives the answer that it gave.
            runs_stream = getattr(each.start, "stream_effect", None) is not None
            before = last.get(effect)
            if before is not None:
                assert runs_stream or not before.has_answered, f"{effect} was begun again"
                is_safe = each.start.effect is not ToolEffect.UNSAFE
                assert is_safe or before.end is not None, f"{effect} is unsafe and was begun again"
            last[effect] = each
            starts[effect] += 1
            ended[effect] += each.has_answered and not runs_stream
    for effect, number in begun.items():
        assert number <= starts[effect], f"{effect} was begun {number} times, and {starts[effect]} times by the log"
    for effect, number in ended.items():
        assert number <= 1, effect


def external_calls_are_asked_and_answered_once(answered: Mapping[str, int], logs: Logs) -> None:
    """Check that each was asked for once, ended once at most, and as the answer says that was taken."""
    asked, ended, taken = Counter[str](), Counter[str](), Counter[str]()
    for records in logs.values():
        open_at = dict[int, str]()
        for event in (record.event for record in records):
            match event:
                case StepStarted():
                    open_at.clear()
                case ToolCallDeferred(position=at, effect_id=effect):
                    open_at[at] = effect
                    asked[effect] += 1
                case ToolExecutionCompleted(position=at) | ToolExecutionFailed(position=at) if at in open_at:
                    ended[open_at[at]] += 1
                    taken[open_at[at]] += event.settled_by is not None
                case _:
                    pass
    assert max([*asked.values(), *ended.values()], default=1) == 1, (asked, ended)
    assert +taken == Counter({effect: number for effect, number in answered.items() if effect in asked})


def answers_of_streams(logs: Logs, *, are_late: bool) -> Mapping[str, bool]:
    """Return whether each effect that ran a stream was told that this has answered, as far as it was told anything.

    With `are_late`, those are left out whose time was up: another process goes on with the stream after that.
    """
    told = dict[str, bool]()
    for records in logs.values():
        for each in _tries(records):
            of = each.start.stream_effect if isinstance(each.start, NodeAttemptStarted) else each.start.effect_id
            by_person = getattr(each.end, "settled_by", None) is not None
            is_failed = isinstance(each.end, ToolExecutionFailed | NodeAttemptFailed)
            is_late = are_late and is_failed and each.end.error.type is ErrorType.TIMEOUT
            if of is not None and each.end is not None and not by_person and not is_late:
                told[of] = each.has_answered
    return told


def losers_store_no_more(stored: Sequence[Stored]) -> None:
    """Check that who lost a stream to another process stored nothing more in it but late reports."""
    newest = Counter[str]()
    for commit in stored:
        if 0 < commit.segment < newest[commit.stream]:
            assert all(isinstance(event, _LATE) for event in commit.events), commit
        newest[commit.stream] = max(newest[commit.stream], commit.segment)
