"""An approval: the question whether a call may run with exactly these arguments, and its answer."""

from typing import Literal

from steptrail.domain.base import Value
from steptrail.domain.errors import CommandRejected
from steptrail.domain.shared.events import ApprovalRequested


class NotAsked(CommandRejected):
    """An answer to a question that is not open, or not any more. `once` says of what it would have been one."""

    def __init__(self, command: str, session: str, why: str, once: str = "a question is answered once") -> None:
        super().__init__(command, session, why)
        self.once = once


class Approval(Value, frozen=True, kw_only=True):
    """The question whether a call may run with exactly the arguments of `digest`, and its answer once there is one.

    `expires_at` and `asked_at` are in microseconds of UTC; `asked_at_version` is the version of the event that asks.
    `granted` is the digest of the arguments that got the yes: those of the question, or what the person made of them.
    """

    id: str
    digest: str
    expires_at: int
    asked_at: int
    asked_at_version: int
    asked_by: str
    reason: str | None = None
    answer: Literal["granted", "denied", "expired"] | None = None
    by: str | None = None
    granted: str | None = None

    @staticmethod
    def of(event: ApprovalRequested, at: int, version: int) -> "Approval":
        """Return the question that an event asks."""
        return Approval(
            id=event.approval_id,
            digest=event.arguments_digest,
            expires_at=event.expires_at,
            asked_at=at,
            asked_at_version=version,
            asked_by=event.asked_by,
            reason=event.reason,
        )

    @property
    def is_open(self) -> bool:
        """Tell whether there is no answer yet."""
        return self.answer is None
