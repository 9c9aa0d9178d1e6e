"""Votes and decisions are stored in short, read as they were stored before, and shown to everybody else in full."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StopReason
from steptrail.domain.base import full_form
from steptrail.domain.errors import CorruptRecord
from steptrail.events import ContinuationEvaluated, EvaluationsRecorded
from steptrail.infrastructure.store.core.blobs import no_blobs, read_record
from steptrail.infrastructure.store.core.codec import decode, encode
from tests.unit.continuation.fakes import ALLOW, FORBID, REQUEST, STOP

AT = 1_700_000_000_000_000

STEPS = ContinuationEvaluation(
    criterion_class="StepsLimit", decision=ALLOW, context={"currentSteps": 4, "maxSteps": 1002}
)
OWN = ContinuationEvaluation(
    criterion_class="app.Budget",
    decision=FORBID,
    given_reason="out of money",
    context={"left": -(2**70), "of": None},
    stop_reason=StopReason.TOKEN_LIMIT,
    fails=True,
    is_limit=True,
    setting="max_tokens",
)
BARE = ContinuationEvaluation.from_decision("app.Work", REQUEST)

votes = st.builds(
    ContinuationEvaluation,
    criterion_class=st.sampled_from(["StepsLimit", "app.Own", ""]),
    decision=st.sampled_from(ContinuationDecision),
    given_reason=st.none() | st.text(),
    context=st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=3),
    stop_reason=st.none() | st.sampled_from(StopReason),
    fails=st.booleans(),
    is_limit=st.booleans(),
    setting=st.none() | st.sampled_from(["max_steps", "error_policy"]),
)


def stored(*cast: ContinuationEvaluation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(encode(EvaluationsRecorded(votes=cast), AT))["votes"]
    return found


def test_a_vote_to_allow_is_stored_as_its_criterion_and_its_numbers() -> None:
    assert stored(STEPS) == [{"c": "StepsLimit", "x": {"currentSteps": 4, "maxSteps": 1002}}]


def test_what_holds_no_default_is_stored_beside_them() -> None:
    assert stored(OWN, BARE) == [
        {
            "c": "app.Budget",
            "d": "forbid",
            "x": {"left": -(2**70), "of": None},
            "s": "token_limit",
            "r": "out of money",
            "f": True,
            "l": True,
            "g": "max_tokens",
        },
        {"c": "app.Work", "d": "request"},
    ]


@given(st.lists(votes, max_size=4).map(tuple), st.sampled_from(["boundary", "resume", "stop"]), st.none() | st.text())
def test_votes_come_back_from_the_log_as_they_were_cast(
    cast: tuple[ContinuationEvaluation, ...], phase: Any, hook: str | None
) -> None:
    event = EvaluationsRecorded(votes=cast, phase=phase, hook=hook)
    read = decode(event.TYPE, encode(event, AT))
    assert read == (AT, event)
    assert isinstance(read[1], EvaluationsRecorded)
    assert {type(vote) for vote in read[1].votes} <= {ContinuationEvaluation}
    assert [vote.to_dict() for vote in read[1].votes] == [vote.to_dict() for vote in cast]


def test_other_programs_get_every_field_under_its_full_name_and_may_give_it_back() -> None:
    event = EvaluationsRecorded(votes=(STEPS, OWN))
    assert full_form(event)["votes"] == [
        {
            "criterion_class": "StepsLimit",
            "decision": "allow",
            "context": {"currentSteps": 4, "maxSteps": 1002},
            "stop_reason": None,
            "given_reason": None,
            "fails": False,
            "is_limit": False,
            "setting": None,
        },
        {
            "criterion_class": "app.Budget",
            "decision": "forbid",
            "context": {"left": -(2**70), "of": None},
            "stop_reason": "token_limit",
            "given_reason": "out of money",
            "fails": True,
            "is_limit": True,
            "setting": "max_tokens",
        },
    ]


@pytest.mark.parametrize(
    ("decision", "goes_on"),
    [(REQUEST, b""), (FORBID, b',"should_continue":false'), (STOP, b',"should_continue":false')],
)
def test_a_decision_says_that_the_run_goes_on_only_where_it_does_not(
    decision: ContinuationDecision, goes_on: bytes
) -> None:
    event = ContinuationEvaluated(step=3, decision=decision, should_continue=decision is REQUEST, resolved_by="app.Own")
    state = encode(event, AT)
    assert state == (
        b'{"@":1700000000000000,"step":3,"decision":"%s"%s,"resolved_by":"app.Own"}' % (decision.encode(), goes_on)
    )
    assert decode(event.TYPE, state) == (AT, event)


def test_a_decision_that_was_stored_with_it_is_read() -> None:
    old = b'{"@":1700000000000000,"step":3,"decision":"request","should_continue":true,"resolved_by":"app.Own"}'
    assert decode("continuation.evaluated.v1", old) == (
        AT,
        ContinuationEvaluated(step=3, decision=REQUEST, should_continue=True, resolved_by="app.Own"),
    )


@pytest.mark.parametrize(
    ("vote", "why"),
    [
        (b'{"d":"forbid"}', "votes[0].c: It is missing"),
        (b'{"c":"a","d":"perhaps"}', "votes[0].d: Invalid enum value 'perhaps'"),
        (b'{"c":"a","q":1}', "votes[0].q: There is no such field"),
        (b"7", "votes[0]: Expected `object`, got `int`"),
    ],
)
def test_a_vote_that_cannot_be_read_is_named_with_the_reason(vote: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        read_record(no_blobs, "agent:a", 3, EvaluationsRecorded.TYPE, AT, b'{"votes":[%s]}' % vote, None)
    assert why in caught.value.why
