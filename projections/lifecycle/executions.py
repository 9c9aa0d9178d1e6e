"""Executions: they start, rest, go on and end. Exactly one of the three endings is told of each."""

from dataclasses import dataclass, field

from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.events import WaitKind
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle.base import RunEvent, error_text, told_as


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionStarted(RunEvent):
    """An input was taken up. `messages` counts the conversation with it, `tools` what the agent may call."""

    messages: int
    tools: int

    def _line(self) -> str:
        return f"execution started (messages: {self.messages}, tools: {self.tools})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionResumed(RunEvent):
    """The execution goes on; `ended_by` says what had ended its last stretch."""

    ended_by: SegmentEnd

    def _line(self) -> str:
        return f"execution resumed (after: {self.ended_by.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SaidOfExecution(RunEvent):
    """Something that somebody said of the execution, with or without a reason."""

    by: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionPaused(_SaidOfExecution):
    """The execution was paused by somebody, and goes on when it is resumed."""

    def _line(self) -> str:
        return f"execution paused (by: {self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionUnpaused(_SaidOfExecution):
    """The pause was lifted by somebody, and the execution goes on when a worker comes."""

    def _line(self) -> str:
        return f"execution unpaused (by: {self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionWaiting(RunEvent):
    """The execution waits: for a time (`until`, microseconds of UTC) or a person, often about one tool call."""

    kind: WaitKind
    until: int | None
    tool: str | None
    tool_call_id: str | None

    def _line(self) -> str:
        return f"execution waits ({self.kind}{f': {self.tool}' if self.tool is not None else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionWaitEnded(RunEvent):
    """A wait is over: its answer or time has come, or it was given up. `by` is the person who ended it, if one did."""

    reason: str
    by: str | None

    def _line(self) -> str:
        return f"execution waits no more ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesAdded(RunEvent):
    """Somebody said something, to begin an execution or in one: a person or a program (`input`), or a `hook`."""

    count: int
    source: MessageSource

    def _line(self) -> str:
        return f"messages were added ({self.count} by {self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSignalReceived(RunEvent):
    """Somebody asked the execution to stop; it will when it comes to see that."""

    source: str
    message: str | None

    def _said(self) -> dict[str, JsonValue]:
        reason = StopReason.USER_REQUESTED.value
        return {"reason": reason, "message": self.message, "context": {}, "source": self.source}

    def _line(self) -> str:
        return f"was asked to stop (by: {self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionEnded(RunEvent):
    """The execution is over, one way or another. `errors` counts its failed steps, `usage` what it was billed.

    `answered` says that it came to an answer of its own, also at a limit; `answer` is the last thing that the model
    said in it, if it said anything.
    """

    status: ExecutionStatus
    stop_reason: StopReason
    steps: int
    usage: Usage
    errors: int
    answered: bool
    answer: str | None = field(repr=False, metadata=told_as(None))

    def _counted(self) -> str:
        return f"(steps: {self.steps}, tokens: {self.usage.total})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionCompleted(AgentExecutionEnded):
    """The execution came to its natural end."""

    def _line(self) -> str:
        return f"completed {self._counted()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionFailed(AgentExecutionEnded):
    """The execution failed. `error` is the error that made it fail, or what the deciding vote says."""

    error: str = field(repr=False)
    error_type: str | None

    def _said(self) -> dict[str, JsonValue]:
        return {"error": self.error, "errorType": self.error_type, **AgentExecutionEnded._said(self)}

    def _line(self) -> str:
        return f"failed: {error_text(self.error, self.error_type)} {self._counted()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExecutionStopped(AgentExecutionEnded):
    """The execution was ended before its natural end: by a limit, a guard, a person. `source` decided it."""

    message: str = field(metadata=told_as("stopMessage"))
    source: str
    context: dict[str, JsonValue] = field(repr=False, metadata=told_as("stopContext"))

    def _line(self) -> str:
        return f"stopped: {self.stop_reason.value} by {self.source} {self._counted()}"
