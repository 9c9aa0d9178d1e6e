"""Events of approvals: a call that must not run before a person has said yes to exactly these arguments.

The id of an approval is the effect id of its call. An approval is answered once: granted, denied, or expired.
"""

from pydantic import Field

from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.events import ApprovalDenied, ApprovalExpired, ApprovalGranted, ApprovalRequested
from steptrail.domain.tools import ApprovalRule

__all__ = ["ApprovalEvent", "ToolCallHeld"]


class ToolCallHeld(Event):
    """A hook wants a person to approve this call."""

    TYPE = "tool.call.held.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"hook", "rule"})
    SPELLS_OUT = True
    position: int = Field(ge=0)
    rule: ApprovalRule
    hook: str


ApprovalEvent = ToolCallHeld | ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalExpired
