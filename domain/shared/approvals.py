"""An approval: the question whether a call may run with exactly these arguments, and its answer."""

from typing import Literal

from msgspec import structs

from steptrail.domain.base import Value
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import CommandRejected
from steptrail.domain.instants import instant_text
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.events import ApprovalDenied, ApprovalGranted, ApprovalRequested
from steptrail.domain.tools import ToolSpec, misnamed


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

    def with_yes(self, event: ApprovalGranted) -> "Approval":
        """Return it with a yes, to the arguments of the question or to those that the person made of them."""
        return structs.replace(self, answer="granted", by=event.by, granted=event.arguments_digest or self.digest)


def answer_to(
    approval: Approval, command: Approve | Deny, tool: ToolSpec | None, session: str, *, late: str = ""
) -> ApprovalGranted | ApprovalDenied:
    """Return the answer to an open approval of a call of `tool`, which is None where it is not known.

    Raises `CommandRejected` for an answer that comes too late, by the time in the command, and for a yes to other
    arguments than are asked about or that the tool does not know. `late` goes on what is said of the first.
    """

    def refused(why: str) -> CommandRejected:
        return CommandRejected(command.DOING, session, why)

    if command.at >= approval.expires_at:
        raise refused(f"it expired at {instant_text(approval.expires_at)}, which is a no{late}")
    if isinstance(command, Deny):
        return ApprovalDenied(approval_id=approval.id, by=command.by, reason=command.reason, key=command.key)
    if command.digest not in {None, approval.digest}:
        raise refused(f"it is about the arguments {approval.digest}, not {command.digest}")
    given = command.arguments
    # A misspelt name must not use up the answer. The values are validated by the tool itself, when it runs.
    if given is not None and tool is not None and (why := misnamed(tool, given)) is not None:
        raise refused(f"its edited arguments do not fit {tool.name}: {why}")
    return ApprovalGranted(
        approval_id=approval.id,
        by=command.by,
        reason=command.reason,
        arguments=given,
        arguments_digest=digest_of(given) if given is not None else None,
        key=command.key,
    )
