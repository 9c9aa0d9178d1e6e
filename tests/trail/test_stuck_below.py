"""A worker that cannot go on with what a run waits for tries a few times, and leaves the run until that has moved."""

from pathlib import Path
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.kernel.commands import Pause
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.flow.means import flow_means
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel import hands
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call, calls
from steptrail.tools import SpawnSubagent, Subagent, SubagentTool
from steptrail.workflow import BuiltWorkflow, FlowTool, Workflow
from tests.runner.test_changed_contexts import CONTEXTS, New, Old, boss, clerk, flow
from tests.trail.workers import ON_FILES_ONLY, Place, ended, until

pytestmark = pytest.mark.usefixtures("often", "impatiently")


@pytest.fixture
def impatiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 0.02)
    monkeypatch.setattr(hands, "_LONGEST_REST_SECONDS", 0.1)


@pytest.mark.parametrize("above", ["agent", "flow"])
async def test_a_run_above_a_session_with_an_older_context_is_left_until_that_has_moved(
    place: Place, above: str, pass_by: Any
) -> None:
    old: Any = boss(Old) if above == "agent" else flow(Old)
    new: Any = boss(New) if above == "agent" else flow(New)
    left: list[str] = []
    async with place.opened() as trail:
        await trail.run(old, "Go.", session="s")
        (asked,) = await trail.inbox()
        below = trail.session(asked.stream.removeprefix("agent:"))
        await below.approve(asked.id, by="ana")
        async with trail.work(new, on_left=lambda row, _: left.append(row.stream)):
            await until(lambda: bool(left))
            version = await trail.store.version(f"{above}:s")
            await pass_by()
            assert left == [f"{above}:s"]
            assert await trail.store.version(f"{above}:s") == version
            await below.resume(clerk(New), context=CONTEXTS[New])
            await ended(trail, f"{above}:s")


def order(*nodes: str, ran: list[str]) -> BuiltWorkflow:
    """Return a workflow with another one below it, of such functions with a question behind the first."""

    def noted(node: str) -> Any:
        def note(_: object) -> str:
            if f"no {node}" in ran:
                raise ConnectionError(node)
            ran.append(node)
            return node

        return note

    below = Workflow("below")
    for node in nodes:
        below.function(node, noted(node), output=node)
    built = below.human("ask", prompt="Pay?").chain(nodes[0], "ask", *nodes[1:]).build()
    return Workflow("order").flow("sub", built).build()


@ON_FILES_ONLY
async def test_a_run_is_left_to_a_worker_that_has_the_code_of_the_workflow_below_it(place: Place) -> None:
    ran: list[str] = []
    old, new, left = order("a", "b", ran=ran), order("a", "y", ran=ran), list[str]()
    async with place.opened() as trail:
        await trail.run(old, "go", session="r")
        (asked,) = await trail.inbox()
        await trail.flow(asked.stream.removeprefix("flow:")).answer("ask", approved=True, by="ana")
        async with trail.work(new, on_left=lambda row, _: left.append(row.stream)):
            await until(lambda: bool(left))
        assert (await trail.flow("r").state()).is_open
        async with trail.work(old):
            await ended(trail, "flow:r")
    assert ran == ["a", "b"]


async def test_so_is_a_run_whose_owner_died_before_it_paused_the_workflow_below(tmp_path: Path) -> None:
    ran: list[str] = []
    old, new = order("a", "b", ran=ran), order("a", "y", ran=ran)
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(old, "go", session="r")
        (asked,) = await trail.inbox()
        name = asked.stream.removeprefix("flow:")
        below = FlowControl(Environment(store=trail.store), name, flow_means()).stream
        await trail.flow(name).answer("ask", approved=True, by="ana")
        await below.append(await below.existing(), Pause(by="ana"))
        assert (await trail.flow("r").resume(new)).status is ExecutionStatus.WAITING
        assert (await trail.flow("r").resume(old)).status is ExecutionStatus.COMPLETED
    assert ran == ["a", "b"]


@ON_FILES_ONLY
async def test_of_two_versions_that_differ_in_a_workflow_below_each_goes_on_with_what_it_began(place: Place) -> None:
    ran: list[str] = []
    old, new = order("a", "b", ran=ran), order("a", "y", ran=ran)
    async with place.opened() as trail:
        for version, name in ((old, "r1"), (new, "r2")):
            await trail.run(version, "go", session=name)
        for asked in await trail.inbox():
            await trail.flow(asked.stream.removeprefix("flow:")).answer("ask", approved=True, by="ana")
        async with trail.work(old, new):
            await ended(trail, "flow:r1", "flow:r2")
    assert sorted(ran) == ["a", "a", "b", "y"]


@pytest.mark.parametrize(
    ("above", "between"), [("agent", ""), ("agent", "tool"), ("agent", "spawned"), ("flow", ""), ("flow", "node")]
)
async def test_so_does_each_of_two_versions_of_a_tool_that_runs_a_workflow(
    tmp_path: Path, above: str, between: str
) -> None:
    ran: list[str] = []

    def calling(name: str, runs: Any, **said: str) -> Any:
        return AgentBuilder(name).with_model(ScriptedModel([call("run", **said), "Done."])).with_tools(runs).build()

    def version(*nodes: str) -> Any:
        runs = FlowTool(order(*nodes, ran=ran), name="run")
        clerk = calling("clerk", runs)
        if between == "tool":
            return calling("top", SubagentTool(clerk, name="run"), prompt="go")
        if between == "spawned":
            return calling("top", SpawnSubagent({"clerk": clerk}, name="run"), subagent="clerk", prompt="go")
        if above == "agent":
            return calling("top", runs)
        return (Workflow("top").agent("n", clerk, prompt="go") if between else Workflow("top").tool("n", runs)).build()

    old, new = version("a", "b"), version("a", "y")
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for agent, name in ((old, "r1"), (new, "r2")):
            await trail.run(agent, "go" if above == "agent" else {}, session=name)
        for asked in await trail.inbox():
            await trail.flow(asked.stream.removeprefix("flow:")).answer("ask", approved=True, by="ana")
        async with trail.work(old, new):
            await ended(trail, f"{above}:r1", f"{above}:r2")
    assert sorted(ran) == ["a", "a", "b", "y"]


@ON_FILES_ONLY
async def test_so_is_one_that_is_retried(place: Place) -> None:
    ran: list[str] = []
    old, new, left = order("a", "b", ran=ran), order("a", "y", ran=ran), list[str]()
    async with place.opened() as trail:
        await trail.run(old, "go", session="r")
        (asked,) = await trail.inbox()
        below = trail.flow(asked.stream.removeprefix("flow:"))
        await below.answer("ask", approved=True, by="ana")
        ran.append("no b")
        assert (await trail.flow("r").resume(old)).status == "failed"
        ran.remove("no b")
        await trail.flow("r").requeue(by="ana")
        async with trail.work(new, on_left=lambda row, _: left.append(row.stream)):
            await until(lambda: bool(left))
        async with trail.work(old):
            await ended(trail, "flow:r")
    assert ran == ["a", "b"]


def two(kind: type[Old]) -> Any:
    """Return an agent above two that ask at the same time: one with a context of this kind, and one without."""
    stuck = SubagentTool(Subagent(agent=clerk(kind), context=CONTEXTS[kind]), name="clerk")
    model = ScriptedModel([calls(("clerk", {"prompt": "Pay."}), ("cashier", {"prompt": "Pay."})), "Done."])
    return AgentBuilder("boss").with_model(model).with_tools(stuck, SubagentTool(clerk(None), name="cashier")).build()


async def test_what_can_go_on_beside_one_that_is_stuck_does_so_while_the_run_above_has_a_rest(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hands, "_FIRST_REST_SECONDS", 1_000.0)
    monkeypatch.setattr(hands, "_LONGEST_REST_SECONDS", 2_000.0)
    async with place.opened() as trail:
        await trail.run(two(Old), "Go.", session="s")
        asked = {each.stream.removeprefix("agent:"): each.id for each in await trail.inbox()}
        clerks, cashiers = (session_for_call(f"s:1:1:{position}") for position in (0, 1))
        await trail.session(clerks).approve(asked[clerks], by="ana")
        async with trail.work(two(New)):
            await until(lambda: "session s is left for a while" in caplog.text)
            await trail.session(cashiers).approve(asked[cashiers], by="ana")
            await ended(trail, cashiers)
