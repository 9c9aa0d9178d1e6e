"""A set of criteria that decides as one. It is pure: it makes votes and an outcome from a state."""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, Final, TypeAlias, final

from msgspec import structs

from steptrail.domain.continuation.built_in import BuiltIn, built_in
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import chosen_name, own_name
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor
from steptrail.domain.continuation.protocols import CanDecideToContinue, CanExplainContinuation, Criterion, is_guard
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.views import StateView

Failed: TypeAlias = Callable[[str, Exception], ContinuationEvaluation]
"""Makes the vote of a criterion, given its name and the exception that it raised."""

_OF_GUARDS = frozenset({ContinuationDecision.ALLOW, ContinuationDecision.FORBID})

_CANCELLED = ("asyncio.exceptions", "CancelledError")

Voter: TypeAlias = Callable[[StateView], ContinuationEvaluation | None]
"""Asks a criterion for its vote; None when it abstains. A criterion of a service may return anything."""


@final
@built_in
class ContinuationCriteria:
    """Criteria in registration order. Immutable; a collection is a criterion too, so collections nest.

    Every criterion votes, also after another one forbade. A criterion that raises votes `forbid`, with its exception in
    the context. A nested collection casts one vote with its strongest decision, so that nesting never changes the
    outcome. Its own votes are in the context of that vote (`resolvedBy`, `evaluations`). It abstains when none of its
    criteria votes.

    `settings` names the setting of an agent by which each of the first criteria votes; None for a criterion without
    one. A forbid carries that name. Raises `ConfigurationError` for an object that is no criterion, and for a criterion
    of a service with a reserved name.
    """

    __slots__ = ("_criteria", "_heard", "_settings", "_voters", "name")

    def __init__(
        self, *criteria: Criterion, name: str = "ContinuationCriteria", settings: Sequence[str | None] = ()
    ) -> None:
        self._criteria = criteria
        self._heard = frozenset(ContinuationDecision)
        self._settings = (*settings, *[None] * (len(criteria) - len(settings)))
        self.name: Final = chosen_name(name, "ContinuationCriteria")
        self._voters: tuple[tuple[str, Voter], ...] = tuple(voter(criterion) for criterion in criteria)

    @classmethod
    def of(cls, *criteria: Criterion) -> "ContinuationCriteria":
        """Return a collection of these criteria."""
        return cls(*criteria)

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria in registration order."""
        return self._criteria

    @property
    def is_guard(self) -> bool:
        """Whether every criterion in it is a guard."""
        return bool(self._criteria) and all(is_guard(criterion) for criterion in self._criteria)

    def is_empty(self) -> bool:
        """Tell whether there are no criteria."""
        return not self._criteria

    def with_criteria(self, *criteria: Criterion) -> "ContinuationCriteria":
        """Return a new collection with these criteria at the end."""
        return ContinuationCriteria(*self._criteria, *criteria, name=self.name, settings=self._settings)

    def guards(self) -> "ContinuationCriteria":
        """Return a collection of the guards alone, also of those in nested collections. They vote on a resume.

        In it, only `allow` and `forbid` count. No work driver votes on a resume, so the `stop` of a predicate would
        not be overruled by a request, and would end the run in the middle of its work.
        """
        kept: list[Criterion] = []
        settings: list[str | None] = []
        for criterion, setting in zip(self._criteria, self._settings, strict=True):
            guard = criterion.guards() if isinstance(criterion, ContinuationCriteria) else criterion
            if is_guard(guard):
                kept.append(guard)
                settings.append(setting)
        guards = ContinuationCriteria(*kept, name=self.name, settings=settings)
        guards._heard = _OF_GUARDS
        return guards

    def votes(
        self, state: StateView, failed: Failed = ContinuationEvaluation.from_exception
    ) -> tuple[ContinuationEvaluation, ...]:
        """Return the votes in registration order, without those of criteria that abstain. Does not raise.

        `failed` returns the vote of a criterion that raised.
        """
        cast: list[ContinuationEvaluation] = []
        for criterion, (name, ask), setting in zip(self._criteria, self._voters, self._settings, strict=True):
            try:
                vote = criterion.explain(state, failed) if isinstance(criterion, ContinuationCriteria) else ask(state)
                if vote is not None and not vote.is_plain:
                    vote = vote.as_stored()  # collections may be nested deeper than the log can hold
            except BaseException as error:
                vote = failed(name, _failure(error))
            if vote is not None and vote.decision in self._heard:
                of_a_setting = setting is not None and vote.decision is ContinuationDecision.FORBID
                cast.append(structs.replace(vote, setting=setting) if of_a_setting else vote)
        return tuple(cast)

    def evaluate(self, state: StateView) -> ContinuationOutcome:
        """Let all criteria vote, and resolve the votes. An empty collection stops the run, resolved by its own name."""
        if not self._criteria:
            return ContinuationOutcome.empty(self.name)
        return ContinuationOutcome.from_evaluations(self.votes(state))

    def can_continue(self, state: StateView) -> bool:
        """Tell whether the run goes on."""
        return self.evaluate(state).should_continue

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Return the decision of the outcome."""
        return self.evaluate(state).decision

    def explain(
        self, state: StateView, /, failed: Failed = ContinuationEvaluation.from_exception
    ) -> ContinuationEvaluation | None:
        """Return the one vote of a nested collection; None when it abstains.

        `decide` returns `request` for a run that may go on. This returns `allow` when only guards have voted: guards
        that do not object must not request another step, just because they are grouped in a collection.
        """
        votes = self.votes(state, failed)
        decision = EvaluationProcessor.dominant(votes)
        if decision is None:
            return None
        outcome = ContinuationOutcome.from_evaluations(votes)
        decider = outcome.deciding_vote
        return ContinuationEvaluation(
            criterion_class=self.name,
            decision=decision,
            context={"resolvedBy": outcome.resolved_by, "evaluations": [_inner(vote) for vote in votes]},
            stop_reason=None if outcome.should_continue else outcome.stop_reason,
            fails=decider is not None and EvaluationProcessor.fails(decider),
            is_limit=decision is ContinuationDecision.FORBID and not outcome.objects_to_the_answer,
        )


def voter(criterion: object) -> tuple[str, Voter]:
    """Return the name of a criterion, and a function that asks it for its vote. Raises `ConfigurationError`."""
    if isinstance(criterion, type):
        raise ConfigurationError(f"{criterion.__qualname__} is a class: a criterion is an instance of it")
    if isinstance(criterion, BuiltIn):
        return own_name(criterion), criterion.explain
    if isinstance(criterion, CanExplainContinuation):
        explain = criterion.explain
        return own_name(criterion), lambda state: _checked(explain(state))
    if isinstance(criterion, CanDecideToContinue):
        name, decide = own_name(criterion), criterion.decide
        return name, lambda state: ContinuationEvaluation.from_decision(name, _decided(decide(state))).as_stored()
    raise ConfigurationError(
        f"{criterion!r} is not a criterion: it has neither `explain(state)`, which returns a `ContinuationEvaluation` "
        "or None, nor `decide(state)`, which returns a `ContinuationDecision`; wrap a function in `CallableCriterion`"
    )


def _checked(answer: object) -> ContinuationEvaluation | None:
    """Return a copy of the answer of a criterion as a vote that can be stored. Raises for one that is none."""
    if answer is None:
        return None
    if not isinstance(answer, ContinuationEvaluation):
        raise _wrong("explain", answer, "a ContinuationEvaluation")
    return answer.as_stored()


def _decided(answer: Any) -> ContinuationDecision:
    """Return the answer of a criterion as a decision. Raises for one that is none, such as a forgotten `return`."""
    try:
        return ContinuationDecision(answer)
    except ValueError:
        raise _wrong("decide", answer, "a ContinuationDecision") from None


def _wrong(method: str, answer: object, wanted: str) -> TypeError:
    said = repr(answer) if isinstance(answer, str) else type(answer).__name__
    if not isawaitable(answer):
        return TypeError(f"{method}() returned {said}, not {wanted}")
    getattr(answer, "close", lambda: None)()  # or Python warns that it was never awaited
    return TypeError(f"{method}() is async, and nobody awaits a criterion: a hook may be async")


def _failure(error: BaseException) -> Exception:
    """Return what a criterion raised, as a failure; raises again what is to end the process.

    Nothing waits in a criterion, so a cancellation is nobody's request. It is known by its name: nothing here may
    import what runs a loop.
    """
    if isinstance(error, Exception):
        return error
    if any((kind.__module__, kind.__name__) == _CANCELLED for kind in type(error).__mro__):
        return RuntimeError("the criterion cancelled itself, and nobody had asked it to")
    raise error


def _inner(vote: ContinuationEvaluation) -> dict[str, JsonValue]:
    """Return the wire form of a nested vote, without a text that can be rendered again."""
    form: dict[str, JsonValue] = {"criterion": vote.criterion_class, "decision": vote.decision.value}
    if vote.given_reason is not None:
        form["reason"] = vote.given_reason
    return {**form, "context": dict(vote.context), "stopReason": vote.stop_reason and vote.stop_reason.value}
