"""A step and its tool executions, as the fold of their events leaves them."""

import hashlib
import json
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Literal

from pydantic import JsonValue

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.instants import Datetime
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.tools import ApprovalRule, ToolEffect, failure_text
from steptrail.domain.usage import BilledUsage, Usage

__all__ = [
    "AgentStep",
    "CallStatus",
    "Hold",
    "OpenApproval",
    "Suspension",
    "ToolExecution",
    "cut_reply_error",
    "digest_of",
]


def digest_of(content: JsonValue) -> str:
    """Return the SHA-256 of a call's arguments as compact JSON with sorted keys, in hexadecimal."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class CallStatus(StrEnum):
    """Where a tool call stands, in few words: several phases of a call share one."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    DENIED = "denied"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


_STATUS: dict[CallPhase, CallStatus] = {
    CallPhase.NEW: CallStatus.PENDING,
    CallPhase.HELD: CallStatus.PENDING,
    CallPhase.FORBIDDEN: CallStatus.PENDING,
    CallPhase.ASKING: CallStatus.PENDING,
    CallPhase.APPROVED: CallStatus.PENDING,
    CallPhase.AGAIN: CallStatus.PENDING,
    CallPhase.RETRYING: CallStatus.PENDING,
    CallPhase.SUSPENDED: CallStatus.PENDING,
    CallPhase.RUNNING: CallStatus.RUNNING,
    CallPhase.IN_DOUBT: CallStatus.RUNNING,
    CallPhase.COMPLETED: CallStatus.COMPLETED,
    CallPhase.FAILED: CallStatus.FAILED,
    CallPhase.RETRYABLE: CallStatus.FAILED,
    CallPhase.BLOCKED: CallStatus.BLOCKED,
    CallPhase.DENIED: CallStatus.DENIED,
    CallPhase.CANCELLED: CallStatus.CANCELLED,
    CallPhase.INTERRUPTED: CallStatus.INTERRUPTED,
    CallPhase.PARKED: CallStatus.INTERRUPTED,
}
_OPEN = frozenset({CallStatus.PENDING, CallStatus.RUNNING})
_UNKNOWN_TEXT = (
    "The outcome of this call is unknown: it was cut off while it was running, and may or may not have taken effect. "
    "Find out before you repeat it."
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Who wants a person to approve a call before it runs, and how long that person has."""

    rule: ApprovalRule
    asked_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApproval:
    """What somebody is asked for now: whether this tool may run with exactly these arguments.

    `arguments` are None when the model's text was no JSON object. A yes to the `digest` is one to them and no others.
    """

    id: str
    tool: str
    arguments: dict[str, JsonValue] | None
    digest: str
    expires_at: Datetime
    asked_by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Suspension:
    """The session that a call runs waits or is paused, for `reason`; `until` is in microseconds of UTC."""

    session: str
    reason: str
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecution:
    """One tool call of a step. `phase` says what it is in the middle of; the other fields are what that phase needs.

    `failures` of `attempt` tries have failed, and the next one is due at `due_at`, in microseconds of UTC.
    `started_with` is the digest of the arguments that its last start recorded. `usage` is what the session that it runs
    was billed, as far as is known here, and `forbidden_by` the hook that forbade it before it could start.
    """

    position: int
    call: ToolCallPart
    phase: CallPhase = CallPhase.NEW
    effect_id: str | None = None
    effect: ToolEffect | None = None
    attempt: int = 0
    started_with: str | None = None
    failures: int = 0
    due_at: int | None = None
    forbidden_by: str | None = None
    hold: Hold | None = None
    approval: Approval | None = None
    suspension: Suspension | None = None
    usage: BilledUsage = BilledUsage()
    result: JsonValue = None
    text: str | None = None
    error: ErrorInfo | None = None
    duration_seconds: float = 0.0

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def status(self) -> CallStatus:
        """Where it stands, in one word."""
        return _STATUS[self.phase]

    @property
    def arguments(self) -> dict[str, JsonValue] | None:
        """The arguments it runs with: the model's, or a hook's."""
        return self.call.arguments

    @property
    def arguments_digest(self) -> str:
        """The SHA-256 of the arguments as compact JSON with sorted keys, or of the model's text that was no JSON."""
        arguments = self.call.arguments
        return digest_of(arguments if arguments is not None else self.call.raw)

    @property
    def altered_since(self) -> Literal["it was approved", "it was started"] | None:
        """Since when its arguments are others than the log says they were; None when they are the same.

        Nothing changes them after either, but what changes stored data.
        """
        approved = self.approval.granted if self.approval is not None else None
        if approved is None and self.started_with is None:
            return None
        found = self.arguments_digest
        if approved not in {None, found}:
            return "it was approved"
        return "it was started" if self.started_with not in {None, found} else None

    @property
    def waits_for_a_person(self) -> bool:
        """Tell whether only a person's answer brings it on."""
        return self.phase in {CallPhase.PARKED, CallPhase.ASKING}

    @property
    def open_approval(self) -> Approval | None:
        """The approval that it waits for; None when it was never asked for one, or was given an answer."""
        return self.approval if self.phase is CallPhase.ASKING else None

    @property
    def is_settled(self) -> bool:
        """Tell whether it has an outcome, though another try or a person may still replace it."""
        return self.status not in _OPEN

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more will happen to it by itself, and nobody is asked about it."""
        return self.is_settled and self.phase not in {CallPhase.RETRYABLE, CallPhase.PARKED}

    @property
    def has_failed(self) -> bool:
        """Tell whether the error policy counts it."""
        return self.error is not None

    def changed(self, **changes: Any) -> "ToolExecution":
        """Return a copy with these fields changed: `dataclasses.replace` at a third of its cost."""
        copy = object.__new__(ToolExecution)
        for name, value in zip(_NAMES, _VALUES(self), strict=True):
            object.__setattr__(copy, name, value)
        for name, value in changes.items():
            object.__setattr__(copy, name, value)
        return copy

    def message(self) -> Message:
        """Return what the model is shown of it."""
        if self.error is not None:
            return Message.tool(self.call.id, self.name, failure_text(self.error.message), is_error=True)
        if self.status is CallStatus.INTERRUPTED:
            return Message.tool(self.call.id, self.name, _UNKNOWN_TEXT, is_error=True)
        is_error = self.status in {CallStatus.CANCELLED, CallStatus.DENIED}
        return Message.tool(self.call.id, self.name, self.text or "", is_error=is_error)


_NAMES = tuple(each.name for each in fields(ToolExecution))
_VALUES = attrgetter(*_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """A recorded step: one model call and what became of the tool calls it asked for."""

    number: int
    started_at: int
    reply: ModelReply | None
    tool_executions: tuple[ToolExecution, ...]
    errors: tuple[StepError, ...]
    duration_seconds: float

    @property
    def has_errors(self) -> bool:
        """Tell whether anything in the step failed."""
        return bool(self.errors)

    @property
    def has_tool_calls(self) -> bool:
        """Tell whether the model asked for tools."""
        return bool(self.tool_executions)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped writing; None when it never answered."""
        return self.reply.finish_reason if self.reply else None

    @property
    def raw_finish_reason(self) -> str | None:
        """The provider's own word for it."""
        return self.reply.raw_finish_reason if self.reply else None

    @property
    def usage(self) -> Usage:
        """What the step's model call was billed."""
        return self.reply.usage if self.reply else Usage()

    @property
    def text(self) -> str:
        """The natural language of the reply."""
        return self.reply.text if self.reply else ""


def cut_reply_error() -> ErrorInfo:
    """Return the error of a reply that was cut by its length while it asked for tools: none of them may run."""
    return ErrorInfo(
        type=ErrorType.VALIDATION,
        error_class="steptrail:ReplyCut",
        message="the reply was cut at its token limit while it asked for tools, so none of them was run",
    )
