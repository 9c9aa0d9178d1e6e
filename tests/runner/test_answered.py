"""`answered`: whether the agent came to an end of its own, also where a limit is used up at that very moment."""

from collections.abc import Callable

import pytest
from msgspec import structs

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, HookType, Message, StepsLimit, StopReason
from steptrail.continuation import CallableCriterion, ContinuationDecision, ContinuationEvaluation, StateView
from steptrail.domain.agent.events import ContinuationEvaluated, ExecutionFinished
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.usage import Usage
from steptrail.errors import ConfigurationError, ExecutionFailed
from steptrail.hooks import Critique, SelfCritic
from steptrail.models import PriceTable
from steptrail.serialization import SlimAgentStateSerializer
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import SubagentTool
from tests.runner.kit import Crash, HandClock, Run, again_on, agent_of, crash_at, hook, run, slowly, trail_of, vote

FORBID, REQUEST = ContinuationDecision.FORBID, ContinuationDecision.REQUEST
WORK = call("add", a=1, b=2)
Setting = Callable[[AgentBuilder], AgentBuilder]
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")

LIMITS: dict[str, Setting] = {
    "steps_limit": lambda b: b.with_max_steps(1),
    "token_limit": lambda b: b.with_max_tokens(5),
    "time_limit": lambda b: b.with_timeout(2),
    "finish_reason": lambda b: b.with_finish_reasons("stop", "length", "content_filter", "error", "paused"),
    "guard": lambda b: b.with_max_cost("0.000001", prices=PRICES),
}
"""Settings that are used up by one step of three seconds."""


async def after_three_seconds(setting: Setting, reply: ModelReply) -> Run:
    clock = HandClock()
    return await run(setting(agent_of([slowly(clock, 3.0, reply)])).build(), clock=clock)


@pytest.mark.parametrize("reason", LIMITS)
async def test_an_answer_in_the_last_allowed_step_is_an_answer_and_the_reason_stays_the_limit(reason: str) -> None:
    ran = await after_three_seconds(LIMITS[reason], say("done", usage=Usage(input=10, output=5)))
    assert ran.ending == ("completed", reason)
    assert ran.result.answered
    assert ran.one(ExecutionFinished).answered
    assert ran.all(ContinuationEvaluated)[-1].answered
    assert ran.result.raise_for_stop() is ran.result
    assert ran.result.output == "done"


@pytest.mark.parametrize("reason", LIMITS)
@pytest.mark.parametrize(
    "finish", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR, FinishReason.PAUSED]
)
async def test_an_answer_that_is_not_whole_fails_also_where_a_limit_is_reached_with_it(
    reason: str, finish: FinishReason
) -> None:
    ran = await after_three_seconds(
        LIMITS[reason], say("half an ans", finish_reason=finish, usage=Usage(input=10, output=5))
    )
    assert ran.ending == ("failed", "finish_reason")
    assert ran.result.outcome is not None
    assert ran.result.outcome.resolved_by == "AnswerComplete"
    assert not ran.result.answered
    with pytest.raises(ExecutionFailed):
        ran.result.raise_for_stop()


@pytest.mark.parametrize("reason", [reason for reason in LIMITS if reason != "finish_reason"])
async def test_a_limit_that_cuts_work_off_is_no_answer(reason: str) -> None:
    asking = structs.replace(WORK, usage=Usage(input=10, output=5))
    ran = await after_three_seconds(LIMITS[reason], asking)
    assert ran.ending == ("completed", reason)
    assert not ran.result.answered
    with pytest.raises(ExecutionFailed, match=reason):
        ran.result.raise_for_stop()


async def test_a_plain_end_is_an_answer_and_an_end_before_the_first_step_is_none() -> None:
    assert (await run(agent_of(["done"]).build())).result.answered
    nothing = await run(agent_of([]).with_max_steps(0).build())
    assert nothing.ending == ("completed", "steps_limit")
    assert not nothing.result.answered


async def test_a_failed_last_step_is_no_answer() -> None:
    ran = await run(
        agent_of([call("fail")]).with_error_policy(ErrorPolicy.ignore_tool_errors()).with_max_steps(1).build()
    )
    assert ran.ending == ("failed", "steps_limit")
    assert not ran.result.answered


OBJECTIONS: list[tuple[Setting, str]] = [
    (lambda b: b.with_criteria(CallableCriterion(lambda s: s.step_count == 0, name="no")), "guard"),
    (lambda b: b.with_criteria(CallableCriterion(lambda _: REQUEST, name="more", is_guard=False)), "steps_limit"),
    (
        lambda b: b.with_hook(HookType.AFTER_STEP, hook("more", lambda s: s.with_evaluation(vote(REQUEST)))),
        "steps_limit",
    ),
    (lambda b: b.with_hook(HookType.STOP, hook("more", lambda s: s.with_evaluation(vote(REQUEST)))), "steps_limit"),
    (
        lambda b: b.with_hook(HookType.STOP, hook("more", lambda s: s.with_messages(Message.user("sure?")))),
        "steps_limit",
    ),
    (lambda b: b.with_capability(SelfCritic(lambda task, answer: Critique(approved=False))), "steps_limit"),
]


@pytest.mark.parametrize(("setting", "reason"), OBJECTIONS)
async def test_an_answer_that_somebody_objects_to_is_none(setting: Setting, reason: str) -> None:
    ran = await run(setting(agent_of(["done"]).with_max_steps(1)).build())
    assert ran.result.status == "completed"
    assert ran.result.stop_reason in {reason, "steps_limit"}
    assert not ran.result.answered


async def test_a_hook_that_fails_while_the_execution_ends_objects_to_nothing() -> None:
    def boom(state: HookState) -> None:
        raise RuntimeError("boom")

    ran = await run(agent_of(["done"]).with_max_steps(1).with_hook(HookType.EXECUTION_END, hook("late", boom)).build())
    assert ran.ending == ("completed", "steps_limit")
    assert ran.result.answered


async def test_a_stop_by_a_person_is_no_answer() -> None:
    async with trail_of() as trail:
        session = trail.session("s")

        async def stop(state: HookState) -> HookState:
            await session.stop(by="ana")
            return state

        agent = agent_of(["done"]).with_hook(HookType.AFTER_INFERENCE, hook("stop", stop)).build()  # type: ignore[arg-type]
        result = await trail.run(agent, "go", session="s")
        assert (result.status, result.stop_reason, result.answered) == ("completed", "user_requested", False)


async def test_a_failure_of_a_criterion_or_a_hook_is_not_hidden_behind_a_limit() -> None:
    def boom(state: StateView) -> bool:
        return state.step_count == 0 or 1 / 0 > 0

    def broken(state: HookState) -> None:
        raise RuntimeError("boom")

    by_criterion = await run(
        agent_of(["done"]).with_max_steps(1).with_criteria(CallableCriterion(boom, name="broken")).build()
    )
    assert by_criterion.ending == ("failed", "error")
    by_hook = await run(
        agent_of(["done"]).with_max_steps(1).with_hook(HookType.AFTER_STEP, hook("broken", broken)).build()
    )
    assert by_hook.ending == ("failed", "error")
    assert by_hook.result.outcome is not None
    assert by_hook.result.outcome.resolved_by == "broken"


async def test_what_a_subagent_answers_in_its_last_allowed_step_counts() -> None:
    clerk = AgentBuilder("clerk").with_model(ScriptedModel(["There are 3 packets."])).with_max_steps(1).build()
    ran = await run(
        agent_of([call("clerk", prompt="Tea?"), "Yes."]).with_tools(SubagentTool(clerk, description="Ask.")).build()
    )
    assert ran.ending == ("completed", "completed")
    assert ran.shown == ["[Subagent: clerk] There are 3 packets."]


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("point", ["before-append", "after-append"])
async def test_a_crash_changes_nothing_about_whether_it_was_answered(point: str, number: int) -> None:
    def builder() -> AgentBuilder:
        return agent_of([WORK, "done"]).with_max_steps(2).with_hook(HookType.STOP, hook("look", lambda _: None))

    dying = trail_of(reach=crash_at(point, number))
    try:
        result = await dying.run(builder().build(), "go", session="s", key="k")
    except Crash:
        result = await again_on(dying).run(builder().build(), "go", session="s", key="k")
    assert (result.status, result.stop_reason, result.answered) == ("completed", "steps_limit", True)


async def test_a_limit_that_is_lowered_on_a_resume_in_the_middle_of_work_is_no_answer() -> None:
    agent = agent_of([WORK, "done"]).build()
    dying = trail_of(reach=crash_at("after-append", 3))
    with pytest.raises(Crash):
        await dying.run(agent, "go", session="s")
    session = again_on(dying).session("s")
    limits = structs.replace(agent.limits, max_steps=0)
    result = await session.resume(agent, limits=limits)
    assert (result.status, result.stop_reason, result.answered) == ("completed", "steps_limit", False)


async def test_lists_and_documents_show_it() -> None:
    async with trail_of() as trail:
        result = await trail.run(agent_of(["done"]).with_max_steps(1).build(), "go", session="s")
        (row,) = await trail.runs()
        assert (row.status, row.stop_reason, row.answered) == ("completed", "steps_limit", True)
        why = await trail.session("s").why()
        assert why.answered
        assert why.to_dict()["answered"] is True
        assert why.verdict.startswith("completed, answered and stopped after 1 step (steps_limit)")
        document = SlimAgentStateSerializer().serialize(result.state)
        assert document["last_continuation"]["answered"] is True  # type: ignore[index,call-overload]
        assert SlimAgentStateSerializer().deserialize(document).answered


async def test_the_vote_that_decided_is_named_also_where_two_criteria_share_a_name() -> None:
    limited = await run(agent_of([WORK] * 9).with_criteria(StepsLimit(3)).build())
    assert limited.why.decided_by is not None
    assert limited.why.decided_by.reason == "Step limit reached: 3/3"
    assert (
        limited.why.verdict
        == "completed, stopped after 3 steps (steps_limit), decided by StepsLimit: Step limit reached: 3/3"
    )
    with pytest.raises(ExecutionFailed, match="Step limit reached: 3/3"):
        limited.result.raise_for_stop()
    assert limited.why.advice is not None
    assert limited.why.advice.changes == ()
    open_, closed = CallableCriterion(lambda _: True), CallableCriterion(lambda s: s.step_count < 1)
    twice = await run(agent_of([WORK] * 2).with_criteria(open_, closed).build())
    assert twice.why.decided_by is not None
    assert twice.why.decided_by.decision is FORBID


class CalledLike:
    """A criterion of a service with a name of its choice."""

    def __init__(self, name: str) -> None:
        self.name = name

    def decide(self, state: StateView, /) -> ContinuationDecision:
        return ContinuationDecision.ALLOW


@pytest.mark.parametrize(
    "name", ["AnswerComplete", "ErrorPolicyCriterion", "StepsLimit", "CallableCriterion", "aggregate"]
)
def test_the_names_of_built_in_criteria_are_reserved(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        agent_of([]).with_criteria(CalledLike(name)).build()
    with pytest.raises(ConfigurationError, match=name):
        agent_of([]).with_criteria(ContinuationCriteria(CalledLike(name), name="mine")).build()
    with pytest.raises(ConfigurationError, match=name):
        ContinuationCriteria(name=name)
    if name != "CallableCriterion":
        with pytest.raises(ConfigurationError, match=name):
            CallableCriterion(lambda _: True, name=name)


async def test_a_vote_says_by_itself_that_it_fails_the_run() -> None:
    class Veto:
        """A guard of a service that fails the run."""

        def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
            forbids = state.step_count > 0
            return ContinuationEvaluation(
                criterion_class="app.Veto",
                decision=FORBID if forbids else ContinuationDecision.ALLOW,
                stop_reason=StopReason.GUARD if forbids else None,
                fails=forbids,
            )

    ran = await run(agent_of(["done"]).with_max_steps(1).with_criteria(Veto()).build())
    assert ran.ending == ("failed", "guard")
