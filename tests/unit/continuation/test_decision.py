from itertools import chain, combinations

import pytest

from steptrail.continuation import ContinuationDecision, StopReason
from tests.unit.continuation.fakes import ALLOW, FORBID, REQUEST, STOP

SUBSETS = list(chain.from_iterable(combinations((FORBID, REQUEST, STOP, ALLOW), size) for size in range(5)))

GOING_ON = {
    frozenset({ALLOW}),
    frozenset({REQUEST}),
    frozenset({REQUEST, ALLOW}),
    frozenset({REQUEST, STOP}),
    frozenset({REQUEST, STOP, ALLOW}),
}


def test_there_are_four_decisions_with_their_wire_values() -> None:
    assert {decision.name: decision.value for decision in ContinuationDecision} == {
        "FORBID": "forbid",
        "REQUEST": "request",
        "STOP": "stop",
        "ALLOW": "allow",
    }


@pytest.mark.acceptance("2.1-1")
def test_there_are_nine_stop_reasons_with_their_wire_values() -> None:
    assert [(reason.name, reason.value) for reason in StopReason] == [
        ("COMPLETED", "completed"),
        ("STEPS_LIMIT", "steps_limit"),
        ("TOKEN_LIMIT", "token_limit"),
        ("TIME_LIMIT", "time_limit"),
        ("RETRY_LIMIT", "retry_limit"),
        ("ERROR", "error"),
        ("FINISH_REASON", "finish_reason"),
        ("GUARD", "guard"),
        ("USER_REQUESTED", "user_requested"),
    ]


@pytest.mark.parametrize("present", SUBSETS, ids=lambda present: "+".join(present) or "nothing")
def test_every_subset_of_decisions_resolves_by_strength(present: tuple[ContinuationDecision, ...]) -> None:
    assert ContinuationDecision.can_continue_with(*present) is (frozenset(present) in GOING_ON)


def test_there_are_sixteen_subsets() -> None:
    assert len({frozenset(present) for present in SUBSETS}) == 16


def test_repeating_a_decision_changes_nothing() -> None:
    assert ContinuationDecision.can_continue_with(ALLOW, ALLOW, REQUEST, STOP, STOP) is True
    assert ContinuationDecision.can_continue_with(REQUEST, REQUEST, FORBID) is False
