"""Votes and decisions are stored in short, read as they were stored before, and shown to everybody else in full."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StopReason
from steptrail.domain.errors import CorruptRecord
from steptrail.events import ContinuationEvaluated, EvaluationsRecorded
from steptrail.infrastructure.store.core.codec import decode, decode_record, encode, stored_names
from tests.unit.continuation.fakes import ALLOW, FORBID, REQUEST, STOP

AT = 1_700_000_000_000_000
RETIRED = "evaluations.recorded.v1"

STEPS = ContinuationEvaluation(
    criterion_class="StepsLimit", decision=ALLOW, context={"currentSteps": 4, "maxSteps": 1002}
)
OWN = ContinuationEvaluation(
    criterion_class="app.Budget",
    decision=FORBID,
    reason="out of money",
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
    reason=st.none() | st.text(),
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


def test_votes_that_were_stored_under_their_full_names_are_read() -> None:
    old = (
        b'{"@":1700000000000000,"votes":['
        b'{"criterion_class":"StepsLimit","decision":"allow","context":{"currentSteps":4,"maxSteps":1002}},'
        b'{"criterion_class":"app.Budget","decision":"forbid","context":{"left":-1180591620717411303424,"of":null},'
        b'"stop_reason":"token_limit","reason":"out of money","fails":true,"is_limit":true,"setting":"max_tokens"},'
        b'{"criterion_class":"app.Work","decision":"request"}]}'
    )
    assert decode(RETIRED, old) == (AT, EvaluationsRecorded(votes=(STEPS, OWN, BARE)))


def test_asking_for_votes_finds_those_under_the_retired_name_too() -> None:
    assert stored_names([EvaluationsRecorded.TYPE]) == (RETIRED, EvaluationsRecorded.TYPE)


def test_other_programs_get_every_field_under_its_full_name_and_may_give_it_back() -> None:
    event = EvaluationsRecorded(votes=(STEPS, OWN))
    for plain in (event.model_dump(mode="json", by_alias=True), json.loads(event.model_dump_json(by_alias=True))):
        assert plain["votes"] == [
            {
                "criterion_class": "StepsLimit",
                "decision": "allow",
                "context": {"currentSteps": 4, "maxSteps": 1002},
                "stop_reason": None,
                "reason": None,
                "fails": False,
                "is_limit": False,
                "setting": None,
            },
            {
                "criterion_class": "app.Budget",
                "decision": "forbid",
                "context": {"left": -(2**70), "of": None},
                "stop_reason": "token_limit",
                "reason": "out of money",
                "fails": True,
                "is_limit": True,
                "setting": "max_tokens",
            },
        ]
    assert EvaluationsRecorded.model_validate_json(event.model_dump_json(by_alias=True)) == event


def test_python_does_not_know_the_short_names() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        EvaluationsRecorded.model_validate({"votes": [{"c": "StepsLimit", "d": "allow"}]})
    with pytest.raises(ValidationError, match="decision\n  Field required"):
        EvaluationsRecorded.model_validate({"votes": [{"criterion_class": "StepsLimit"}]})


def test_a_reason_that_the_numbers_imply_is_nobodys_own_also_when_it_is_read() -> None:
    state = b'{"@":1700000000000000,"votes":[{"c":"app.Work","d":"request","r":"Work requested continuation"}]}'
    assert decode(EvaluationsRecorded.TYPE, state) == (AT, EvaluationsRecorded(votes=(BARE,)))


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
        (b'{"d":"forbid"}', "votes.0.c: Field required"),
        (b'{"c":"a","d":"perhaps"}', "votes.0.d: Input should be 'forbid'"),
        (b'{"c":"a","q":1}', "votes.0.q: Extra inputs"),
        (b"7", "votes.0: Input should be an object"),
    ],
)
def test_a_vote_that_cannot_be_read_is_named_with_the_reason(vote: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        decode_record("agent:a", 3, EvaluationsRecorded.TYPE, b'{"@":1700000000000000,"votes":[%s]}' % vote, None)
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("retired", "body", "why"),
    [
        (RETIRED, b'"votes":[{"criterion_class":"a"}]', "a vote has no decision"),
        ("continuation.evaluated.v1", b'"step":0,"decision":"stop","resolved_by":"a"', "does not say whether"),
    ],
)
def test_what_may_be_left_out_now_was_not_left_out_then(retired: str, body: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why):
        decode_record("agent:a", 3, retired, b'{"@":1700000000000000,%s}' % body, None)
