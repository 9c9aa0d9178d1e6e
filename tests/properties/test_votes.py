"""What holds for any votes at all."""

from collections.abc import Sequence

import msgspec
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.continuation import (
    ContinuationCriteria,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    Criterion,
    EvaluationProcessor,
    Shadow,
    StateView,
    StopReason,
    criterion_name,
)
from steptrail.domain.continuation.names import is_reserved
from steptrail.domain.json_value import JsonValue
from steptrail.errors import Backoff, BackoffKind, ErrorContext, ErrorHandlingDecision, ErrorPolicy, ErrorType
from tests.unit.continuation.fakes import Decides, Explains, FakeState, Raises

STATE = FakeState()
FORBID = ContinuationDecision.FORBID

decisions = st.sampled_from(ContinuationDecision)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text()
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)
BUILT_IN = ("StepsLimit", "FinishReasonCheck", "ErrorPolicyCriterion", "UserStop", "ContinuationCriteria")
KEYS = ("currentSteps", "maxSteps", "finishReason", "stopReasons", "resolvedBy", "evaluations", "stopRequested")
names = st.sampled_from(BUILT_IN) | st.text()
contexts: st.SearchStrategy[dict[str, JsonValue]] = st.dictionaries(
    st.sampled_from(KEYS) | st.text(), json_values, max_size=4
)
votes = st.builds(
    ContinuationEvaluation,
    criterion_class=names,
    decision=decisions,
    given_reason=st.none() | st.text(),
    context=contexts,
    stop_reason=st.none() | st.sampled_from(StopReason),
    fails=st.booleans(),
    is_limit=st.booleans(),
)
app_names = names.filter(lambda name: not is_reserved(name))
leaves: st.SearchStrategy[Criterion] = st.one_of(
    st.builds(Decides, decisions, app_names),
    st.builds(Explains, st.none() | votes),
    st.builds(Raises, st.builds(ValueError, st.text())),
)
trees: st.SearchStrategy[Criterion] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4).map(lambda members: ContinuationCriteria(*members)),
    max_leaves=10,
)
contexts_of_errors = st.builds(
    ErrorContext,
    type=st.sampled_from(ErrorType),
    consecutive_failures=st.integers(0, 20),
    total_failures=st.integers(0, 20),
    message=st.none() | st.text(),
    tool_name=st.none() | st.text(),
    metadata=st.dictionaries(st.sampled_from(("retryable", "retryAfter")) | st.text(), json_values, max_size=3),
)
handlings = st.sampled_from(ErrorHandlingDecision)
seconds = st.floats(0, 1e9)
backoffs = st.builds(
    Backoff,
    kind=st.sampled_from(BackoffKind),
    base_seconds=seconds,
    max_seconds=seconds,
    jitter=st.floats(0, 1),
)
policies = st.builds(
    ErrorPolicy,
    on_tool_error=handlings,
    on_model_error=handlings,
    on_validation_error=handlings,
    on_rate_limit_error=handlings,
    on_timeout_error=handlings,
    on_unknown_error=handlings,
    max_retries=st.integers(0, 20),
    backoff=backoffs,
)


class Guarding:
    """A criterion that says it is a guard."""

    is_guard = True

    def __init__(self, criterion: Criterion) -> None:
        self._inner = ContinuationCriteria(criterion)

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        return next(iter(self._inner.votes(state)), None)


def flatten(criteria: Sequence[Criterion]) -> list[Criterion]:
    flat: list[Criterion] = []
    for criterion in criteria:
        flat.extend(flatten(criterion.criteria) if isinstance(criterion, ContinuationCriteria) else [criterion])
    return flat


@given(st.data(), st.lists(votes, max_size=8))
def test_the_resolution_does_not_depend_on_the_order(data: st.DataObject, cast: list[ContinuationEvaluation]) -> None:
    shuffled = data.draw(st.permutations(cast))
    before, after = (ContinuationOutcome.from_evaluations(order) for order in (cast, shuffled))
    assert (after.decision, after.should_continue) == (before.decision, before.should_continue)
    assert EvaluationProcessor.dominant(shuffled) is EvaluationProcessor.dominant(cast)


@given(st.lists(decisions))
def test_the_strongest_decision_present_wins(present: list[ContinuationDecision]) -> None:
    strength = list(ContinuationDecision)
    strongest = min(present, key=strength.index, default=None)
    goes_on = (ContinuationDecision.REQUEST, ContinuationDecision.ALLOW)
    assert ContinuationDecision.can_continue_with(*present) is (strongest in goes_on)


@given(st.lists(trees, max_size=5))
def test_no_criterion_overrides_a_forbid_however_deep_it_is(members: list[Criterion]) -> None:
    forbidden = any(
        vote.decision is FORBID for leaf in flatten(members) for vote in ContinuationCriteria(leaf).votes(STATE)
    )
    outcome = ContinuationCriteria(*members).evaluate(STATE)
    assert outcome.is_forbidden() is forbidden
    assert (outcome.decision is FORBID) is forbidden
    if forbidden:
        assert outcome.should_continue is False


@given(st.data(), st.lists(trees, min_size=1, max_size=4), st.lists(leaves, max_size=4))
def test_guards_in_shadow_change_nothing_wherever_they_stand(
    data: st.DataObject, members: list[Criterion], on_trial: list[Criterion]
) -> None:
    shadows: list[Criterion] = [Shadow(Guarding(each)) for each in on_trial]
    mixed = ContinuationCriteria(*data.draw(st.permutations([*members, *shadows]))).evaluate(STATE)
    plain = ContinuationCriteria(*members).evaluate(STATE)
    if plain.evaluations:  # where nobody votes, an `allow` of anybody's goes on
        assert (mixed.decision, mixed.should_continue) == (plain.decision, plain.should_continue)
    assert all(
        vote.decision is ContinuationDecision.ALLOW
        for each in shadows
        for vote in ContinuationCriteria(each).votes(STATE)
    )


@given(votes)
def test_a_vote_in_shadow_keeps_what_it_would_have_been_in_the_store_and_on_the_wire(
    vote: ContinuationEvaluation,
) -> None:
    shadow = vote.in_shadow()
    assert (shadow.decision, shadow.shadow, shadow.stop_reason) == (ContinuationDecision.ALLOW, vote.decision, None)
    stored = msgspec.json.encode(shadow)
    assert msgspec.json.decode(stored, type=ContinuationEvaluation) == shadow
    assert ContinuationEvaluation.from_dict(shadow.to_dict()) == shadow


@given(st.lists(trees, min_size=1, max_size=5))
def test_nesting_never_changes_what_the_whole_decides(members: list[Criterion]) -> None:
    nested = ContinuationCriteria(*members).evaluate(STATE)
    flat = ContinuationOutcome.from_evaluations(ContinuationCriteria(*flatten(members)).votes(STATE))
    assert (nested.decision, nested.should_continue) == (flat.decision, flat.should_continue)
    assert nested.stop_reason is flat.stop_reason


@given(st.lists(leaves, max_size=6))
def test_every_criterion_that_does_not_abstain_is_in_the_trace_in_order(members: list[Criterion]) -> None:
    speaking = [member for member in members if not (isinstance(member, Explains) and member.vote is None)]
    trace = ContinuationCriteria(*members).votes(STATE)
    assert [vote.criterion_class for vote in trace] == [
        member.vote.criterion_class if isinstance(member, Explains) and member.vote else criterion_name(member)
        for member in speaking
    ]


@given(votes)
def test_a_vote_survives_the_store_and_the_wire(vote: ContinuationEvaluation) -> None:
    stored = msgspec.json.encode(vote)
    read = msgspec.json.decode(stored, type=ContinuationEvaluation)
    assert read == vote
    assert read.reason == vote.reason
    # What a forbid means for a run is said by the run's status, and not on the wire.
    plain = structs.replace(vote, fails=False, is_limit=False)
    assert ContinuationEvaluation.from_dict(vote.to_dict()) == plain


@given(st.lists(votes, max_size=5))
def test_an_outcome_survives_the_store_and_the_wire(cast: list[ContinuationEvaluation]) -> None:
    outcome = ContinuationOutcome.from_evaluations(cast)
    stored = msgspec.json.encode(outcome)
    assert msgspec.json.decode(stored, type=ContinuationOutcome) == outcome
    read = ContinuationOutcome.from_dict(outcome.to_dict())
    assert read.to_dict() == outcome.to_dict()


@given(contexts_of_errors, policies)
def test_errors_and_policies_survive_the_store_and_the_wire(context: ErrorContext, policy: ErrorPolicy) -> None:
    assert ErrorContext.from_dict(context.to_dict()) == context
    assert msgspec.json.decode(msgspec.json.encode(context), type=ErrorContext) == context
    assert ErrorPolicy.from_dict(policy.to_dict()) == policy
    assert msgspec.json.decode(msgspec.json.encode(policy), type=ErrorPolicy) == policy


@given(policies, contexts_of_errors, st.integers(1, 40), st.integers(0, 40))
def test_a_policy_that_stopped_never_goes_on_because_more_failed(
    policy: ErrorPolicy, context: ErrorContext, failures: int, more: int
) -> None:
    def handling(count: int) -> ErrorHandlingDecision:
        return policy.evaluate(structs.replace(context, consecutive_failures=count))

    few, many = handling(failures), handling(failures + more)
    assert many is few or (few is ErrorHandlingDecision.RETRY and many is ErrorHandlingDecision.STOP)


@given(policies, contexts_of_errors)
def test_more_retries_never_stop_what_fewer_allowed(policy: ErrorPolicy, context: ErrorContext) -> None:
    generous = policy.with_max_retries(policy.max_retries + 1).evaluate(context)
    assert policy.evaluate(context) in (generous, ErrorHandlingDecision.STOP)


@given(backoffs, st.integers(1, 5000), st.floats(0, 1, exclude_max=True), st.none() | seconds)
def test_a_delay_stays_between_what_was_asked_for_and_the_cap(
    backoff: Backoff, failures: int, draw: float, retry_after: float | None
) -> None:
    delay = backoff.delay(failures, draw, retry_after)
    assert (retry_after or 0.0) <= delay <= max(backoff.max_seconds, retry_after or 0.0)
    assert backoff.delay(failures + 1, draw, retry_after) >= delay
