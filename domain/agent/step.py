"""A step and its tool executions, folded from their events."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.base import Value
from steptrail.domain.digests import digest_of
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.instants import Datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message, ToolCallPart
from steptrail.domain.output import OutputProblem, OutputVerdict, StepOutput
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, failure_text
from steptrail.domain.usage import BilledUsage, Usage


class CallStatus(StrEnum):
    """The status of a tool call, as it is shown. Several phases of a call have the same status."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    DENIED = "denied"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


CALL_STATUS: Mapping[CallPhase, CallStatus] = {
    CallPhase.NEW: CallStatus.PENDING,
    CallPhase.HELD: CallStatus.PENDING,
    CallPhase.FORBIDDEN: CallStatus.PENDING,
    CallPhase.ASKING: CallStatus.PENDING,
    CallPhase.APPROVED: CallStatus.PENDING,
    CallPhase.DEFERRED: CallStatus.PENDING,
    CallPhase.AGAIN: CallStatus.PENDING,
    CallPhase.RETRYING: CallStatus.PENDING,
    CallPhase.SUSPENDED: CallStatus.PENDING,
    CallPhase.ANSWER: CallStatus.PENDING,
    CallPhase.RUNNING: CallStatus.RUNNING,
    CallPhase.IN_DOUBT: CallStatus.RUNNING,
    CallPhase.COMPLETED: CallStatus.COMPLETED,
    CallPhase.FAILED: CallStatus.FAILED,
    CallPhase.RETRYABLE: CallStatus.FAILED,
    CallPhase.REJECTED: CallStatus.FAILED,
    CallPhase.BLOCKED: CallStatus.BLOCKED,
    CallPhase.DENIED: CallStatus.DENIED,
    CallPhase.CANCELLED: CallStatus.CANCELLED,
    CallPhase.INTERRUPTED: CallStatus.INTERRUPTED,
    CallPhase.PARKED: CallStatus.INTERRUPTED,
}
"""Phase of a call -> its status as it is shown."""

_is_answer = attrgetter("is_answer")
_OPEN = frozenset({CallStatus.PENDING, CallStatus.RUNNING})
_NOT_DONE = frozenset({CallStatus.CANCELLED, CallStatus.DENIED, CallStatus.FAILED, CallStatus.INTERRUPTED})
_UNKNOWN_TEXT = (
    "The outcome of this call is unknown: it was cut off while it was running, and may or may not have taken effect. "
    "Find out before you repeat it."
)


class Hold(Value, frozen=True):
    """A demand that a person approve a call before it runs. `asked_by` is the hook or the tool that demands it."""

    rule: ApprovalRule
    asked_by: str


class OpenApproval(Struct, frozen=True, kw_only=True):
    """An open question to a person: whether this tool may run with exactly these arguments.

    `arguments` is None when the model's text was no JSON object. A yes to the `digest` holds for these arguments only.
    """

    id: str
    tool: str
    arguments: dict[str, JsonValue] | None
    digest: str
    expires_at: Datetime
    asked_by: str
    reason: str | None = None


class OpenCall(Struct, frozen=True, kw_only=True):
    """An external call that waits for somebody's result. `id` is what the answer names: its effect id."""

    id: str
    tool: str
    arguments: dict[str, JsonValue] | None
    expires_at: Datetime


class Deferral(Value, frozen=True):
    """The question for the result of an external call. Instants are microseconds of UTC.

    `asked_at_version` is the version of the event that asks.
    """

    expires_at: int
    asked_at: int
    asked_at_version: int


class Suspension(Value, frozen=True):
    """The session that a call runs waits or is paused, for `reason`; `until` is in microseconds of UTC."""

    session: str
    reason: str
    until: int | None = None


class ToolExecution(Value, frozen=True, kw_only=True):
    """One call of a tool in a step, folded from its events. `phase` says which of the other fields have a meaning.

    `attempt` counts the tries, and `failures` those that failed. The next try is due at `due_at`, in microseconds of
    UTC. `started_with` is the digest of the arguments that the last start recorded. `on_unknown` is what its tool said
    then, and `runs` the kind of the stream that the call runs: the tool of who goes on with the call may be another
    one. `usage` is the bill of that stream, as far as it is known here. `forbidden_by` is the hook that forbade the
    call before its start. `is_answer` says that its arguments are the answer, and no tool is run.
    """

    position: int
    call: ToolCallPart
    phase: CallPhase = CallPhase.NEW
    effect_id: str | None = None
    effect: ToolEffect | None = None
    on_unknown: OnUnknown = OnUnknown.TELL
    runs: str | None = None
    attempt: int = 0
    started_with: str | None = None
    failures: int = 0
    due_at: int | None = None
    forbidden_by: str | None = None
    hold: Hold | None = None
    approval: Approval | None = None
    suspension: Suspension | None = None
    deferral: Deferral | None = None
    usage: BilledUsage = BilledUsage()
    result: JsonValue = None
    text: str | None = None
    files: tuple[FilePart, ...] = ()
    error: ErrorInfo | None = None
    duration_seconds: float = 0.0
    is_answer: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def status(self) -> CallStatus:
        """The status of the call."""
        return CALL_STATUS[self.phase]

    @property
    def arguments(self) -> dict[str, JsonValue] | None:
        """The arguments of the call: those of the model, unless a hook or a person has replaced them."""
        return self.call.arguments

    @property
    def arguments_digest(self) -> str:
        """The SHA-256 of the arguments as compact JSON with sorted keys, or of the model's text if it is no JSON."""
        arguments = self.call.arguments
        return digest_of(arguments if arguments is not None else self.call.raw)

    @property
    def altered_since(self) -> Literal["it was approved", "it was started"] | None:
        """The event since which the arguments differ from the recorded digest; None when they do not.

        No event changes the arguments after that. So a difference means that the stored data was altered.
        """
        approved = self.approval.granted if self.approval is not None else None
        if approved is None and self.started_with is None:
            return None
        found = self.arguments_digest
        if approved not in {None, found}:
            return "it was approved"
        return "it was started" if self.started_with not in {None, found} else None

    @property
    def below(self) -> str | None:
        """The stream that the call runs; None for one that runs no stream, or has not begun."""
        return None if self.runs is None else f"{self.runs}:{session_for_call(self.effect_id or '')}"

    @property
    def waits_for_a_person(self) -> bool:
        """Tell whether the call can go on only after a person's answer."""
        return self.phase in {CallPhase.PARKED, CallPhase.ASKING, CallPhase.DEFERRED}

    @property
    def open_approval(self) -> Approval | None:
        """The approval that the call waits for; None when there is no open question about the call."""
        return self.approval if self.phase is CallPhase.ASKING else None

    @property
    def open_deferral(self) -> Deferral | None:
        """The question for the result of an external call; None when there is no open one."""
        return self.deferral if self.phase is CallPhase.DEFERRED else None

    @property
    def is_settled(self) -> bool:
        """Tell whether the call has an outcome. Another try or a person may still replace it."""
        return self.status not in _OPEN

    @property
    def is_over(self) -> bool:
        """Tell whether the call has ended: no process and no person has anything left to do with it."""
        return self.is_settled and self.phase not in {CallPhase.RETRYABLE, CallPhase.PARKED}

    @property
    def has_failed(self) -> bool:
        """Tell whether the error policy counts the call as failed."""
        return self.error is not None

    def message(self) -> Message:
        """Return the message that shows the outcome of the call to the model."""
        if self.error is not None:
            return Message.tool(self.call.id, self.name, failure_text(self.error.message), is_error=True)
        status = self.status
        text = _UNKNOWN_TEXT if status is CallStatus.INTERRUPTED else self.text or ""
        return Message.tool(self.call.id, self.name, text, *self.files, is_error=status in _NOT_DONE)


class AgentStep(Value, frozen=True, kw_only=True):
    """A recorded step: one model call and the tool calls of its reply, with their outcomes.

    `output` is the verdict on its answer; None if the step gave none, or if the agent answers in text.
    """

    number: int
    started_at: int
    reply: ModelReply | None
    tool_executions: tuple[ToolExecution, ...]
    errors: tuple[StepError, ...]
    duration_seconds: float
    output: StepOutput | None = None

    @property
    def has_errors(self) -> bool:
        """Tell whether anything in the step failed."""
        return bool(self.errors)

    @property
    def has_tool_calls(self) -> bool:
        """Tell whether the model asked for tools."""
        return asks_for_tools(self.tool_executions)

    @property
    def output_verdict(self) -> OutputVerdict | None:
        """The verdict on the answer of the step; None if it gave none, or if the agent answers in text."""
        return self.output.verdict if self.output else None

    @property
    def output_problems(self) -> tuple[OutputProblem, ...]:
        """The reasons why the answer of the step was rejected."""
        return self.output.problems if self.output else ()

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason why the model stopped writing; None when there is no reply."""
        return self.reply.finish_reason if self.reply else None

    @property
    def raw_finish_reason(self) -> str | None:
        """The provider's own word for the finish reason; None when there is no reply."""
        return self.reply.raw_finish_reason if self.reply else None

    @property
    def usage(self) -> Usage:
        """The tokens that were billed for the model call of the step."""
        return self.reply.usage if self.reply else Usage()

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text if self.reply else ""


def asks_for_tools(calls: Iterable[ToolExecution]) -> bool:
    """Tell whether any of the calls is one of a tool, and not the answer."""
    return not all(map(_is_answer, calls))


def cut_reply_error(reason: FinishReason) -> ErrorInfo:
    """Return the error of a reply with tool calls that was cut for this reason. None of its calls may run."""
    how = "cut at its token limit" if reason is FinishReason.LENGTH else "broken off by the provider"
    return ErrorInfo(
        type=ErrorType.VALIDATION if reason is FinishReason.LENGTH else ErrorType.MODEL,
        error_class="steptrail:ReplyCut",
        message=f"the reply was {how} while it asked for tools, so none of them was run",
    )
