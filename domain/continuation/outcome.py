"""The votes of one decision, resolved, with the trace that explains it."""

from collections.abc import Mapping, Sequence

from steptrail.domain.base import Value, an_object, made
from steptrail.domain.camel_case import fields_by_key, in_camel_case
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.continuation.processor import AGGREGATE, EvaluationProcessor
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import StopReason


class ContinuationOutcome(Value, frozen=True, kw_only=True):
    """The outcome of a decision: the result, the criterion that decided, and all votes in registration order.

    `resolved_by` is the name of the criterion that forbade or requested, or `aggregate` when no single one decided.
    Names need not be unique; `deciding_vote` is the vote itself. `stop_reason` has a meaning only when
    `should_continue` is false; while the run goes on it is `completed`.
    """

    decision: ContinuationDecision
    should_continue: bool
    resolved_by: str
    stop_reason: StopReason
    evaluations: tuple[ContinuationEvaluation, ...] = ()

    @classmethod
    def from_evaluations(cls, evaluations: Sequence[ContinuationEvaluation]) -> "ContinuationOutcome":
        """Resolve votes. No votes stop the run."""
        decider = EvaluationProcessor.decider(evaluations)
        # A vote that decides is the strongest there is.
        decision = EvaluationProcessor.resolve(evaluations) if decider is None else decider.decision
        return cls(
            decision=decision,
            should_continue=decision is ContinuationDecision.REQUEST,
            resolved_by=AGGREGATE if decider is None else decider.criterion_class,
            stop_reason=EvaluationProcessor.stop_reason_of(decider),
            evaluations=tuple(evaluations),
        )

    @classmethod
    def empty(cls, resolved_by: str = AGGREGATE) -> "ContinuationOutcome":
        """Return the outcome of a decision without votes: the run stops, `completed`."""
        return cls(
            decision=ContinuationDecision.STOP,
            should_continue=False,
            resolved_by=resolved_by,
            stop_reason=StopReason.COMPLETED,
        )

    @property
    def deciding_vote(self) -> ContinuationEvaluation | None:
        """The vote that decided; None when no single vote did."""
        # The wire form of a vote lacks `fails`. For an outcome that was read from it, `resolved_by` narrows the search.
        return EvaluationProcessor.decider([v for v in self.evaluations if v.criterion_class == self.resolved_by])

    def get_evaluation_for(self, criterion: str | type) -> ContinuationEvaluation | None:
        """Return the first vote of a criterion, given its name in the trace or its class."""
        name = criterion if isinstance(criterion, str) else criterion_name(criterion)
        return next((vote for vote in self.evaluations if vote.criterion_class == name), None)

    def get_forbidding_criterion(self) -> str | None:
        """Return the name of the criterion whose forbid decided; None when there is no forbid."""
        vote = self.deciding_vote
        return vote.criterion_class if vote is not None and vote.decision is ContinuationDecision.FORBID else None

    def is_forbidden(self) -> bool:
        """Tell whether a guard forbade. That is more than a stop: no hook can override a forbidden outcome."""
        return self.decision is ContinuationDecision.FORBID or self.get_forbidding_criterion() is not None

    @property
    def objects_to_the_answer(self) -> bool:
        """Whether any vote requests to go on, or forbids for another reason than a reached limit."""
        return any(
            vote.decision is ContinuationDecision.REQUEST
            or (vote.decision is ContinuationDecision.FORBID and not vote.is_limit)
            for vote in self.evaluations
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the wire form: `decision`, `shouldContinue`, `resolvedBy`, `stopReason`, `evaluations`."""
        return {**in_camel_case(self), "evaluations": [vote.to_dict() for vote in self.evaluations]}

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "ContinuationOutcome":
        """Make an outcome from its wire form. Raises `ValueError` for a missing key or a value of the wrong type."""
        names = fields_by_key(cls)
        missing = [key for key in names if key not in an_object(data, "an outcome")]
        if missing:
            raise ValueError(f"an outcome needs {' and '.join(map(repr, missing))}; it has {sorted(data)}")
        votes = data["evaluations"]
        if not isinstance(votes, list):
            raise ValueError(f"the evaluations of an outcome are a list, not {type(votes).__name__}")
        cast = tuple(ContinuationEvaluation.from_dict(an_object(vote, "a vote")) for vote in votes)
        return made(cls, {name: data[key] for key, name in names.items()} | {"evaluations": cast})
