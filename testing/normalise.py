"""Reduce two logs of one run to what they have in common when one was crashed and resumed on the way.

A crash leaves marks that are no difference in what the run did: another segment, a model call or a repeatable tool call
that was cut off and made again, and times. `normalise` takes exactly those away.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.json_value import JsonValue

_OF_ONE_PROCESS: dict[str, object] = {
    "attempt": 1,
    "deadline": None,
    "delay_seconds": 0.0,
    "digest": "",
    "draw": 0.0,
    "due_at": 0,
    "duration_seconds": 0.0,
    "expires_at": 0,
    "segment": 1,
    "step_seconds": 0.0,
    "until": None,
    "worker": "",
}
_OF_A_CALL = (
    stored.ToolExecutionStarted,
    stored.ToolCallDeferred,
    stored.ToolExecutionCompleted,
    stored.ToolExecutionFailed,
    stored.ToolExecutionInterrupted,
    stored.ToolExecutionSuspended,
    stored.ToolRetryScheduled,
)
_MEASURED = frozenset({"cumulativeSeconds", "elapsedSeconds", "unproductiveSegments"})


def normalise(events: Iterable[stored.AgentEvent]) -> tuple[stored.AgentEvent, ...]:
    """Return the events without what a crash and a resume add, and without times.

    Taken away, because going on adds it: `execution.resumed`, and the votes and the decision of the guards about it.
    Taken away, because it is no part of a run, and is not given again in a replay: `session.scored`.
    Taken away, because it was lost and made again: a model call that a crash interrupted, and the interruption and the
    second start of a tool call that was started anew. An unsafe call is not started anew: its unknown outcome stays, as
    a difference. Made equal, because no two processes agree on it: attempts, durations, delays, due times, when a
    question expires, segments, workers, the digest of a fork's past, and what votes say of time and of segments. What
    follows one another of calls, which may have run side by side, is put in the order of the calls. Everything else is
    left as it is, in its order.
    """
    kept: list[stored.AgentEvent] = []
    lost: set[int] = set()
    for event in events:
        match event:
            case stored.ExecutionResumed() | stored.SessionScored():
                continue
            case stored.EvaluationsRecorded(phase="resume") | stored.ContinuationEvaluated(phase="resume"):
                continue
            case stored.InferenceInterrupted(reason="crash"):
                _drop_last(kept, stored.InferenceStarted)
                continue
            case stored.ToolExecutionInterrupted(reason="crash", position=position):
                lost.add(position)
            case stored.ToolExecutionStarted(position=position) if position in lost:
                lost.remove(position)
                _drop_last(kept, stored.ToolExecutionInterrupted, position)
                continue
            case stored.StepCompleted():
                lost.clear()
            case stored.EvaluationsRecorded():
                event = structs.replace(event, votes=tuple(_timeless(vote) for vote in event.votes))
            case _:
                pass
        kept.append(_alike(event))
    return tuple(_in_call_order(kept))


def _drop_last(events: list[stored.AgentEvent], kind: type[stored.AgentEvent], position: int | None = None) -> None:
    for i in range(len(events) - 1, -1, -1):
        if isinstance(events[i], kind) and getattr(events[i], "position", None) == position:
            del events[i]
            return


def _in_call_order(events: Iterable[stored.AgentEvent]) -> Iterator[stored.AgentEvent]:
    for of_calls, stretch in groupby(events, lambda event: isinstance(event, _OF_A_CALL)):
        following = list(stretch)
        if of_calls:
            following.sort(key=attrgetter("position"))
        yield from following


def _alike(event: stored.AgentEvent) -> stored.AgentEvent:
    fields = {name: value for name, value in _OF_ONE_PROCESS.items() if name in set(event.__struct_fields__)}
    return structs.replace(event, **fields) if fields else event


def _timeless(vote: ContinuationEvaluation) -> ContinuationEvaluation:
    context: dict[str, JsonValue] = {key: 0 if key in _MEASURED else value for key, value in vote.context.items()}
    return structs.replace(vote, context=context)
