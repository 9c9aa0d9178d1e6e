"""Tool calls: they start, complete, are refused, or rest; and the agents that some of them run.

Arguments and results are there for a program to use, in no text form and in no `repr`.
"""

from dataclasses import dataclass, field

from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.projections.lifecycle.base import RunEvent, error_text, first_of, told_as

_PROMPT_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent(RunEvent):
    """Something about one tool call.

    `tool_call_id` is the id that the model gave it, which may come again; `message_id` is the call's own, the id of the
    message that shows what became of it.
    """

    step: int
    tool_call_id: str
    message_id: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(ToolCallEvent):
    """The tool is about to run with these arguments, for the `attempt`-th time."""

    args: dict[str, JsonValue] = field(repr=False)
    attempt: int

    def _said(self) -> dict[str, JsonValue]:
        return {**ToolCallEvent._said(self), "at": to_datetime(self.at).isoformat()}

    def __str__(self) -> str:
        return f"Tool call started: {self.tool}({', '.join(self.args)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(ToolCallEvent):
    """A try of the call ended. An error of the type `interrupted` means that nobody knows what the tool did.

    `started` and `ended` are in microseconds of UTC.
    """

    success: bool
    error: str | None = field(repr=False)
    error_type: str | None = field(metadata=told_as(None))
    result: JsonValue = field(repr=False)
    started: int
    ended: int
    duration_ms: int

    def __str__(self) -> str:
        if self.success:
            return f"Tool call completed: {self.tool} [{self.duration_ms}ms]"
        return f"Tool call failed: {self.tool} [{self.duration_ms}ms] ({error_text(self.error or '', self.error_type)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBlocked(ToolCallEvent):
    """A hook refused the call."""

    args: dict[str, JsonValue] = field(repr=False)
    reason: str = field(repr=False)
    hook: str

    def __str__(self) -> str:
        return f"Tool call blocked: {self.tool} (by {self.hook})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCancelled(ToolCallEvent):
    """The call will not run, or not to its end."""

    reason: str

    def __str__(self) -> str:
        return f"Tool call cancelled: {self.tool} ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSuspended(ToolCallEvent):
    """The session that the call runs, `subagent_id`, rests: the call starts again when it goes on."""

    subagent_id: str
    reason: str

    def __str__(self) -> str:
        return f"Tool call suspended: {self.tool} (session {first_of(self.subagent_id)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentSpawning(ToolCallEvent):
    """A call is about to run the agent `subagent`, `depth` levels below the first one.

    How deep it may be is the tool's own rule, which is not recorded.
    """

    subagent: str
    subagent_id: str
    prompt: str = field(repr=False)
    depth: int

    def _said(self) -> dict[str, JsonValue]:
        return {
            "parentAgentId": self.session_id,
            "subagentId": self.subagent_id,
            "subagent": self.subagent,
            "prompt": self.prompt[:_PROMPT_SHOWN],
            "depth": self.depth,
            "maxDepth": None,
        }

    def __str__(self) -> str:
        return f"Subagent spawning: {self.subagent} [parent={first_of(self.session_id)}] (depth {self.depth})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentCompleted(ToolCallEvent):
    """The agent that a call ran came to an end. How many steps it took stands in its own session's events.

    `tokens` is what it was billed so far, where that is known.
    """

    subagent: str
    subagent_id: str
    status: str
    tokens: int | None
    duration_ms: int

    def _said(self) -> dict[str, JsonValue]:
        return {
            "parentAgentId": self.session_id,
            "subagentId": self.subagent_id,
            "subagent": self.subagent,
            "status": self.status,
            "steps": None,
            "tokens": self.tokens,
            "duration_ms": self.duration_ms,
        }

    def __str__(self) -> str:
        return f"Subagent {self.status}: {self.subagent} [parent={first_of(self.session_id)}] [{self.duration_ms}ms]"
