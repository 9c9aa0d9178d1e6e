"""Stop hooks: once per decision to stop, and never against a forbid."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail import AgentBuilder, ErrorPolicy, HookType, Limits, Message
from steptrail.continuation import ContinuationDecision, StopReason
from steptrail.domain.agent.events import EvaluationsRecorded, HooksRan
from steptrail.domain.agent.phases import Phase
from steptrail.hooks import CallableHook, HookState
from steptrail.projections.agent_state import project_agent_state
from steptrail.testing import Reply, call
from tests.runner.kit import Crash, Run, again_on, agent_of, crash_at, hook, run, trail_of, vote, votes_in

REQUEST, ALLOW, STOP, FORBID = (
    ContinuationDecision.REQUEST,
    ContinuationDecision.ALLOW,
    ContinuationDecision.STOP,
    ContinuationDecision.FORBID,
)


def asks_on(until: int) -> CallableHook:
    """Return a Stop hook that wants to go on until so many steps are done."""
    return hook("more", lambda s: s.with_evaluation(vote(REQUEST, "more")) if s.step_count < until else None)


def with_stop(script: list[Reply], each: CallableHook) -> AgentBuilder:
    return agent_of(script, (HookType.STOP, each))


def outcome_after(ran: Run, decision: int) -> list[tuple[str, str]]:
    """Return the votes of one decision, as they were resolved."""
    versions = [record.version for record in ran.records if record.event.TYPE.startswith("continuation.")]
    outcome = project_agent_state("s", ran.records, at=versions[decision]).last_continuation_outcome
    assert outcome is not None
    return [(each.criterion_class, each.decision.value) for each in outcome.evaluations]


async def test_a_stop_hook_runs_once_for_each_decision_to_stop() -> None:
    ran = await run(with_stop(["first", "second", "third"], asks_on(3)).build())
    assert [(mark.hook_type, mark.step) for mark in ran.all(HooksRan)] == [("stop", 1), ("stop", 2), ("stop", 3)]
    assert ran.decisions == [
        (0, "boundary", True, "ToolCallPresenceCheck"),
        (1, "boundary", False, "aggregate"),
        (1, "stop", True, "more"),
        (2, "boundary", False, "aggregate"),
        (2, "stop", True, "more"),
        (3, "boundary", False, "aggregate"),
    ]
    assert ran.ending == ("completed", "completed")
    assert ran.result.output == "third"


async def test_the_trace_keeps_the_votes_to_stop_beside_the_one_that_went_on() -> None:
    ran = await run(with_stop(["first", "second"], asks_on(2)).build())
    before, after = outcome_after(ran, 1), outcome_after(ran, 2)
    assert ("ToolCallPresenceCheck", "stop") in before
    assert after == [*before, ("more", "request")]


async def test_what_a_stop_hook_wanted_once_is_not_wanted_for_ever() -> None:
    ran = await run(with_stop(["first", "second"], asks_on(2)).build())
    assert ("more", "request") not in outcome_after(ran, 3)


LIMITED: list[tuple[Callable[[AgentBuilder], AgentBuilder], tuple[str, str]]] = [
    (lambda b: b.with_max_steps(1), ("completed", "steps_limit")),
    (lambda b: b.with_max_tokens(10), ("completed", "token_limit")),
    (lambda b: b.with_finish_reasons("stop"), ("completed", "finish_reason")),
]


@pytest.mark.parametrize(
    ("build", "ending"),
    LIMITED,
)
async def test_no_stop_hook_beats_a_forbid(
    build: Callable[[AgentBuilder], AgentBuilder], ending: tuple[str, str]
) -> None:
    builder = build(with_stop(["first", "second", "third"], asks_on(9)))
    ran = await run(builder.build())
    assert ran.ending == ending
    assert ran.result.state.step_count == 1
    # It ran, its vote is kept, and no second decision was taken.
    assert [(mark.hook_type, mark.step) for mark in ran.all(HooksRan)] == [("stop", 1)]
    observed = [event for event in ran.all(EvaluationsRecorded) if event.hook is not None]
    assert [(event.phase, votes_in(event)) for event in observed] == [("stop", [("more", "request")])]
    assert [phase for _, phase, _, _ in ran.decisions] == ["boundary", "boundary"]
    assert ran.result.outcome is not None
    assert ran.result.outcome.get_evaluation_for("more") is None


async def test_a_failed_run_is_not_saved_by_a_stop_hook() -> None:
    ran = await run(with_stop([ValueError("no"), "second"], asks_on(9)).build())
    assert ran.ending == ("failed", "error")


@pytest.mark.parametrize("decision", [ALLOW, STOP])
async def test_a_stop_hook_that_does_not_ask_on_lets_the_run_stop(decision: ContinuationDecision) -> None:
    ran = await run(with_stop(["done"], hook("calm", lambda s: s.with_evaluation(vote(decision)))).build())
    assert ran.ending == ("completed", "completed")
    assert ran.result.state.step_count == 1


async def test_a_stop_hook_may_turn_a_good_end_into_a_guards() -> None:
    refuse = hook("audit", lambda s: s.with_evaluation(vote(FORBID, "audit", StopReason.GUARD)))
    ran = await run(with_stop(["done"], refuse).build())
    assert ran.ending == ("completed", "guard")
    assert ran.result.outcome is not None
    assert ran.result.outcome.resolved_by == "audit"
    assert ("ToolCallPresenceCheck", "stop") in outcome_after(ran, 2)


async def test_a_request_and_a_forbid_of_stop_hooks_stop() -> None:
    builder = with_stop(["done", "more"], asks_on(9))
    builder.with_hook(HookType.STOP, hook("audit", lambda s: s.with_evaluation(vote(FORBID, "audit"))))
    ran = await run(builder.build())
    assert ran.ending == ("completed", "guard")
    assert ran.result.state.step_count == 1


async def test_a_stop_hook_that_raises_fails_a_run_that_was_about_to_end_well() -> None:
    def boom(state: HookState) -> None:
        raise RuntimeError("boom")

    ran = await run(with_stop(["done"], hook("broken", boom)).build())
    assert ran.ending == ("failed", "error")
    assert ran.decisions[-1] == (1, "stop", False, "broken")


async def test_a_stop_hook_may_speak_for_the_user_and_is_answered() -> None:
    def insist(state: HookState) -> HookState | None:
        return state.with_messages(Message.user("are you sure?")) if state.step_count == 1 else None

    ran = await run(with_stop(["done", "quite sure"], hook("insist", insist)).build())
    assert ran.result.output == "quite sure"
    assert [message.text for message in ran.result.state.messages] == ["go", "done", "are you sure?", "quite sure"]


async def test_observed_votes_do_not_leak_into_the_next_execution() -> None:
    agent = with_stop(["first", "second", "third"], asks_on(9)).with_max_steps(1).build()
    async with trail_of() as trail:
        await trail.run(agent, "one", session="s")
        session = trail.session("s")
        result = await session.send(agent, "two")
        assert (result.status, result.stop_reason) == ("completed", "steps_limit")
        assert result.state.step_count == 1
        assert result.outcome is not None
        assert result.outcome.get_evaluation_for("more") is None


async def test_a_stop_of_the_error_policy_under_retry_is_observed_too() -> None:
    script: list[Reply] = [call("fail")] * 3
    builder = with_stop(script, asks_on(9)).with_error_policy(ErrorPolicy.retry_tool_errors(2))
    ran = await run(builder.build())
    assert ran.ending == ("failed", "retry_limit")
    assert [mark.step for mark in ran.all(HooksRan)] == [2]


@pytest.mark.parametrize(
    ("script", "replaced"),
    [
        ([call("add", a=1, b=2), "done"], {"limits": Limits(max_steps=5)}),
        ([call("fail"), "done"], {"error_policy": ErrorPolicy.retry_all(3)}),
    ],
)
async def test_a_run_that_was_cut_in_its_stop_hooks_goes_on_with_what_a_resume_replaces(
    script: list[Reply], replaced: dict[str, Any]
) -> None:
    looks, steps = list[int](), 1 if "limits" in replaced else 5
    agent = with_stop(script, hook("look", lambda s: looks.append(s.step_count))).with_max_steps(steps).build()
    async with trail_of(reach=crash_at("after-hooks")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        session = again_on(trail).session("s")
        assert (await session.state()).phase is Phase.STOPPING
        result = await session.resume(agent, **replaced)
        assert (result.status, result.stop_reason, result.output) == ("completed", "completed", "done")
    assert looks == [1, 2]


async def test_a_stop_that_a_stop_hook_has_decided_is_not_taken_back_by_other_limits() -> None:
    async with trail_of() as trail:
        session = trail.session("s")

        async def refuse(state: HookState) -> HookState:
            await again_on(trail).session("s").pause(by="ops")
            return state.with_evaluation(vote(FORBID, "audit", StopReason.GUARD))

        builder = with_stop(["done"], CallableHook(refuse, "audit"))
        agent = builder.with_hook(HookType.EXECUTION_END, hook("look", lambda _: None)).build()
        assert (await trail.run(agent, "go", session="s")).status == "paused"
        result = await session.resume(agent, limits=Limits(max_steps=5))
    assert (result.status, result.stop_reason, result.answered) == ("completed", "guard", False)
