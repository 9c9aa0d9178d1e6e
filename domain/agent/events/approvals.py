"""Events of approvals: a call that must not run before a person has said yes to exactly these arguments.

The id of an approval is the effect id of its call. An approval is answered once: granted, denied, or expired.
"""

from pydantic import Field, JsonValue

from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.tools import ApprovalRule

__all__ = ["ApprovalDenied", "ApprovalEvent", "ApprovalExpired", "ApprovalGranted", "ApprovalRequested", "ToolCallHeld"]


class ToolCallHeld(Event):
    """A hook wants a person to approve this call."""

    TYPE = "tool.call.held.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"hook", "rule"})
    position: int = Field(ge=0)
    rule: ApprovalRule
    hook: str


class ApprovalRequested(Event):
    """A person is asked whether a call may run with the arguments of this digest.

    `asked_by` is the tool that declares it, or the hook that held the call. Without an answer by `expires_at`
    (microseconds of UTC) the call does not run.
    """

    TYPE = "approval.requested.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"approval_id", "arguments_digest", "asked_by", "reason", "tool"})
    approval_id: str
    position: int = Field(ge=0)
    tool: str
    arguments_digest: str
    expires_at: int
    asked_by: str
    reason: str | None = None


class ApprovalGranted(Event):
    """Somebody said yes.

    `arguments` are there when they edited them, with their digest; they replace the model's as a whole.
    """

    TYPE = "approval.granted.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"arguments", "reason"})
    STATE = frozenset({"approval_id", "arguments_digest", "by", "key"})
    approval_id: str
    by: str
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    arguments_digest: str | None = None
    key: str | None = None


class ApprovalDenied(Event):
    """Somebody said no. The call does not run, and the model is told."""

    TYPE = "approval.denied.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"reason"})
    STATE = frozenset({"approval_id", "by", "key"})
    approval_id: str
    by: str
    reason: str | None = None
    key: str | None = None


class ApprovalExpired(Event):
    """Nobody answered in time, which is a no."""

    TYPE = "approval.expired.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"approval_id"})
    approval_id: str


ApprovalEvent = ToolCallHeld | ApprovalRequested | ApprovalGranted | ApprovalDenied | ApprovalExpired
