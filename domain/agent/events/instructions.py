"""The event of instructions: a function of the service wrote another text than before."""

from steptrail.domain.kernel.event import Event, EventKind


class InstructionsResolved(Event, frozen=True, kw_only=True):
    """The function `name` of the agent's instructions gave another text than the last one; empty for none.

    The text is shown to the model from the next step on, also in later executions, until the function gives another.
    """

    TYPE = "instructions.resolved.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"text"})
    STATE = frozenset({"name"})
    name: str
    text: str
