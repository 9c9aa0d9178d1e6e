"""A guard in shadow says what it would have voted, and its vote decides nothing."""

import pytest

from steptrail.continuation import (
    CallableCriterion,
    ContinuationCriteria,
    ContinuationDecision,
    ContinuationEvaluation,
    Criterion,
    Shadow,
    StepsLimit,
    StopReason,
    ToolCallLimit,
    ToolCallPresenceCheck,
)
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError
from tests.unit.continuation.fakes import ALLOW, CALLED, FORBID, REQUEST, Decides, FakeState, after


def voted(criterion: Criterion, state: FakeState) -> ContinuationEvaluation:
    (vote,) = ContinuationCriteria(criterion).votes(state)
    return vote


def breaks(_: object) -> bool:
    raise RuntimeError("no connection")


def test_a_limit_under_its_number_says_that_it_would_allow() -> None:
    vote = voted(Shadow(StepsLimit(2)), after(CALLED))
    assert vote.context == {"currentSteps": 1, "maxSteps": 2, "shadow": "allow"}
    assert (vote.shadow, vote.decision, vote.reason) == (ALLOW, ALLOW, "Steps under limit: 1/2 (shadow)")


def test_a_limit_at_its_number_says_that_it_would_forbid_and_why_and_allows() -> None:
    vote = voted(Shadow(StepsLimit(2)), after(CALLED, CALLED))
    assert vote.context == {"currentSteps": 2, "maxSteps": 2, "shadow": "forbid", "shadowStopReason": "steps_limit"}
    assert (vote.decision, vote.stop_reason, vote.shadow) == (ALLOW, None, FORBID)
    assert (vote.criterion_class, vote.reason) == ("StepsLimit", "Step limit reached: 2/2 (shadow)")
    assert Shadow(StepsLimit(2)).decide(after(CALLED, CALLED)) is ALLOW


def test_a_guard_that_raises_in_shadow_stops_nothing() -> None:
    vote = voted(Shadow(CallableCriterion(breaks, name="bank")), after())
    assert (vote.criterion_class, vote.decision, vote.shadow) == ("bank", ALLOW, FORBID)
    assert vote.reason == "Continuation evaluation failed: no connection (shadow)"
    assert vote.context["shadowStopReason"] == StopReason.ERROR


def test_a_guard_of_ones_own_speaks_with_its_name() -> None:
    vote = voted(Shadow(CallableCriterion(lambda _: False, name="budget")), after())
    assert vote.reason == "budget forbade continuation (shadow)"


def test_nested_guards_can_be_in_shadow_together() -> None:
    vote = voted(Shadow(ContinuationCriteria(StepsLimit(1), ToolCallLimit(3), name="trial")), after(CALLED))
    assert (vote.criterion_class, vote.shadow) == ("trial", FORBID)
    assert vote.reason == "StepsLimit: Step limit reached: 1/1 (shadow)"


def test_in_shadow_the_calls_too_many_were_run_and_still_count_as_too_many() -> None:
    votes = [voted(Shadow(ToolCallLimit(3)), FakeState(tool_call_count=made)) for made in (3, 4)]
    assert [vote.shadow for vote in votes] == [ALLOW, FORBID]


@pytest.mark.parametrize("criterion", [ToolCallPresenceCheck(), Decides(REQUEST)])
def test_only_a_guard_can_be_in_shadow(criterion: Criterion) -> None:
    with pytest.raises(ConfigurationError, match="is not a guard, and only a guard can be in shadow"):
        Shadow(criterion)


def test_it_votes_on_resume_as_its_guard_does() -> None:
    assert not ContinuationCriteria(Shadow(StepsLimit(1))).guards().is_empty()


@pytest.mark.parametrize("told", ["maybe", 3, None, ["forbid"]])
def test_a_context_that_only_looks_like_it_is_no_shadow(told: str | int | list[str] | None) -> None:
    shown: JsonValue = [*told] if isinstance(told, list) else told
    vote = ContinuationEvaluation.from_decision("lamp", ALLOW, context={"shadow": shown})
    assert (vote.shadow, vote.reason) == (None, "lamp permits continuation")


@pytest.mark.parametrize("decision", [d for d in ContinuationDecision if d is not ALLOW])
def test_a_vote_that_is_no_allow_counts_whatever_it_says(decision: ContinuationDecision) -> None:
    vote = ContinuationEvaluation(criterion_class="lamp", decision=decision, context={"shadow": "forbid"})
    assert vote.shadow is None
