"""What two logs of one run have in common when one of the two was crashed and resumed on the way.

A crash leaves marks that are no difference in what the run did: another segment, a model call or a repeatable tool call
that was cut off and made again, and times. `normalise` takes exactly those away.
"""

from collections.abc import Iterable

from pydantic import JsonValue

from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionResumed,
    InferenceInterrupted,
    InferenceStarted,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.continuation.evaluation import ContinuationEvaluation

__all__ = ["normalise"]

_OF_ONE_PROCESS: dict[str, object] = {
    "attempt": 1,
    "delay_seconds": 0.0,
    "due_at": 0,
    "duration_seconds": 0.0,
    "segment": 1,
    "step_seconds": 0.0,
    "until": None,
    "worker": "",
}
_MEASURED = frozenset({"cumulativeSeconds", "elapsedSeconds", "unproductiveSegments"})


def normalise(events: Iterable[AgentEvent]) -> tuple[AgentEvent, ...]:
    """Return the events without what a crash and a resume add, and without times.

    Taken away, because going on adds it: `execution.resumed`, and the votes and the decision of the guards about it.
    Taken away, because it was lost and made again: a model call that a crash interrupted, and the start and the
    interruption of a tool call that was then started anew. An unsafe call is not started anew: its unknown outcome
    stays, as a difference. Made equal, because no two processes agree on it: attempts, durations, delays, due times,
    segments, workers, and what votes say of time and of segments. Everything else is left as it is, in its order.
    """
    kept: list[AgentEvent] = []
    for event in events:
        match event:
            case ExecutionResumed():
                continue
            case EvaluationsRecorded(phase="resume") | ContinuationEvaluated(phase="resume"):
                continue
            case InferenceInterrupted(reason="crash"):
                _drop_last(kept, InferenceStarted)
                continue
            case ToolExecutionStarted(position=position) if kept and _was_lost(kept[-1], position):
                kept.pop()
                _drop_last(kept, ToolExecutionStarted)
            case EvaluationsRecorded():
                event = event.model_copy(update={"votes": tuple(_timeless(vote) for vote in event.votes)})
            case _:
                pass
        kept.append(_alike(event))
    return tuple(kept)


def _was_lost(event: AgentEvent, position: int) -> bool:
    match event:
        case ToolExecutionInterrupted(position=lost, reason="crash"):
            return lost == position
        case _:
            return False


def _drop_last(events: list[AgentEvent], kind: type[AgentEvent]) -> None:
    for i in range(len(events) - 1, -1, -1):
        if isinstance(events[i], kind):
            del events[i]
            return


def _alike(event: AgentEvent) -> AgentEvent:
    fields = {name: value for name, value in _OF_ONE_PROCESS.items() if name in type(event).model_fields}
    return event.model_copy(update=fields) if fields else event


def _timeless(vote: ContinuationEvaluation) -> ContinuationEvaluation:
    context: dict[str, JsonValue] = {key: 0 if key in _MEASURED else value for key, value in vote.context.items()}
    return vote.model_copy(update={"context": context})
