import json
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from steptrail.continuation import (
    AnswerComplete,
    CallableCriterion,
    ContinuationCriteria,
    ContinuationDecision,
    ContinuationEvaluation,
    ErrorPolicyCriterion,
    ErrorPresenceCheck,
    ResponseContentCheck,
    StateView,
    StepsLimit,
    StopReason,
    TokenUsageLimit,
    ToolCallPresenceCheck,
)
from steptrail.domain.continuation.reasons import reason_for
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError, ErrorPolicy
from tests.unit.continuation.fakes import (
    ALLOW,
    CALLED,
    CLEAN,
    FORBID,
    REQUEST,
    STOP,
    Decides,
    Explains,
    FakeState,
    FakeStep,
    Raises,
    after,
    failed,
    vote,
)

START = after()


def criteria(*decisions: ContinuationDecision) -> ContinuationCriteria:
    return ContinuationCriteria(*(Decides(decision, f"app.C{place}") for place, decision in enumerate(decisions)))


@pytest.mark.acceptance("2.2-1")
@pytest.mark.parametrize("other", list(ContinuationDecision))
def test_a_forbid_makes_a_forbidden_outcome(other: ContinuationDecision) -> None:
    result = criteria(ALLOW, FORBID, other).evaluate(START)
    assert result.decision is FORBID
    assert result.should_continue is False
    assert result.resolved_by == "app.C1"


@pytest.mark.acceptance("2.2-2")
def test_a_request_makes_the_run_go_on() -> None:
    result = criteria(ALLOW, STOP, REQUEST).evaluate(START)
    assert result.should_continue is True
    assert result.resolved_by == "app.C2"


@pytest.mark.acceptance("2.2-3")
def test_every_criterion_is_in_the_trace_also_after_a_forbid() -> None:
    trace = criteria(FORBID, ALLOW, FORBID, STOP).evaluate(START).evaluations
    assert [(v.criterion_class, v.decision) for v in trace] == [
        ("app.C0", FORBID),
        ("app.C1", ALLOW),
        ("app.C2", FORBID),
        ("app.C3", STOP),
    ]


MIXED = [(ALLOW,), (STOP,), (ALLOW, STOP), (REQUEST, STOP), (REQUEST, FORBID), ()]


@pytest.mark.acceptance("2.2-4")
@pytest.mark.parametrize("decisions", MIXED)
def test_can_continue_is_the_flag_of_the_outcome(decisions: tuple[ContinuationDecision, ...]) -> None:
    group = criteria(*decisions)
    assert group.can_continue(START) is group.evaluate(START).should_continue


@pytest.mark.acceptance("2.2-5")
@pytest.mark.parametrize("decisions", MIXED)
def test_decide_is_the_decision_of_the_outcome(decisions: tuple[ContinuationDecision, ...]) -> None:
    group = criteria(*decisions)
    assert group.decide(START) is group.evaluate(START).decision


@pytest.mark.acceptance("2.2-6")
def test_no_criteria_stop_the_run_in_the_name_of_the_collection() -> None:
    result = ContinuationCriteria().evaluate(START)
    assert result.decision is STOP
    assert result.should_continue is False
    assert result.resolved_by == "ContinuationCriteria"
    assert result.stop_reason is StopReason.COMPLETED
    assert result.evaluations == ()
    assert ContinuationCriteria(name="budget").evaluate(START).resolved_by == "budget"


@pytest.mark.acceptance("2.2-7")
@pytest.mark.parametrize("size", range(4))
def test_the_trace_never_changes_what_the_bare_decisions_resolve_to(size: int) -> None:
    for decisions in product(ContinuationDecision, repeat=size):
        going_on = ContinuationDecision.can_continue_with(*decisions)
        assert criteria(*decisions).can_continue(START) is going_on, decisions


HISTORIES = [(), (CALLED,), (CLEAN,), (CALLED, CLEAN), (failed(),), (CALLED, failed()), (CALLED, CALLED, CALLED)]


@pytest.mark.parametrize("steps", HISTORIES, ids=lambda steps: str(len(steps)))
def test_an_agent_with_the_default_policy_goes_on_exactly_when_it_did_before(steps: tuple[FakeStep, ...]) -> None:
    limits = (StepsLimit(3), TokenUsageLimit(100))
    with pytest.warns(DeprecationWarning, match="ErrorPresenceCheck"):
        before = ContinuationCriteria(*limits, ErrorPresenceCheck(), ToolCallPresenceCheck())
    policy = ErrorPolicyCriterion.with_policy(ErrorPolicy.stop_on_any_error())
    now = ContinuationCriteria(*limits, policy, ToolCallPresenceCheck())
    assert now.can_continue(after(*steps)) is before.can_continue(after(*steps))
    assert now.decide(after(*steps)) is before.decide(after(*steps))


def test_a_criterion_that_explains_is_not_asked_to_decide() -> None:
    own = ContinuationEvaluation.from_decision(
        criterion_class="app.Own", decision=ALLOW, reason="my words", context={"n": 1}
    )
    assert ContinuationCriteria(Explains(own)).votes(START) == (own,)


def test_a_criterion_that_only_decides_gets_the_default_reason() -> None:
    assert [v.reason for v in criteria(FORBID, STOP).votes(START)] == ["C0 forbade continuation", "C1 allows stop"]


def test_who_abstains_is_not_in_the_trace() -> None:
    assert ContinuationCriteria(Explains(None), Decides(ALLOW)).votes(START) == (vote(ALLOW),)


def test_everyone_abstaining_stops_the_run() -> None:
    result = ContinuationCriteria(Explains(None)).evaluate(START)
    assert (result.decision, result.should_continue, result.resolved_by) == (STOP, False, "aggregate")


def test_adding_criteria_leaves_the_old_collection_alone() -> None:
    few = ContinuationCriteria(Decides(ALLOW), name="few")
    more = few.with_criteria(Decides(STOP, "app.Late"), Decides(FORBID, "app.Later"))
    assert [v.criterion_class for v in more.votes(START)] == ["app.Custom", "app.Late", "app.Later"]
    assert [v.criterion_class for v in few.votes(START)] == ["app.Custom"]
    assert more.name == "few"


def test_of_is_the_constructor() -> None:
    one = Decides(ALLOW)
    assert ContinuationCriteria.of(one).criteria == (one,)


def test_a_collection_knows_that_it_is_empty() -> None:
    assert ContinuationCriteria().is_empty() is True
    assert criteria(ALLOW).is_empty() is False


def test_a_criterion_that_raises_forbids_and_the_others_still_vote() -> None:
    group = ContinuationCriteria(Raises(ZeroDivisionError("per month")), Decides(REQUEST), Decides(FORBID, "app.Late"))
    result = group.evaluate(START)
    assert (result.decision, result.resolved_by, result.stop_reason) == (FORBID, "app.Broken", StopReason.ERROR)
    assert result.evaluations[0].reason == "Continuation evaluation failed: per month"
    assert result.evaluations[0].context == {"exception": "builtins.ZeroDivisionError", "message": "per month"}
    assert [v.decision for v in result.evaluations] == [FORBID, REQUEST, FORBID]


def test_an_interrupt_is_not_a_vote() -> None:
    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ContinuationCriteria(CallableCriterion(interrupted)).evaluate(START)


class Liar:
    name = "app.Liar"

    def decide(self, state: object) -> str:
        return "perhaps"


class Chatty:
    name = "app.Chatty"

    def explain(self, state: object) -> str:
        return "I think so"


@pytest.mark.parametrize("liar", [Liar(), Chatty()], ids=["decide", "explain"])
def test_an_answer_that_is_not_a_vote_forbids(liar: Liar | Chatty) -> None:
    [only] = ContinuationCriteria(liar).votes(START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert (only.criterion_class, only.decision, only.stop_reason) == (liar.name, FORBID, StopReason.ERROR)


def test_a_function_is_not_a_criterion() -> None:
    with pytest.raises(ConfigurationError, match="wrap a function in `CallableCriterion`"):
        ContinuationCriteria(lambda _: True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_class_is_not_a_criterion() -> None:
    with pytest.raises(ConfigurationError, match="StepsLimit is a class"):
        ContinuationCriteria(StepsLimit)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_nested_forbid_stays_a_forbid() -> None:
    limits = ContinuationCriteria(Decides(ALLOW), StepsLimit(0))
    result = ContinuationCriteria(Decides(REQUEST), limits).evaluate(START)
    assert (result.decision, result.should_continue) == (FORBID, False)
    assert (result.resolved_by, result.stop_reason) == ("ContinuationCriteria", StopReason.STEPS_LIMIT)
    assert result.is_forbidden() is True


def test_a_nested_vote_speaks_for_whoever_decided_in_it() -> None:
    limits = ContinuationCriteria(Decides(ALLOW), StepsLimit(0), name="limits")
    [only] = ContinuationCriteria(limits).votes(START)
    assert only.criterion_class == "limits"
    assert only.reason == "StepsLimit: Step limit reached: 0/0"
    assert only.context["resolvedBy"] == "StepsLimit"
    assert only.context["evaluations"] == [
        {"criterion": "app.Custom", "decision": "allow", "context": {}, "stopReason": None},
        {
            "criterion": "StepsLimit",
            "decision": "forbid",
            "context": {"currentSteps": 0, "maxSteps": 0},
            "stopReason": "steps_limit",
        },
    ]


def test_a_nested_vote_keeps_the_words_of_a_criterion_that_has_its_own() -> None:
    own = ContinuationEvaluation.from_decision(criterion_class="app.Own", decision=REQUEST, reason="two orders left")
    inner = ContinuationCriteria(Explains(own))
    [only] = ContinuationCriteria(inner).votes(START)
    assert only.reason == "Own: two orders left"
    assert msgspec.json.decode(msgspec.json.encode(only), type=ContinuationEvaluation) == only


def test_nested_votes_read_back_to_the_votes_that_were_cast() -> None:
    own = ContinuationEvaluation.from_decision(criterion_class="app.Own", decision=REQUEST, reason="two orders left")
    inner = ContinuationCriteria(Explains(own), StepsLimit(4))
    [only] = ContinuationCriteria(inner).votes(START)
    nested = only.context["evaluations"]
    assert isinstance(nested, list)
    assert [ContinuationEvaluation.from_dict(json.loads(json.dumps(item))) for item in nested] == list(
        inner.votes(START)
    )


def test_a_nested_vote_that_nobody_decided_has_the_default_reason() -> None:
    [only] = ContinuationCriteria(criteria(ALLOW, STOP)).votes(START)
    assert (only.decision, only.reason) == (STOP, "ContinuationCriteria allows stop")


def test_two_levels_down_a_forbid_is_still_a_forbid_with_its_reason() -> None:
    deep = ContinuationCriteria(ContinuationCriteria(ContinuationCriteria(TokenUsageLimit(0)), name="inner"))
    result = ContinuationCriteria(Decides(REQUEST), deep).evaluate(START)
    assert (result.decision, result.stop_reason) == (FORBID, StopReason.TOKEN_LIMIT)
    assert result.evaluations[1].reason == "inner: ContinuationCriteria: TokenUsageLimit: Token limit reached: 0/0"


def test_a_nested_request_beats_a_nested_stop_before_the_parent_sees_them() -> None:
    result = ContinuationCriteria(criteria(REQUEST, STOP), Decides(STOP)).evaluate(START)
    assert (result.decision, result.resolved_by) == (REQUEST, "ContinuationCriteria")


def test_grouping_content_limits_does_not_make_them_drive_the_loop() -> None:
    limits = ContinuationCriteria(StepsLimit(9), TokenUsageLimit(9))
    done = after(CLEAN)
    assert limits.decide(done) is REQUEST
    assert ContinuationCriteria(limits, ToolCallPresenceCheck()).can_continue(done) is False


def test_a_nested_collection_abstains_when_everyone_in_it_does() -> None:
    work = ContinuationCriteria(ToolCallPresenceCheck(), ResponseContentCheck(lambda _: True))
    retry = ErrorPolicyCriterion.with_policy(ErrorPolicy.retry_all())
    result = ContinuationCriteria(retry, work, ContinuationCriteria()).evaluate(after(failed()))
    assert result.should_continue is True
    assert [v.criterion_class for v in result.evaluations] == ["ErrorPolicyCriterion"]


def test_only_guards_are_left_of_the_guards() -> None:
    inner = ContinuationCriteria(AnswerComplete(), ToolCallPresenceCheck(), name="inner")
    work = ContinuationCriteria(ToolCallPresenceCheck())
    group = ContinuationCriteria(StepsLimit(3), inner, work, Decides(STOP), name="outer")
    kept = group.guards()
    assert [v.criterion_class for v in kept.votes(FakeState())] == ["StepsLimit", "inner"]
    assert kept.name == "outer"
    assert kept.is_guard is True


@pytest.mark.parametrize(
    ("group", "guard"),
    [
        (ContinuationCriteria(StepsLimit(3), AnswerComplete()), True),
        (ContinuationCriteria(StepsLimit(3), ToolCallPresenceCheck()), False),
        (ContinuationCriteria(StepsLimit(3), Decides(ALLOW)), False),
        (ContinuationCriteria(), False),
    ],
)
def test_a_collection_is_a_guard_when_all_in_it_are(group: ContinuationCriteria, guard: bool) -> None:
    assert group.is_guard is guard


def nested(levels: int) -> dict[str, JsonValue]:
    value: JsonValue = 1
    for _ in range(levels - 1):
        value = [value]
    return {"deep": value}


@pytest.mark.parametrize(
    "context", [nested(199), nested(10_000), {"n": 10**5000}, {"text": "\ud800"}, {"n": float("nan")}]
)
def test_a_vote_whose_context_cannot_be_stored_is_a_forbid_of_its_criterion(context: dict[str, JsonValue]) -> None:
    class Deep:
        name = "app.Deep"

        def explain(self, state: StateView, /) -> ContinuationEvaluation:
            return ContinuationEvaluation(criterion_class="app.Deep", decision=ALLOW, context=context)

    (vote,) = ContinuationCriteria(Deep()).votes(START)
    assert (vote.criterion_class, vote.decision, vote.stop_reason) == ("app.Deep", FORBID, StopReason.ERROR)
    assert msgspec.json.decode(msgspec.json.encode(vote), type=ContinuationEvaluation) == vote


def test_a_context_of_a_hundred_levels_is_stored() -> None:
    vote = ContinuationEvaluation(criterion_class="app.Deep", decision=ALLOW, context=nested(100))
    assert msgspec.json.decode(msgspec.json.encode(vote), type=ContinuationEvaluation) == vote


def test_collections_that_are_nested_too_deep_for_the_log_forbid() -> None:
    whole = ContinuationCriteria(Decides(ALLOW))
    for _ in range(70):
        whole = ContinuationCriteria(whole)
    (vote,) = ContinuationCriteria(whole).votes(START)
    assert (vote.decision, vote.fails) == (FORBID, True)


@pytest.mark.parametrize("decision", [ALLOW, FORBID])
def test_the_words_of_a_vote_never_raise(decision: ContinuationDecision) -> None:
    for name, context in (
        ("ExecutionTimeLimit", {"elapsedSeconds": 10**400, "maxSeconds": 1}),
        ("CumulativeExecutionTimeLimit", {"cumulativeSeconds": 1, "maxSeconds": 1e308 * 10}),
        ("StepsLimit", {"currentSteps": 10**5000, "maxSteps": 1}),
    ):
        assert name in reason_for(name, decision, context)


def test_on_a_resume_only_what_a_guard_may_say_is_heard() -> None:
    for decision, heard in ((ALLOW, 1), (FORBID, 1), (STOP, 0), (REQUEST, 0)):
        predicate = CallableCriterion(lambda _, said=decision: said, name="app.Predicate")  # type: ignore[misc]
        assert len(ContinuationCriteria(predicate).votes(START)) == 1
        assert len(ContinuationCriteria(predicate).guards().votes(START)) == heard
        assert len(ContinuationCriteria(ContinuationCriteria(predicate)).guards().votes(START)) == heard


async def later(state: object) -> str:
    return "stop"


def forgot(state: object) -> None:
    """Return nothing, as a function does that lacks a `return`."""


NO_VOTES: list[tuple[str, Callable[[Any], object], str]] = [
    ("decide", forgot, "decide() returned NoneType, not a ContinuationDecision"),
    ("decide", lambda _: "maybe", "decide() returned 'maybe', not a ContinuationDecision"),
    ("decide", later, "decide() is async, and nobody awaits a criterion: a hook may be async"),
    ("explain", lambda _: "forbid", "explain() returned 'forbid', not a ContinuationEvaluation"),
    ("explain", later, "explain() is async, and nobody awaits a criterion: a hook may be async"),
    (
        "explain",
        lambda _: ContinuationEvaluation(criterion_class="app.Odd", decision=cast(Any, "maybe")),
        "ContinuationEvaluation: decision: Invalid enum value 'maybe': it is one of 'forbid', 'request', 'stop', "
        "'allow'",
    ),
    (
        "explain",
        lambda _: ContinuationEvaluation(criterion_class=cast(Any, 3)),
        "ContinuationEvaluation: criterion_class: Expected `str`, got `int`",
    ),
]


@pytest.mark.parametrize(("method", "answers", "said"), NO_VOTES)
def test_an_answer_that_is_no_vote_forbids_and_says_what_is_wrong(method: str, answers: object, said: str) -> None:
    criterion: Any = SimpleNamespace(**{method: answers})
    (vote,) = ContinuationCriteria(criterion).votes(cast(Any, None))
    assert (vote.decision, vote.reason) == (FORBID, f"Continuation evaluation failed: {said}")
