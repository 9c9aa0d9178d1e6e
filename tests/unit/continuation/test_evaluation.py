import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StopReason
from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.module_names import name_from_a_file
from tests.unit.continuation.fakes import ALLOW, FORBID, REQUEST, STOP

STEPS: dict[str, JsonValue] = {"currentSteps": 5, "maxSteps": 5}


def stored(vote: ContinuationEvaluation) -> bytes:
    return msgspec.json.encode(vote)


def steps_vote(reason: str | None = None) -> ContinuationEvaluation:
    return ContinuationEvaluation.from_decision(
        criterion_class="StepsLimit", decision=FORBID, reason=reason, context=STEPS
    )


@pytest.mark.acceptance("2.1-2")
@pytest.mark.parametrize("name", ["StepsLimit", "app.guards.StepsLimit", "app:StepsLimit", r"App\StepsLimit"])
@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (FORBID, "StepsLimit forbade continuation"),
        (REQUEST, "StepsLimit requested continuation"),
        (ALLOW, "StepsLimit permits continuation"),
        (STOP, "StepsLimit allows stop"),
    ],
)
def test_a_bare_decision_gets_the_default_reason(name: str, decision: ContinuationDecision, text: str) -> None:
    vote = ContinuationEvaluation.from_decision(name, decision)
    assert (vote.criterion_class, vote.decision, vote.reason) == (name, decision, text)
    assert vote.context == {}
    assert vote.stop_reason is None


def test_a_bare_decision_may_carry_its_stop_reason() -> None:
    vote = ContinuationEvaluation.from_decision("app.Budget", FORBID, StopReason.TOKEN_LIMIT)
    assert vote.stop_reason is StopReason.TOKEN_LIMIT


def test_a_given_reason_is_kept() -> None:
    vote = ContinuationEvaluation.from_decision(criterion_class="app.Budget", decision=FORBID, reason="out of money")
    assert vote.reason == "out of money"
    assert json.loads(stored(vote)) == {"c": "app.Budget", "d": "forbid", "r": "out of money"}
    assert msgspec.json.decode(stored(vote), type=ContinuationEvaluation) == vote


def test_an_empty_reason_is_a_reason() -> None:
    vote = ContinuationEvaluation.from_decision(criterion_class="app.Budget", decision=FORBID, reason="")
    assert vote.reason == ""
    assert msgspec.json.decode(stored(vote), type=ContinuationEvaluation) == vote


def test_a_built_in_vote_stores_its_numbers_and_no_text() -> None:
    assert json.loads(stored(steps_vote())) == {
        "c": "StepsLimit",
        "d": "forbid",
        "x": {"currentSteps": 5, "maxSteps": 5},
    }
    assert msgspec.json.decode(stored(steps_vote()), type=ContinuationEvaluation).reason == "Step limit reached: 5/5"


def test_writing_out_the_text_that_is_implied_makes_the_same_vote() -> None:
    assert steps_vote("Step limit reached: 5/5") == steps_vote()
    assert steps_vote("Enough.") != steps_vote()
    assert stored(steps_vote("Step limit reached: 5/5")) == stored(steps_vote())


@pytest.mark.parametrize(
    "context", [{}, {"currentSteps": 5}, {"elapsedSeconds": "soon", "maxSeconds": 1}, {"elapsedSeconds": 1}]
)
@pytest.mark.parametrize("name", ["StepsLimit", "ExecutionTimeLimit", "FinishReasonCheck", "UserStop"])
def test_a_context_that_a_built_in_never_writes_gets_the_default_reason(
    name: str, context: dict[str, JsonValue]
) -> None:
    vote = ContinuationEvaluation(criterion_class=name, decision=ALLOW, context=context)
    assert vote.reason == f"{name} permits continuation"


def test_a_stop_list_that_is_not_a_list_gets_the_default_reason() -> None:
    context: dict[str, JsonValue] = {"finishReason": "stop", "stopReasons": "stop"}
    vote = ContinuationEvaluation(criterion_class="FinishReasonCheck", decision=ALLOW, context=context)
    assert vote.reason == "FinishReasonCheck permits continuation"


def test_an_exception_is_a_forbid_that_names_it() -> None:
    vote = ContinuationEvaluation.from_exception("app.Broken", KeyError("orders"))
    assert vote.decision is FORBID
    assert vote.reason == "Continuation evaluation failed: 'orders'"
    assert vote.context == {"exception": "builtins.KeyError", "message": "'orders'"}
    assert vote.stop_reason is StopReason.ERROR


class OutOfLuckError(Exception):
    pass


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_neither_credentials_nor_a_flood_of_words_come_along_with_an_exception() -> None:
    error = ConnectionError("no line to https://ana:pw@x.example/a?api_key=s3cret " + "x" * 100_000)
    vote = ContinuationEvaluation.from_exception("app.Broken", error)
    assert vote.reason.startswith("Continuation evaluation failed: no line to https://…@x.example/a?api_key=… x")
    assert len(str(vote.context["message"])) == 2000


@pytest.mark.parametrize("error", [OutOfLuckError(), SpeechlessError()], ids=["empty", "broken"])
def test_an_exception_without_a_message_goes_by_its_class(error: Exception) -> None:
    vote = ContinuationEvaluation.from_exception("app.Broken", error)
    assert vote.reason == f"Continuation evaluation failed: {type(error).__name__}"
    assert vote.context == {"exception": f"{__name__}.{type(error).__name__}", "message": ""}


def test_the_class_of_an_exception_has_one_name_however_its_file_was_loaded() -> None:
    loaded = type("OutOfStock", (Exception,), {"__module__": name_from_a_file("tea", "shop")})
    vote = ContinuationEvaluation.from_exception("shop.Broken", loaded("tea"))
    assert vote.context["exception"] == "tea.shop.OutOfStock"


def test_an_exception_with_text_that_cannot_be_stored_is_stored_escaped() -> None:
    vote = ContinuationEvaluation.from_exception("app.Broken", ValueError("half a \ud83d"))
    assert vote.reason == "Continuation evaluation failed: half a \\ud83d"
    assert msgspec.json.decode(stored(vote), type=ContinuationEvaluation) == vote


def test_the_wire_form_has_the_five_keys_and_the_text() -> None:
    vote = steps_vote()
    assert vote.to_dict() == {
        "criterion": "StepsLimit",
        "decision": "forbid",
        "reason": "Step limit reached: 5/5",
        "context": {"currentSteps": 5, "maxSteps": 5},
        "stopReason": None,
    }
    assert list(vote.to_dict()) == ["criterion", "decision", "reason", "context", "stopReason"]
    assert structs.replace(vote, stop_reason=StopReason.STEPS_LIMIT).to_dict()["stopReason"] == "steps_limit"


def test_the_wire_form_reads_back_to_the_same_vote() -> None:
    assert ContinuationEvaluation.from_dict(steps_vote().to_dict()) == steps_vote()
    own = steps_vote("Enough.")
    assert ContinuationEvaluation.from_dict(own.to_dict()) == own


def test_older_data_without_reason_context_and_stop_reason_is_read() -> None:
    vote = ContinuationEvaluation.from_dict({"criterion": "app.Budget", "decision": "stop"})
    assert vote == ContinuationEvaluation.from_decision("app.Budget", STOP)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"criterion": "StepsLimit"}, r"an evaluation needs 'decision'; it has \['criterion'\]"),
        ({"decision": "allow"}, r"an evaluation needs 'criterion'; it has \['decision'\]"),
        ({}, "an evaluation needs 'criterion' and 'decision'"),
        ({"criterion": "StepsLimit", "decision": None}, "an evaluation needs 'decision'"),
        ({"criterion": "StepsLimit", "decision": "perhaps"}, "perhaps"),
    ],
)
def test_a_missing_or_unknown_decision_is_a_clear_error(data: dict[str, JsonValue], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinuationEvaluation.from_dict(data)


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], "\ud83d", ["\ud83d"], {"\ud83d": 1}, {"deep": {"er": "\ud83d"}}], ids=ascii
)
def test_a_context_that_cannot_be_stored_is_refused(value: JsonValue) -> None:
    with pytest.raises(NotStorable, match="context"):
        ContinuationEvaluation.from_decision("app.Odd", ALLOW, context={"value": value})
    made = ContinuationEvaluation(criterion_class="app.Odd", decision=ALLOW, context={"value": value})
    with pytest.raises(NotStorable, match="context"):
        made.as_stored()


class Translated(str):
    """A text of a library, which is a text and has no JSON form of its own."""


@pytest.mark.parametrize("field", ["criterion_class", "given_reason", "setting"])
def test_every_text_of_a_vote_is_stored_as_a_plain_one_or_refused(field: str) -> None:
    vote = ContinuationEvaluation(criterion_class="app.Own")
    plain = structs.replace(vote, **{field: Translated("zu teuer")}).as_stored()
    assert msgspec.json.decode(stored(plain), type=ContinuationEvaluation) == structs.replace(
        vote, **{field: "zu teuer"}
    )
    with pytest.raises(NotStorable):
        structs.replace(vote, **{field: "\ud800"}).as_stored()


def test_an_invalid_vote_is_reported_for_what_is_invalid() -> None:
    perhaps: Any = "perhaps"
    with pytest.raises(ValueError, match="Invalid enum value 'perhaps'"):
        ContinuationEvaluation(criterion_class="a", decision=perhaps, given_reason="why not").as_stored()


def test_a_vote_does_not_change_with_the_dictionary_it_was_made_from() -> None:
    context: dict[str, JsonValue] = {"seen": ["a"]}
    vote = ContinuationEvaluation.from_decision("app.Custom", ALLOW, context=context)
    context["seen"] = []
    assert vote.context == {"seen": ["a"]}


def test_a_vote_is_frozen() -> None:
    vote = steps_vote()
    with pytest.raises(AttributeError, match="immutable"):
        vote.decision = ALLOW  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
