"""Facts and intents: what survives when an append loses against a command that came in first.

Facts are what has happened; they are appended again. Intents are what was about to happen or was concluded; the machine
draws them anew from the state that now holds the command, so that nothing starts after a stop.
"""

from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceRequestAmended,
    MessagesAppended,
    MetadataChanged,
    StepStarted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
    UsageRecorded,
)

__all__ = ["begins_anew", "is_fact", "is_world_fact"]

_WORLD_FACTS = (
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
)
_FACTS = (
    *_WORLD_FACTS,
    HooksRan,
    MessagesAppended,
    MetadataChanged,
    UsageRecorded,
    InferenceRequestAmended,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
)


def is_fact(event: AgentEvent) -> bool:
    """Tell whether the event has happened, whatever came in meanwhile: a hook's vote has, a criterion's has not."""
    return isinstance(event, _FACTS) or (isinstance(event, EvaluationsRecorded) and event.hook is not None)


def is_world_fact(event: AgentEvent) -> bool:
    """Tell whether the event says what the outside world did, which nothing here can do again for free."""
    return isinstance(event, _WORLD_FACTS)


def begins_anew(event: AgentEvent) -> bool:
    """Tell whether the event is a decision or the start of a step.

    Where it was never stored, nothing after it has met the outside world. What hooks did in such a step goes with the
    step, and they run again in the one that takes its place.
    """
    return isinstance(event, ContinuationEvaluated | StepStarted)
