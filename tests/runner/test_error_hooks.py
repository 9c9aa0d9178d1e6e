"""OnError hooks vote beside the error policy, in one decision."""

import pytest

from steptrail import ErrorPolicy, HookType
from steptrail.continuation import ContinuationDecision, StopReason
from steptrail.hooks import CallableHook, ErrorPolicyHook, Hook, HookState
from steptrail.testing import Reply, call
from tests.runner.kit import Run, agent_of, hook, run, vote

REQUEST, ALLOW, STOP, FORBID = (
    ContinuationDecision.REQUEST,
    ContinuationDecision.ALLOW,
    ContinuationDecision.STOP,
    ContinuationDecision.FORBID,
)
BROKEN = ConnectionError("cut off")


async def on_error(script: list[Reply], policy: ErrorPolicy, *hooks: Hook) -> Run:
    builder = agent_of(script).with_error_policy(policy)
    for each in hooks:
        builder.with_hook(HookType.ON_ERROR, each)
    return await run(builder.build())


def casting(decision: ContinuationDecision, reason: StopReason | None = None) -> CallableHook:
    return hook("tests.hook", lambda s: s.with_evaluation(vote(decision, "tests.hook", reason)))


async def test_it_runs_after_a_failed_step_and_sees_the_error() -> None:
    seen: list[tuple[int, str | None, int]] = []

    def look(state: HookState) -> None:
        error = state.current_execution.error
        seen.append((state.step_count, error.message if error else None, state.consecutive_failures))

    ran = await on_error([BROKEN, call("fail", why="jammed"), "done"], ErrorPolicy.retry_all(3), hook("look", look))
    assert seen == [(1, "cut off", 1), (2, "jammed", 2)]
    assert ran.ending == ("completed", "completed")


async def test_the_error_is_gone_when_the_hooks_about_the_end_of_its_step_have_run() -> None:
    seen: list[tuple[str, int, bool]] = []

    def look(state: HookState) -> None:
        seen.append((state.hook_type.value, state.step_count, state.current_execution.error is not None))

    kinds = [kind for kind in HookType if not kind.is_tool_event()]
    builder = agent_of([BROKEN, "done"], *((kind, hook(kind.value, look)) for kind in kinds))
    await run(builder.with_error_policy(ErrorPolicy.retry_all(3)).build())
    assert [each for each in seen if each[2]] == [("after_step", 1, True), ("on_error", 1, True)]
    assert ("before_step", 1, False) in seen


async def test_it_does_not_run_after_a_step_without_errors() -> None:
    seen: list[int] = []
    await on_error(
        [call("add", a=1, b=2), "done"], ErrorPolicy.retry_all(), hook("n", lambda s: seen.append(s.step_count))
    )
    assert seen == []


@pytest.mark.parametrize("decision", [REQUEST, ALLOW])
async def test_a_policy_that_stops_is_not_overruled(decision: ContinuationDecision) -> None:
    ran = await on_error([BROKEN, "done"], ErrorPolicy.stop_on_any_error(), casting(decision))
    assert ran.ending == ("failed", "error")
    assert ran.decisions[-1] == (1, "boundary", False, "ErrorPolicyCriterion")
    assert ran.result.outcome is not None
    assert ran.result.outcome.get_evaluation_for("tests.hook") is not None


async def test_a_hook_that_forbids_a_retry_stops_the_run_with_its_own_reason_and_as_failed() -> None:
    ran = await on_error([BROKEN, "done"], ErrorPolicy.retry_all(3), casting(FORBID, StopReason.USER_REQUESTED))
    assert ran.ending == ("failed", "user_requested")
    assert ran.decisions[-1] == (1, "boundary", False, "tests.hook")
    assert "retry.scheduled" not in ran.types


async def test_a_hook_that_votes_stop_ends_the_retries_and_the_run_is_not_completed() -> None:
    ran = await on_error([BROKEN, "done"], ErrorPolicy.retry_all(3), casting(STOP))
    assert ran.result.status == "failed"
    assert ran.result.state.step_count == 1


async def test_one_decision_follows_a_failed_step() -> None:
    ran = await on_error([BROKEN, "done"], ErrorPolicy.retry_all(3), casting(ALLOW))
    assert ran.decisions == [
        (0, "boundary", True, "ToolCallPresenceCheck"),
        (1, "boundary", True, "aggregate"),
        (2, "boundary", False, "aggregate"),
    ]


async def test_a_stricter_policy_as_a_hook_stops_first() -> None:
    ran = await on_error([BROKEN, BROKEN, "done"], ErrorPolicy.retry_all(5), ErrorPolicyHook(ErrorPolicy.retry_all(2)))
    assert ran.ending == ("failed", "retry_limit")
    assert ran.result.state.step_count == 2
