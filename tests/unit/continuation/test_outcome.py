import pytest
from msgspec import structs

from steptrail.continuation import (
    ContinuationCriteria,
    ContinuationEvaluation,
    ContinuationOutcome,
    EvaluationProcessor,
    StepsLimit,
    StopReason,
)
from steptrail.domain.json_value import JsonValue
from tests.unit.continuation.fakes import ALLOW, CALLED, FORBID, REQUEST, STOP, Explains, after, vote


def outcome(*votes: ContinuationEvaluation) -> ContinuationOutcome:
    return ContinuationOutcome.from_evaluations(votes)


def summary(result: ContinuationOutcome) -> tuple[str, bool, str, str]:
    return result.decision.value, result.should_continue, result.resolved_by, result.stop_reason.value


def test_a_forbid_is_named_and_gives_its_stop_reason() -> None:
    ceiling = ContinuationEvaluation.from_decision("app.Budget", FORBID, StopReason.TOKEN_LIMIT)
    result = outcome(vote(REQUEST), ceiling, vote(FORBID, "app.Second"))
    assert summary(result) == ("forbid", False, "app.Budget", "token_limit")


def test_a_request_is_named_and_the_run_goes_on() -> None:
    result = outcome(vote(ALLOW), vote(STOP), vote(REQUEST, "app.First"), vote(REQUEST, "app.Second"))
    assert summary(result) == ("request", True, "app.First", "completed")


def test_going_on_because_nobody_objects_is_nobodys_decision() -> None:
    assert summary(outcome(vote(ALLOW), vote(ALLOW))) == ("request", True, "aggregate", "completed")


def test_stopping_because_the_work_is_done_is_nobodys_decision() -> None:
    assert summary(outcome(vote(ALLOW), vote(STOP))) == ("stop", False, "aggregate", "completed")


def test_no_votes_stop_the_run() -> None:
    assert summary(outcome()) == ("stop", False, "aggregate", "completed")
    assert outcome() == ContinuationOutcome.empty()


def test_nobody_is_the_strongest_of_no_votes() -> None:
    assert EvaluationProcessor.dominant(()) is None
    assert EvaluationProcessor.decider((vote(ALLOW), vote(STOP))) is None


@pytest.mark.acceptance("2.1-3")
@pytest.mark.parametrize(
    ("votes", "goes_on"),
    [
        ([vote(REQUEST), vote(STOP)], True),
        ([vote(ALLOW)], True),
        ([vote(ALLOW), vote(STOP)], False),
        ([vote(REQUEST), vote(FORBID)], False),
        ([], False),
    ],
)
def test_an_outcome_says_whether_the_run_goes_on(votes: list[ContinuationEvaluation], goes_on: bool) -> None:
    assert ContinuationOutcome.from_evaluations(votes).should_continue is goes_on


@pytest.mark.acceptance("2.1-4")
def test_the_first_criterion_that_forbade_is_found() -> None:
    assert outcome(vote(ALLOW), vote(FORBID, "app.B"), vote(FORBID, "app.A")).get_forbidding_criterion() == "app.B"
    assert outcome(vote(ALLOW), vote(STOP)).get_forbidding_criterion() is None


@pytest.mark.acceptance("2.1-5")
def test_the_wire_form_is_a_plain_dictionary_with_the_known_keys() -> None:
    ceiling = StepsLimit(1).explain(after(CALLED))
    assert outcome(ceiling, vote(REQUEST)).to_dict() == {
        "decision": "forbid",
        "shouldContinue": False,
        "resolvedBy": "StepsLimit",
        "stopReason": "steps_limit",
        "evaluations": [
            {
                "criterion": "StepsLimit",
                "decision": "forbid",
                "reason": "Step limit reached: 1/1",
                "context": {"currentSteps": 1, "maxSteps": 1},
                "stopReason": "steps_limit",
            },
            {
                "criterion": "app.Custom",
                "decision": "request",
                "reason": "Custom requested continuation",
                "context": {},
                "stopReason": None,
            },
        ],
    }


def test_the_trace_keeps_every_vote_in_order() -> None:
    votes = (vote(FORBID, "app.A"), vote(REQUEST, "app.B"), vote(ALLOW, "app.C"))
    assert outcome(*votes).evaluations == votes


@pytest.mark.parametrize("name", ["app.StepsLimit", "app.ErrorPolicyHook", "FinishReasonHook", "app.Guard"])
def test_a_forbid_without_a_stop_reason_is_a_guards_whatever_it_is_called(name: str) -> None:
    result = outcome(vote(FORBID, name))
    assert result.stop_reason is StopReason.GUARD
    assert not EvaluationProcessor.fails(vote(FORBID, name))


def test_the_stop_reason_of_a_vote_beats_its_name() -> None:
    named = ContinuationEvaluation.from_decision("app.StepsLimit", FORBID, StopReason.USER_REQUESTED)
    assert outcome(named).stop_reason is StopReason.USER_REQUESTED


def test_a_stop_vote_does_not_change_the_stop_reason() -> None:
    done = ContinuationEvaluation.from_decision("app.Done", STOP, StopReason.GUARD)
    assert outcome(done).stop_reason is StopReason.COMPLETED


def test_the_vote_of_a_criterion_is_found_by_name_or_class() -> None:
    ceiling = StepsLimit(9).explain(after(CALLED))
    result = outcome(vote(ALLOW, "app.A"), ceiling, vote(STOP, "app.A"))
    assert result.get_evaluation_for("app.A") == vote(ALLOW, "app.A")
    assert result.get_evaluation_for(StepsLimit) is result.get_evaluation_for("StepsLimit") is ceiling
    assert result.get_evaluation_for("A") is None
    assert result.get_evaluation_for(ContinuationOutcome) is None


def test_forbidden_is_stronger_than_not_continuing() -> None:
    assert outcome(vote(FORBID)).is_forbidden() is True
    assert outcome(vote(STOP)).is_forbidden() is False
    assert outcome(vote(REQUEST)).is_forbidden() is False


def test_an_outcome_without_its_trace_still_knows_that_it_was_forbidden() -> None:
    assert structs.replace(outcome(vote(FORBID)), evaluations=()).is_forbidden() is True


def test_the_wire_form_reads_back_to_the_same_outcome_but_for_what_a_forbid_means_for_the_run() -> None:
    result = outcome(StepsLimit(1).explain(after(CALLED)), vote(REQUEST))
    read = ContinuationOutcome.from_dict(result.to_dict())
    assert read.to_dict() == result.to_dict()
    assert (read.deciding_vote, read.evaluations[1]) == (read.evaluations[0], result.evaluations[1])


def failing(criterion: str, *, fails: bool = True, reason: StopReason | None = None) -> ContinuationEvaluation:
    return ContinuationEvaluation(criterion_class=criterion, decision=FORBID, fails=fails, stop_reason=reason)


def test_the_deciding_vote_is_the_vote_itself_also_where_names_are_shared() -> None:
    below, above = vote(ALLOW, "StepsLimit"), vote(FORBID, "StepsLimit")
    assert outcome(below, above).deciding_vote is above
    assert outcome(vote(ALLOW, "app.A"), vote(REQUEST, "app.A")).deciding_vote == vote(REQUEST, "app.A")
    assert outcome(vote(ALLOW), vote(STOP)).deciding_vote is None
    assert ContinuationOutcome.empty("nobody").deciding_vote is None


def test_a_failure_is_named_before_a_limit_and_a_persons_wish_before_a_failure() -> None:
    limit, broken = vote(FORBID, "StepsLimit"), failing("app.Broken")
    wish = failing("UserStop", fails=False, reason=StopReason.USER_REQUESTED)
    assert outcome(limit, broken).deciding_vote is broken
    assert outcome(limit, broken, wish).deciding_vote is wish
    assert outcome(limit, failing("app.Raised", fails=False, reason=StopReason.ERROR)).resolved_by == "app.Raised"
    assert outcome(limit, vote(FORBID, "app.Guard")).resolved_by == "StepsLimit"


def test_an_outcome_without_its_mark_of_failure_still_finds_whom_it_names() -> None:
    read = ContinuationOutcome.from_dict(outcome(vote(FORBID, "StepsLimit"), failing("app.Broken")).to_dict())
    assert read.resolved_by == "app.Broken"
    assert read.deciding_vote is read.evaluations[1]


def test_nobody_objects_to_an_answer_who_only_says_that_a_limit_is_used_up() -> None:
    limit = StepsLimit(1).explain(after(CALLED))
    assert not outcome(limit, vote(STOP), vote(ALLOW)).objects_to_the_answer
    assert outcome(limit, vote(REQUEST)).objects_to_the_answer
    assert outcome(limit, vote(FORBID)).objects_to_the_answer
    for inner, objects in ((limit, False), (vote(REQUEST), True), (vote(FORBID), True)):
        nested = ContinuationCriteria(Explains(limit), Explains(inner))
        assert ContinuationCriteria(nested).evaluate(after(CALLED)).objects_to_the_answer is objects


@pytest.mark.parametrize("key", ["decision", "shouldContinue", "resolvedBy", "stopReason", "evaluations"])
def test_a_missing_key_is_named(key: str) -> None:
    data = outcome(vote(STOP)).to_dict()
    del data[key]
    with pytest.raises(ValueError, match=f"an outcome needs '{key}'"):
        ContinuationOutcome.from_dict(data)


SHAPES: list[tuple[JsonValue, str]] = [
    ({}, "a list, not dict"),
    (["forbid"], "a vote is an object, not str"),
    ([{}], "an evaluation needs 'criterion'"),
]


@pytest.mark.parametrize(("votes", "message"), SHAPES)
def test_evaluations_of_another_shape_are_refused(votes: JsonValue, message: str) -> None:
    data = outcome(vote(STOP)).to_dict() | {"evaluations": votes}
    with pytest.raises(ValueError, match=message):
        ContinuationOutcome.from_dict(data)
