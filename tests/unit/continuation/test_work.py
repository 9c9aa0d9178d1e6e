import pytest

from steptrail.continuation import (
    CallableCriterion,
    ContinuationCriteria,
    ContinuationDecision,
    PendingInput,
    ResponseContentCheck,
    StateView,
    StepsLimit,
    StopReason,
    ToolCallPresenceCheck,
    UserStop,
)
from steptrail.domain.continuation.protocols import is_guard
from tests.unit.continuation.fakes import (
    ALLOW,
    CALLED,
    CLEAN,
    FORBID,
    REQUEST,
    STOP,
    Decides,
    FakeState,
    FakeStep,
    FakeStop,
    after,
    failed,
)


@pytest.mark.parametrize(
    ("state", "decision", "text", "context"),
    [
        (after(), REQUEST, "No step has run yet, requesting the first one", {"hasToolCalls": False, "bootstrap": True}),
        (after(CALLED), REQUEST, "Tool calls present, requesting continuation", {"hasToolCalls": True}),
        (after(CALLED, CLEAN), STOP, "No tool calls, allowing stop", {"hasToolCalls": False}),
    ],
)
def test_tool_calls_ask_for_another_step(
    state: FakeState, decision: ContinuationDecision, text: str, context: dict[str, object]
) -> None:
    vote = ToolCallPresenceCheck().explain(state)
    assert vote is not None
    assert (vote.criterion_class, vote.decision, vote.reason) == ("ToolCallPresenceCheck", decision, text)
    assert vote.context == context
    assert (vote.given_reason, vote.stop_reason) == (None, None)
    assert ToolCallPresenceCheck().decide(state) is decision


def test_a_getter_replaces_the_question_also_before_the_first_step() -> None:
    assert ToolCallPresenceCheck(lambda _: False).decide(after()) is STOP
    assert ToolCallPresenceCheck(lambda _: True).decide(after(CLEAN)) is REQUEST


WORK = [ToolCallPresenceCheck(), ToolCallPresenceCheck(lambda _: True), ResponseContentCheck(lambda _: True)]


@pytest.mark.parametrize("driver", WORK)
@pytest.mark.parametrize("step", [failed(), failed(tool_calls=False)])
def test_a_work_driver_abstains_on_a_failed_step(
    driver: ToolCallPresenceCheck | ResponseContentCheck, step: FakeStep
) -> None:
    assert driver.explain(after(CALLED, step)) is None
    assert driver.decide(after(CALLED, step)) is ALLOW
    assert driver.explain(after(step, CLEAN)) is not None


@pytest.mark.parametrize(
    ("state", "decision", "text", "context"),
    [
        (after(), ALLOW, "No response available", {"hasResponse": False, "matched": None}),
        (
            after(FakeStep(text="TODO: two orders")),
            REQUEST,
            "Response matched, requesting continuation",
            {"hasResponse": True, "matched": True},
        ),
        (
            after(FakeStep(text="")),
            STOP,
            "Response did not match, allowing stop",
            {"hasResponse": True, "matched": False},
        ),
    ],
)
def test_the_response_decides_whether_there_is_more_to_do(
    state: FakeState, decision: ContinuationDecision, text: str, context: dict[str, object]
) -> None:
    check = ResponseContentCheck(lambda response: response.startswith("TODO"))
    vote = check.explain(state)
    assert vote is not None
    assert (vote.criterion_class, vote.decision, vote.reason) == ("ResponseContentCheck", decision, text)
    assert vote.context == context
    assert vote.given_reason is None
    assert check.decide(state) is decision


def test_the_predicate_is_not_asked_about_no_response() -> None:
    asked: list[str] = []

    def predicate(response: str) -> bool:
        asked.append(response)
        return True

    assert ResponseContentCheck(predicate, lambda _: None).decide(after(CLEAN)) is ALLOW
    assert asked == []
    assert ResponseContentCheck(predicate, lambda state: state.agent_id).decide(after(CLEAN)) is REQUEST
    assert asked == ["triage-7"]


def test_input_that_no_model_call_has_seen_asks_for_another_step() -> None:
    vote = PendingInput().explain(FakeState(steps=(CLEAN,), has_unanswered_input=True))
    assert vote is not None
    assert (vote.decision, vote.reason) == (REQUEST, "Input that no model call has seen, requesting continuation")
    assert PendingInput().explain(after(CLEAN)) is None


@pytest.mark.parametrize(
    ("request_", "text", "context"),
    [
        (
            FakeStop(by="ops", reason="deploy"),
            "Stop requested by ops: deploy",
            {"stopRequested": True, "requestedBy": "ops", "requestReason": "deploy"},
        ),
        (
            FakeStop(by="user"),
            "Stop requested by user",
            {"stopRequested": True, "requestedBy": "user", "requestReason": None},
        ),
    ],
)
def test_a_stop_request_forbids_and_says_who_and_why(request_: FakeStop, text: str, context: dict[str, object]) -> None:
    vote = UserStop().explain(FakeState(stop_request=request_))
    assert (vote.criterion_class, vote.decision, vote.reason) == ("UserStop", FORBID, text)
    assert (vote.stop_reason, vote.context, vote.given_reason) == (StopReason.USER_REQUESTED, context, None)
    assert UserStop().decide(FakeState(stop_request=request_)) is FORBID


def test_without_a_stop_request_the_user_has_no_objection() -> None:
    vote = UserStop().explain(FakeState())
    assert (vote.decision, vote.reason, vote.stop_reason) == (ALLOW, "No stop requested", None)
    assert vote.context == {"stopRequested": False}


def test_a_users_stop_that_votes_first_is_the_one_that_is_named() -> None:
    state = FakeState(stop_request=FakeStop(by="ops"))
    assert ContinuationCriteria(UserStop(), StepsLimit(0)).evaluate(state).stop_reason is StopReason.USER_REQUESTED


def few_failures(state: StateView) -> bool:
    return state.total_failures < 2


def test_a_bool_makes_a_function_a_plain_guard() -> None:
    criterion = CallableCriterion(few_failures)
    assert criterion.decide(after(failed())) is ALLOW
    result = ContinuationCriteria(criterion).evaluate(after(failed(), failed()))
    assert (result.decision, result.resolved_by, result.stop_reason) == (FORBID, "CallableCriterion", StopReason.GUARD)
    assert result.evaluations[0].reason == "CallableCriterion forbade continuation"


@pytest.mark.parametrize("decision", list(ContinuationDecision))
def test_a_function_may_return_any_decision(decision: ContinuationDecision) -> None:
    assert CallableCriterion(lambda _: decision).decide(after()) is decision


def test_a_function_with_a_name_is_called_so_in_the_trace() -> None:
    [vote] = ContinuationCriteria(CallableCriterion(few_failures, name="few failures")).votes(after())
    assert vote.criterion_class == "few failures"


def test_a_function_that_returns_something_else_is_an_error() -> None:
    criterion = CallableCriterion(lambda _: 1)  # type: ignore[arg-type,return-value]  # pyright: ignore
    with pytest.raises(TypeError, match="returned int, not a bool or a ContinuationDecision"):
        criterion.decide(after())


def test_every_criterion_says_whether_it_is_a_guard() -> None:
    assert is_guard(UserStop()) is True
    assert is_guard(StepsLimit(1)) is True
    assert is_guard(ToolCallPresenceCheck()) is False
    assert is_guard(ResponseContentCheck(lambda _: True)) is False
    assert is_guard(CallableCriterion(few_failures)) is True
    assert is_guard(CallableCriterion(few_failures, is_guard=False)) is False
    assert is_guard(Decides(FORBID)) is False
