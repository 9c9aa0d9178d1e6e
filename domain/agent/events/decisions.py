"""Events of decisions: the votes, the decisions that resolve them, and the retries and switches that follow."""

from enum import StrEnum

from steptrail.domain.base import Count, Draw, Positive, Seconds
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorType
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.run import StopReason


class DecisionPhase(StrEnum):
    """The moment at which votes are cast and a decision is taken."""

    BOUNDARY = "boundary"
    """Between two steps."""
    RESUME = "resume"
    """At the beginning of a segment elsewhere than at the boundary: only guards vote."""
    STOP = "stop"
    """After the Stop hooks: the decision is taken once more."""
    END = "end"
    """At the end of the execution: the vote of a hook that fails there. No decision comes after it."""


class EvaluationsRecorded(Event, frozen=True, kw_only=True):
    """Votes were cast. A decision resolves all votes since the decision before it, except those of `DecisionPhase.END`.

    `read_settings` says that a criterion of the agent's own read the run's limits, policy or prices. The setting that a
    built-in criterion used is in its vote. `HooksRan` says whether a hook read settings.
    """

    TYPE = "evaluations.recorded.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"hook", "votes"})
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    votes: tuple[ContinuationEvaluation, ...]
    hook: str | None = None
    read_settings: bool = False

    @property
    def counts_as(self) -> EventKind:
        """The vote of a hook is a fact. The votes of criteria are intents, because criteria can be asked anew."""
        return self.KIND if self.hook is None else EventKind.FACT


class ContinuationEvaluated(Event, frozen=True, kw_only=True):
    """A decision was taken after step `step` (0: before the first).

    `retries` says that the run goes on because the error policy grants the failed step another try. `answered` says
    that the run stops with an answer of the model, even if a limit is reached at the same moment.
    """

    TYPE = "continuation.evaluated.v1"
    KIND = EventKind.ANEW
    STATE = frozenset({"resolved_by"})
    step: Count
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    decision: ContinuationDecision
    should_continue: bool = True
    resolved_by: str
    stop_reason: StopReason = StopReason.COMPLETED
    retries: bool = False
    answered: bool = False


class RetryScheduled(Event, frozen=True, kw_only=True):
    """A failed step will be followed by another try after `delay_seconds`, at `due_at` (microseconds of UTC).

    The delay follows from the error policy and from `draw`, a random number.
    """

    TYPE = "retry.scheduled.v1"
    KIND = EventKind.INTENT
    error_type: ErrorType
    failures: Positive
    draw: Draw
    delay_seconds: Seconds
    due_at: int
    retry_after: float | None = None


class ModelSwitched(Event, frozen=True, kw_only=True):
    """The execution goes on with the next model of its agent, because the one before has failed too often.

    The last of those `failures` in a row was in step `step`, with an error of that type. They are counted anew.
    """

    TYPE = "model.switched.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"from_model", "to_model"})
    step: Positive
    from_model: str
    to_model: str
    error_type: ErrorType
    failures: Positive

    def __str__(self) -> str:
        """Return which model it goes on with, and why: `gpt-5 -> claude-x after 2 rate limits, step 4`."""
        what = {ErrorType.RATE_LIMIT: "rate limit", ErrorType.TIMEOUT: "timeout"}.get(self.error_type, "model error")
        many = f"{self.failures} {what}{'' if self.failures == 1 else 's'}"
        return f"{self.from_model} -> {self.to_model} after {many}, step {self.step}"


DecisionEvent = EvaluationsRecorded | ContinuationEvaluated | ModelSwitched | RetryScheduled
