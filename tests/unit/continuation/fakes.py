"""The state and the steps that criteria read, as plain frozen values: no agent, no events."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StateView
from steptrail.domain.inference import FinishReason
from steptrail.domain.output import OutputProblem, OutputVerdict
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.errors import ErrorInfo, ErrorType, StepError

FORBID, ALLOW = ContinuationDecision.FORBID, ContinuationDecision.ALLOW
REQUEST, STOP = ContinuationDecision.REQUEST, ContinuationDecision.STOP


@dataclass(frozen=True, kw_only=True)
class FakeStep:
    number: int = 1
    errors: Sequence[StepError] = ()
    has_tool_calls: bool = False
    finish_reason: FinishReason | None = FinishReason.STOP
    raw_finish_reason: str | None = None
    text: str = ""
    output_verdict: OutputVerdict | None = None
    output_problems: Sequence[OutputProblem] = ()

    @property
    def has_errors(self) -> bool:
        return bool(self.errors)


@dataclass(frozen=True, kw_only=True)
class FakeStop:
    by: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class FakeState:
    """Counts its own steps and failures, so that a test cannot contradict itself."""

    agent_id: str = "triage-7"
    data: object = None
    steps: Sequence[FakeStep] = ()
    usage: Usage = field(default_factory=Usage)
    model_name: str | None = "scripted"
    model_usage: Sequence[ModelUsage] = ()
    elapsed_seconds: float = 0.0
    cumulative_execution_seconds: float = 0.0
    stop_request: FakeStop | None = None
    unproductive_segments: int = 0
    tool_call_count: int = 0
    tool_calls_refused: int = 0
    has_unanswered_input: bool = False
    output_rejections: int = 0
    context_tokens: int = 0
    compactions_in_a_row: int = 0

    @property
    def step_count(self) -> int:
        return len(self.steps)

    @property
    def current_step(self) -> FakeStep | None:
        return self.steps[-1] if self.steps else None

    @property
    def consecutive_failures(self) -> int:
        clean = [place for place, step in enumerate(self.steps, start=1) if not step.has_errors]
        return len(self.steps) - (clean[-1] if clean else 0)

    @property
    def total_failures(self) -> int:
        return sum(step.has_errors for step in self.steps)


@dataclass(frozen=True)
class Decides:
    """A criterion that only decides, under a name of its own."""

    decision: ContinuationDecision
    name: str = "app.Custom"

    def decide(self, state: StateView, /) -> ContinuationDecision:
        return self.decision


@dataclass(frozen=True)
class Explains:
    """A criterion that casts one prepared vote, or abstains; deciding would be a mistake."""

    vote: ContinuationEvaluation | None

    def decide(self, state: StateView, /) -> ContinuationDecision:
        raise AssertionError("a criterion that explains is not asked to decide")

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        return self.vote


@dataclass(frozen=True)
class Raises:
    error: Exception
    name: str = "app.Broken"

    def decide(self, state: StateView, /) -> ContinuationDecision:
        raise self.error


def vote(decision: ContinuationDecision, criterion: str = "app.Custom") -> ContinuationEvaluation:
    return ContinuationEvaluation.from_decision(criterion, decision)


def error(
    error_type: ErrorType = ErrorType.TOOL,
    message: str = "no such order",
    *,
    tool: str | None = "search",
    retryable: bool = True,
    retry_after: float | None = None,
) -> StepError:
    info = ErrorInfo(
        type=error_type,
        error_class="builtins:LookupError",
        message=message,
        retryable=retryable,
        retry_after=retry_after,
    )
    return StepError(error=info, tool_name=tool)


def failed(*errors: StepError, tool_calls: bool = True) -> FakeStep:
    return FakeStep(errors=errors or (error(),), has_tool_calls=tool_calls, finish_reason=FinishReason.TOOL_CALLS)


def after(*steps: FakeStep) -> FakeState:
    return FakeState(steps=steps)


CLEAN = FakeStep(text="Two orders are late.")
"""A step that answered."""

CALLED = FakeStep(has_tool_calls=True, finish_reason=FinishReason.TOOL_CALLS)
"""A step that called tools, all of which returned."""
