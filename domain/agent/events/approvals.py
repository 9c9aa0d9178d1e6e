"""Events of approvals: a call may run only after a person has said yes to exactly its arguments.

The id of an approval is the effect id of its call. An approval is answered once: granted, denied, or expired.
"""

from steptrail.domain.base import Count
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.events import ApprovalDenied, ApprovalExpired, ApprovalGranted, ApprovalRequested
from steptrail.domain.tools import ApprovalRule


class ToolCallHeld(Event, frozen=True, kw_only=True):
    """A hook wants a person to approve this call."""

    TYPE = "tool.call.held.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"hook", "rule"})
    position: Count
    rule: ApprovalRule
    hook: str


ApprovalEvent = ToolCallHeld | ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalExpired
