"""Facts and intents: what survives when an append loses against a command that came in first.

Facts are what has happened; they are appended again. Intents are what was about to happen or was concluded; the machine
draws them anew from the state that now holds the command, so that nothing starts after a stop. Each event's class says
which it is.
"""

from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded
from steptrail.domain.kernel.event import EventKind

__all__ = ["begins_anew", "is_fact", "is_world_fact"]

_FACTS = frozenset({EventKind.WORLD, EventKind.FACT})


def is_fact(event: AgentEvent) -> bool:
    """Tell whether the event has happened, whatever came in meanwhile: a hook's vote has, a criterion's has not."""
    return event.KIND in _FACTS or (isinstance(event, EvaluationsRecorded) and event.hook is not None)


def is_world_fact(event: AgentEvent) -> bool:
    """Tell whether the event says what the outside world did, which nothing here can do again for free."""
    return event.KIND is EventKind.WORLD


def begins_anew(event: AgentEvent) -> bool:
    """Tell whether the event is a decision or the start of a step.

    Where it was never stored, nothing after it has met the outside world. What hooks did in such a step goes with the
    step, and they run again in the one that takes its place.
    """
    return event.KIND is EventKind.ANEW
