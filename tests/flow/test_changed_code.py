"""A run that goes on with a workflow whose code has changed since it began: what is found again, and what is missed."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

from steptrail import ToolEffect, tool
from steptrail.domain.flow.definition import changes_between
from steptrail.domain.flow.events import FlowResumed
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.interfaces.cli.flow_going_on import how_a_flow_goes_on
from steptrail.interfaces.cli.going_on import GivenWords
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.workflow import (
    BuiltWorkflow,
    Envelope,
    FailureClass,
    FlowTool,
    FunctionNode,
    Rule,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


async def test_changed_code_is_recorded_where_a_key_comes_again() -> None:
    old, new = (Workflow("t").human("ask", prompt=prompt).build() for prompt in ("?", "!"))
    async with trail_of() as trail:
        await trail.run(old, 1, session="f", key="k", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        await trail.run(new, 1, session="f", key="k")
        assert [event.changes for event in await events_of(trail) if isinstance(event, FlowResumed)] == [("ask",)]


async def test_changed_code_is_recorded_or_refused_and_the_recorded_graph_goes_on() -> None:
    world = World()
    old = Workflow("t").human("ask", prompt="?").function("b", world.function("b")).chain("ask", "b").build()
    new = Workflow("t").human("ask", prompt="!").function("c", world.function("c")).chain("ask", "c").build()
    assert changes_between(old.definition, new.definition) == ("-b", "+c", "ask", "edges")
    node = old.definition.nodes[1]
    assert isinstance(node, FunctionNode)
    async with trail_of() as trail:
        await trail.run(old, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        with pytest.raises(CommandRejected, match="not the recorded one"):
            await trail.flow("f").resume(new, strict=True)
        result = await trail.flow("f").resume(new)
        assert result.error is not None
        instead = "the workflow has nothing at this node now; go on with one that has it"
        assert result.error.message == f"nobody brought the function {node.function}: {instead}"
        assert (result.error.failure, result.error.attempt) == (FailureClass.CONFIG, 0)
        assert (await trail.flow("f").retry(old)).status is ExecutionStatus.COMPLETED
    assert world.done == {"b": 1}


def is_fine(_: Envelope) -> bool:
    return True


def is_finer(_: Envelope) -> bool:
    return True


def deciding_in(module: str) -> BuiltWorkflow:
    """Return a workflow whose deciding functions are those of a module of this name."""
    there: dict[str, Any] = {"__name__": module}
    exec("is_big, is_small = lambda seen: seen.input > 5, lambda seen: True", there)  # noqa: S102 - a module
    rules = [Rule(there["is_big"], to="big"), Rule(there["is_small"], to="small")]
    flow = Workflow("t").human("ask", prompt="?").rule_router("size", rules).noop("big").noop("small")
    return flow.chain("ask", "size").edge("size", "big", "small").build()


@pytest.mark.parametrize(("given", "to"), [(9, "big"), (1, "small")])
async def test_a_function_that_decides_is_found_where_its_module_has_another_name_now(given: int, to: str) -> None:
    async with trail_of() as trail:
        await trail.run(deciding_in("__main__"), given, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        result = await trail.flow("f").resume(deciding_in("shop.flows"))
        assert (result.status, result.envelope.vars["size_decision"]["targets"]) == (ExecutionStatus.COMPLETED, [to])


@pytest.mark.parametrize("modules", [("a", "b"), ("a", "a")])
async def test_of_deciding_functions_of_one_name_none_is_taken_for_one_that_is_gone(modules: tuple[str, str]) -> None:
    first, second = (eval("lambda seen: True", {"__name__": module}) for module in modules)  # noqa: S307 - a module
    old = Workflow("t").human("ask", prompt="?").noop("one").noop("two")
    old = old.rule_router("pick", [Rule(first, to="one"), Rule(second, to="two")])
    new = Workflow("t").human("ask", prompt="?").noop("two").rule_router("pick", [Rule(second, to="two")])
    async with trail_of() as trail:
        flow = old.chain("ask", "pick").edge("pick", "one", "two").build()
        await trail.run(flow, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        result = await trail.flow("f").resume(new.chain("ask", "pick", "two").build())
        assert result.error is not None
        assert "nobody brought the function a.<lambda>" in result.error.message
        assert (await trail.flow("f").retry(flow)).envelope.vars["pick_decision"]["targets"] == ["one"]


class Strict:
    @staticmethod
    def is_fine(_: Envelope) -> bool:
        return True


@pytest.mark.parametrize(("before", "now"), [(is_fine, is_finer), (Strict.is_fine, is_fine)])
async def test_a_function_that_decides_and_is_another_one_now_is_missed_with_a_way_on(
    before: Callable[[Envelope], bool], now: Callable[[Envelope], bool]
) -> None:
    old, new = (
        Workflow("t").human("ask", prompt="?").gate("pass", when=when).chain("ask", "pass").build()
        for when in (before, now)
    )
    async with trail_of() as trail:
        await trail.run(old, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        result = await trail.flow("f").resume(new)
        assert result.error is not None
        instead = f"the workflow has {__name__}.{now.__qualname__} at this node now; go on with one that has it"
        assert result.error.message == f"nobody brought the function {__name__}.{before.__qualname__}: {instead}"
        on = how_a_flow_goes_on(result.state, GivenWords(agent="new.py"))
        assert on.command == "steptrail retry WORKFLOW flow:f"
        assert (await trail.flow("f").retry(old)).status is ExecutionStatus.COMPLETED


async def test_a_tool_at_a_node_that_is_recorded_as_a_function_is_not_called() -> None:
    world = World()
    old = Workflow("t").human("ask", prompt="?").function("b", world.function("b")).chain("ask", "b").build()
    new = Workflow("t").human("ask", prompt="?").tool("b", world.tool(), args={"name": "b"}).chain("ask", "b").build()
    async with trail_of() as trail:
        await trail.run(old, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        result = await trail.flow("f").resume(new)
        assert result.error is not None
        assert re.match(
            r"nobody brought the function .*: the workflow has .*Tool at this node now", result.error.message
        )
        assert (result.error.failure, result.error.attempt) == (FailureClass.CONFIG, 0)
    assert world.done == {}


async def test_what_was_allowed_is_not_done_by_another_tool_that_the_node_has_now() -> None:
    done: list[str] = []

    def version(name: str) -> BuiltWorkflow:
        @tool(name=name, effect=ToolEffect.UNSAFE, approval=True)
        def act(cents: int) -> str:
            """Act."""
            done.append(f"{name} {cents}")
            return name

        return Workflow("t").tool("pay", act, args={"cents": 9}).build()

    async with trail_of() as trail:
        await trail.run(version("charge"), session="f")
        (asked,) = await trail.inbox()
        assert asked.tool == "charge"
        await trail.flow("f").approve(asked.id, by="ana")
        result = await trail.flow("f").resume(version("refund"))
        assert result.error is not None
        said = "nobody brought the tool charge: the workflow has the tool refund at this node now"
        assert said in (result.error.message or "")
        assert (await trail.flow("f").retry(version("charge"))).status is not ExecutionStatus.FAILED
    assert "refund 9" not in done


async def test_a_function_that_may_run_only_once_by_now_does_not_run_again_after_a_shutdown() -> None:
    world = World()
    world.holds = "a"

    def version(effect: Literal["read", "unsafe"]) -> BuiltWorkflow:
        return Workflow("t").function("a", world.function("a"), effect=effect).build()

    async with trail_of() as trail:
        running = asyncio.ensure_future(trail.run(version("read"), session="f", options=LEAVES))
        await world.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        world.gate.set()
        result = await trail.flow("f").resume(version("unsafe"))
    assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]
    assert world.done == {"a": 1}


async def test_a_tool_does_not_stand_in_for_one_of_its_name_that_runs_a_stream_nor_that_for_it() -> None:
    done: list[str] = []

    @tool(name="act", effect=ToolEffect.IDEMPOTENT)
    def alone() -> str:
        """Act."""
        done.append("alone")
        return "done"

    below = FlowTool(Workflow("below").human("ask", prompt="?").build(), name="act")
    plain, above = (Workflow("t").tool("n", each).build() for each in (alone, below))
    async with trail_of() as trail:
        with pytest.raises(Crash):
            await again_on(trail, None, crash_at("before-node")).run(plain, session="p", options=LEAVES)
        await trail.run(above, session="a")
        (asked,) = await trail.inbox()
        await trail.flow(asked.stream.removeprefix("flow:")).answer("ask", approved=True, by="ana")
        for session, old, other in (("a", above, plain), ("p", plain, above)):
            with pytest.raises(CommandRejected, match="lacks what its node 'n' calls"):
                await FlowControl(Environment(store=trail.store), session).resume(other, obeys_pause=True)
            result = await trail.flow(session).resume(other)
            assert result.error is not None
            assert re.match("nobody brought the tool act.* the workflow has the tool act", result.error.message or "")
            assert (await trail.flow(session).retry(old)).status is ExecutionStatus.COMPLETED
    assert done == ["alone"]


@pytest.mark.parametrize("is_item", [False, True])
async def test_a_function_that_may_run_only_once_by_now_does_not_run_again_after_a_crash(is_item: bool) -> None:
    world, clock = World(), HandClock()

    def version(effect: Literal["read", "unsafe"]) -> BuiltWorkflow:
        act = world.function("a")
        if is_item:
            return Workflow("t").map("m", over="input", function=act, effect=effect).build()
        return Workflow("t").function("m", act, effect=effect).build()

    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(version("read"), [1], session="f", options=LEAVES)
        result = await trail.flow("f").resume(version("unsafe"))
    assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]
    assert world.done == {"a": 1}
