import pytest

from steptrail.continuation import AnswerComplete, ContinuationDecision, FinishReasonCheck, StateView, StopReason
from steptrail.domain.inference import FinishReason
from tests.unit.continuation.fakes import ALLOW, CALLED, FORBID, FakeStep, after, error

STOPPED = after(FakeStep(finish_reason=FinishReason.STOP, raw_finish_reason="end_turn"))


@pytest.mark.parametrize(
    ("check", "decision", "text", "seen"),
    [
        (FinishReasonCheck(), ALLOW, "No stop reasons configured", "stop"),
        (FinishReasonCheck([FinishReason.STOP]), FORBID, 'Finish reason "stop" matched stop condition', "stop"),
        (FinishReasonCheck(["stop"]), FORBID, 'Finish reason "stop" matched stop condition', "stop"),
        (FinishReasonCheck("stop"), FORBID, 'Finish reason "stop" matched stop condition', "stop"),
        (FinishReasonCheck(["end_turn"]), FORBID, 'Finish reason "end_turn" matched stop condition', "end_turn"),
        (
            FinishReasonCheck(["length", "other"]),
            ALLOW,
            'Finish reason "stop" does not match stop conditions',
            "stop",
        ),
    ],
)
def test_a_finish_reason_on_the_list_forbids(
    check: FinishReasonCheck, decision: ContinuationDecision, text: str, seen: str
) -> None:
    vote = check.explain(STOPPED)
    assert (vote.criterion_class, vote.decision, vote.reason) == ("FinishReasonCheck", decision, text)
    assert vote.context == {"finishReason": seen, "stopReasons": list(check.stop_reasons)}
    assert vote.stop_reason is (StopReason.FINISH_REASON if decision is FORBID else None)
    assert vote.given_reason is None
    assert check.decide(STOPPED) is decision


@pytest.mark.parametrize("state", [after(), after(FakeStep(finish_reason=None))], ids=["no step", "no reply"])
def test_without_a_finish_reason_there_is_nothing_to_match(state: StateView) -> None:
    vote = FinishReasonCheck(["stop"]).explain(state)
    assert (vote.decision, vote.reason) == (ALLOW, "No finish reason available")
    assert vote.context == {"finishReason": None, "stopReasons": ["stop"]}


def test_a_getter_replaces_the_finish_reason_of_the_step() -> None:
    assert FinishReasonCheck(["max_tokens"], lambda _: "max_tokens").decide(STOPPED) is FORBID
    assert FinishReasonCheck([FinishReason.LENGTH], lambda _: FinishReason.LENGTH).decide(STOPPED) is FORBID
    assert FinishReasonCheck(["stop"], lambda _: None).decide(STOPPED) is ALLOW


def test_stop_reasons_are_kept_once_in_order() -> None:
    check = FinishReasonCheck(["length", FinishReason.STOP, "length", "stop"])
    assert check.stop_reasons == ("length", "stop")


EMPTY = "The reply has neither text nor tool calls, and does not say that the model has finished"


def answer(
    finish: FinishReason | None, *, calls: bool = False, broken: bool = False, text: str = "Shipped."
) -> FakeStep:
    errors = (error(),) if broken else ()
    return FakeStep(finish_reason=finish, has_tool_calls=calls, errors=errors, text="" if calls else text)


@pytest.mark.parametrize(
    ("step", "decision", "text"),
    [
        (answer(FinishReason.STOP), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.TOOL_CALLS, calls=True), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.STOP, text=""), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.OTHER), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.OTHER, text=" "), FORBID, EMPTY),
        (answer(FinishReason.OTHER, calls=True), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.TOOL_CALLS), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.TOOL_CALLS, text=""), FORBID, EMPTY),
        (answer(FinishReason.TOOL_CALLS, text="", broken=True), ALLOW, "The step failed: there is no answer to judge"),
        (answer(FinishReason.ERROR), FORBID, "Answer broken off by an error of the provider"),
        (answer(FinishReason.ERROR, calls=True), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.LENGTH), FORBID, "Answer cut at the output limit"),
        (answer(FinishReason.PAUSED), FORBID, "Answer paused by the provider and not taken up again"),
        (answer(FinishReason.LENGTH, calls=True), ALLOW, "Answer neither cut nor filtered"),
        (answer(FinishReason.LENGTH, calls=True, broken=True), ALLOW, "The step failed: there is no answer to judge"),
        (answer(FinishReason.CONTENT_FILTER), FORBID, "Answer withheld by the content filter"),
        (answer(FinishReason.CONTENT_FILTER, calls=True), FORBID, "Answer withheld by the content filter"),
        (answer(FinishReason.CONTENT_FILTER, broken=True), ALLOW, "The step failed: there is no answer to judge"),
        (answer(None, broken=True), ALLOW, "The step failed: there is no answer to judge"),
    ],
)
def test_only_a_whole_answer_may_stand(step: FakeStep, decision: ContinuationDecision, text: str) -> None:
    vote = AnswerComplete().explain(after(CALLED, step))
    assert (vote.criterion_class, vote.decision, vote.reason) == ("AnswerComplete", decision, text)
    assert vote.stop_reason is (StopReason.FINISH_REASON if decision is FORBID else None)
    assert vote.context["finishReason"] == step.finish_reason
    assert vote.context["hasToolCalls"] is step.has_tool_calls
    assert vote.context.get("stepFailed", False) is step.has_errors
    assert vote.given_reason is None
    assert AnswerComplete().decide(after(step)) is decision


def test_before_the_first_step_there_is_no_answer() -> None:
    vote = AnswerComplete().explain(after())
    assert (vote.decision, vote.reason) == (ALLOW, "No answer to judge yet")
    assert vote.context == {"finishReason": None, "hasToolCalls": False}
