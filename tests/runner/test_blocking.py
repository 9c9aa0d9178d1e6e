"""A hook blocks one tool call: that call and no other, and the error policy decides about the run."""

from steptrail import ErrorPolicy, HookType
from steptrail.domain.agent.events import EvaluationsRecorded, ToolCallBlocked, ToolExecutionStarted
from steptrail.domain.agent.step import CallStatus
from steptrail.hooks import HookState, ToolBlockingHook
from steptrail.testing import ScriptedModel, calls
from tests.runner.kit import Run, agent_of, hook, run

THREE = calls(("add", {"a": 1, "b": 2}), ("fail", {}), ("add", {"a": 3, "b": 4}))
BLOCK_FAIL = ToolBlockingHook(["fail"], "not on Sundays")


async def blocked(policy: ErrorPolicy, model: ScriptedModel | None = None) -> Run:
    builder = agent_of([]).with_model(model or ScriptedModel([THREE, "done"])).with_error_policy(policy)
    return await run(builder.with_hook(HookType.PRE_TOOL_USE, BLOCK_FAIL).build())


async def test_a_block_affects_that_call_only_and_later_calls_still_run() -> None:
    ran = await blocked(ErrorPolicy.ignore_tool_errors())
    assert [type_ for type_ in ran.types if type_.startswith("tool.")] == [
        "tool.call.blocked",
        "tool.execution.started",
        "tool.execution.started",
        "tool.execution.completed",
        "tool.execution.completed",
    ]
    assert ran.one(ToolCallBlocked) == ToolCallBlocked(position=1, reason="not on Sundays", hook="ToolBlockingHook")
    assert [started.position for started in ran.all(ToolExecutionStarted)] == [0, 2]
    statuses = [execution.status for execution in ran.result.state.steps[0].tool_executions]
    assert statuses == [CallStatus.COMPLETED, CallStatus.BLOCKED, CallStatus.COMPLETED]


async def test_the_model_is_told_why() -> None:
    model = ScriptedModel([THREE, "done"])
    ran = await blocked(ErrorPolicy.ignore_tool_errors(), model)
    assert ran.shown == ["3", "Error in tool call: not on Sundays", "7"]
    told = [part for message in model.requests[1].messages for part in message.parts if part.kind == "tool_result"]
    assert [(part.text, part.is_error) for part in told] == [
        ("3", False),
        ("Error in tool call: not on Sundays", True),
        ("7", False),
    ]


async def test_a_block_is_an_error_of_a_tool_for_the_policy() -> None:
    stopped = await blocked(ErrorPolicy.stop_on_any_error())
    assert stopped.ending == ("failed", "error")
    assert stopped.result.outcome is not None
    policy = stopped.result.outcome.get_evaluation_for("ErrorPolicyCriterion")
    assert policy is not None
    assert (policy.context["errorType"], policy.context["toolName"]) == ("tool", "fail")
    assert policy.reason == "Tool error after 1 consecutive failures (max: 0)"
    ignored = await blocked(ErrorPolicy.ignore_tool_errors())
    assert ignored.ending == ("completed", "completed")
    assert ignored.result.output == "done"


async def test_a_block_casts_no_vote() -> None:
    ran = await blocked(ErrorPolicy.ignore_tool_errors())
    assert all(event.hook is None for event in ran.all(EvaluationsRecorded))


async def test_the_hooks_after_the_one_that_blocks_run_and_cannot_unblock() -> None:
    seen: list[bool] = []

    def later(state: HookState) -> HookState:
        execution = state.current_execution.tool_execution
        seen.append(execution is not None and execution.status is CallStatus.BLOCKED)
        return state.with_tool_arguments({"why": "let me through"})

    builder = agent_of([calls(("fail", {})), "done"]).with_error_policy(ErrorPolicy.ignore_tool_errors())
    builder.with_hook(HookType.PRE_TOOL_USE, BLOCK_FAIL).with_hook(HookType.PRE_TOOL_USE, hook("later", later))
    ran = await run(builder.build())
    assert seen == [True]
    assert "tool.call.amended" not in ran.types
    assert "tool.execution.started" not in ran.types


async def test_a_blocked_call_has_no_result_to_look_at() -> None:
    seen: list[int] = []
    builder = agent_of([THREE, "done"]).with_error_policy(ErrorPolicy.ignore_tool_errors())
    builder.with_hook(HookType.PRE_TOOL_USE, BLOCK_FAIL)
    builder.with_hook(
        HookType.POST_TOOL_USE,
        hook(
            "p",
            lambda s: seen.append(
                s.current_execution.tool_execution.position if s.current_execution.tool_execution else -1
            ),
        ),
    )
    await run(builder.build())
    assert seen == [0, 2]


async def test_a_hook_that_fails_before_a_tool_lets_nothing_through_and_fails_the_run() -> None:
    def boom(state: HookState) -> None:
        raise RuntimeError("no connection")

    builder = agent_of([calls(("add", {"a": 1, "b": 2})), "done"]).with_error_policy(ErrorPolicy.ignore_tool_errors())
    ran = await run(builder.with_hook(HookType.PRE_TOOL_USE, hook("guard", boom)).build())
    assert "tool.execution.started" not in ran.types
    assert ran.one(ToolCallBlocked).reason == "the hook guard failed: RuntimeError: no connection"
    assert ran.ending == ("failed", "error")
    assert ran.result.outcome is not None
    assert ran.result.outcome.resolved_by == "guard"
