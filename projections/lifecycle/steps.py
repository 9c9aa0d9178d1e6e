"""Steps: they begin, ask the model, run hooks, end, and are followed by a decision."""

from dataclasses import dataclass, field

from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.json_value import JsonValue
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle.base import RunEvent, error_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStepStarted(RunEvent):
    """A step began. `messages` and `tools` count what the model can see."""

    step: int
    messages: int
    tools: int

    def _line(self) -> str:
        return f"step {self.step} started (messages: {self.messages}, tools: {self.tools})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStepCompleted(RunEvent):
    """A step ended. `duration_ms` is its active time; `finish_reason` is None when the model never answered."""

    step: int
    has_tool_calls: bool
    has_text: bool
    error_messages: tuple[str, ...] = field(repr=False)
    usage: Usage
    finish_reason: str | None
    duration_ms: int

    @property
    def errors(self) -> int:
        """How much failed in it."""
        return len(self.error_messages)

    def _said(self) -> dict[str, JsonValue]:
        return {
            "step": self.step,
            "hasToolCalls": self.has_tool_calls,
            "hasText": self.has_text,
            "errors": self.errors,
            "errorMessages": list(self.error_messages),
            "usage": {**self.usage.to_dict()},
            "finishReason": self.finish_reason,
            "durationMs": self.duration_ms,
        }

    def _line(self) -> str:
        failed = f", errors: {self.errors}" if self.error_messages else ""
        return f"step {self.step} completed [{self.duration_ms}ms] (tokens: {self.usage.total}{failed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsageReported(RunEvent):
    """Tokens were billed: by the model call of a step, a hook, or a summary. Told only of more than none."""

    operation: str
    usage: Usage
    context: dict[str, JsonValue]

    def _line(self) -> str:
        return f"used {self.usage.total} tokens ({self.operation})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTaken(RunEvent):
    """It was decided after step `step` (0: before the first) whether the run goes on; the outcome has every vote.

    A run that is to stop has not ended yet: a Stop hook, or what somebody says now, may carry it on.
    """

    step: int
    phase: DecisionPhase
    outcome: ContinuationOutcome

    def _said(self) -> dict[str, JsonValue]:
        return {
            "step": self.step,
            "shouldContinue": self.outcome.should_continue,
            "stopReason": self.outcome.stop_reason.value,
            "resolvedBy": self.outcome.resolved_by,
        }

    def _line(self) -> str:
        outcome = self.outcome
        if outcome.should_continue:
            return f"step {self.step}: CONTINUE (requested by {outcome.resolved_by})"
        return f"step {self.step}: STOP ({outcome.stop_reason.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookExecuted(RunEvent):
    """A hook ran, about a tool where there is one. What it did, why and how long it took is not recorded."""

    hook_type: str
    hook: str
    tool: str | None

    def _said(self) -> dict[str, JsonValue]:
        return {**RunEvent._said(self), "outcome": None, "reason": None, "duration_ms": None}

    def _line(self) -> str:
        return f"hook {self.hook} ran ({self.hook_type}{f': {self.tool}' if self.tool is not None else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequestStarted(RunEvent):
    """The model is about to be called with so many messages, for the `attempt`-th time in the step."""

    step: int
    attempt: int
    messages: int
    model: str

    def _line(self) -> str:
        return f"step {self.step} asks {self.model} (messages: {self.messages})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceResponseReceived(RunEvent):
    """The model replied. Both counts hold everything that was billed, cached tokens and reasoning included."""

    step: int
    input_tokens: int
    output_tokens: int
    finish_reason: str
    duration_ms: int

    def _line(self) -> str:
        tokens = f"{self.input_tokens} in, {self.output_tokens} out"
        return f"step {self.step} got a reply [{self.duration_ms}ms] ({tokens}, {self.finish_reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequestFailed(RunEvent):
    """The model call brought no reply; it failed, or was cut off, which is the error type `interrupted`."""

    step: int
    error: str = field(repr=False)
    error_type: str
    duration_ms: int | None

    def _line(self) -> str:
        return f"step {self.step} got no reply: {error_text(self.error, self.error_type)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFailed(RunEvent):
    """The model wrote something that could not be used: `tool_arguments`, or a `reply` that is none or was cut."""

    step: int
    validation_type: str
    errors: tuple[str, ...] = field(repr=False)

    def _said(self) -> dict[str, JsonValue]:
        return {**RunEvent._said(self), "errorCount": len(self.errors)}

    def _line(self) -> str:
        return f"step {self.step}: invalid {self.validation_type} (errors: {len(self.errors)})"
