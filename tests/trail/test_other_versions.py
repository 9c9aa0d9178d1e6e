"""A run of another version of its workflow is left to a worker that has the code which the run may still call."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.kernel.commands import Pause
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.infrastructure.flow.means import flow_means
from steptrail.runtime.flow.control import FlowControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Envelope, RunOptions, Workflow
from tests.trail.workers import Place, ended, until

pytestmark = pytest.mark.usefixtures("often")


async def test_a_run_is_left_to_a_worker_that_has_the_code_of_all_nodes_that_may_still_come(place: Place) -> None:
    ran: list[str] = []

    def version(*nodes: str) -> BuiltWorkflow:
        flow = Workflow("order")
        for node in nodes:
            flow.function(node, partial(note, node), output=node)
        return flow.human("ask", prompt="Pay?").chain(nodes[0], "ask", *nodes[1:]).build()

    def note(node: str, envelope: Envelope) -> str:
        ran.append(node)
        return node

    old, without_what_is_over, without_what_comes = version("a", "b"), version("x", "b"), version("a", "y")
    left: list[Exception | None] = []
    async with place.opened() as trail:
        for name in ("r1", "r2"):
            await trail.run(old, "go", session=name, options=RunOptions(longest_wait=0))
        await trail.flow("r1").answer("ask", approved=True, by="ana")
        async with trail.work(without_what_comes, on_left=lambda _, error: left.append(error)):
            await until(lambda: bool(left))
        assert str(left[0]) == (
            "cannot resume session 'flow:r1': it was begun with another version of 'order', and this one lacks what "
            "its node 'b' calls: give a worker that version too"
        )
        assert (await trail.flow("r1").state()).is_open
        await trail.flow("r2").answer("ask", approved=True, by="ana")
        async with trail.work(without_what_is_over):
            await ended(trail, "flow:r1", "flow:r2")
    assert ran == ["a", "a", "b", "b"]


@pytest.mark.parametrize("kind", ["gate", "merge"])
async def test_a_run_is_left_to_a_worker_that_has_the_functions_that_may_still_decide(place: Place, kind: str) -> None:
    def old(given: object) -> bool:
        return True

    def new(given: object) -> bool:
        return True

    def version(function: Callable[[Any], bool]) -> BuiltWorkflow:
        flow = Workflow("order").human("ask", prompt="Pay?").chain("ask", "last")
        return (flow.gate("last", when=function) if kind == "gate" else flow.merge("last", function=function)).build()

    left: list[Exception | None] = []
    async with place.opened() as trail:
        await trail.run(version(old), "go", session="r", options=RunOptions(longest_wait=0))
        await trail.flow("r").answer("ask", approved=True, by="ana")
        async with trail.work(version(new), on_left=lambda _, error: left.append(error)):
            await until(lambda: bool(left))
        assert "this one lacks what its node 'last' calls" in str(left[0])
        async with trail.work(version(old)):
            await ended(trail, "flow:r")
        assert (await trail.flow("r").state()).status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("behind", ["acquire", "append"])
async def test_a_run_whose_pause_is_withdrawn_while_a_worker_carries_it_out_is_left_to_one_that_has_the_code(
    tmp_path: Path, behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        Workflow("order").function(node, lambda _: "done").human("ask", prompt="Pay?").chain("ask", node).build()
        for node in ("a", "b")
    )
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail, Steptrail.open(url) as other:
        await trail.run(old, session="r", options=RunOptions(longest_wait=0))
        await trail.flow("r").answer("ask", approved=True, by="ana")
        worker, does = FlowControl(Environment(store=trail.store), "r", flow_means()), getattr(trail.store, behind)
        # As an owner leaves it that dies before it pauses.
        await worker.stream.append(await worker.stream.existing(), Pause(by="ana"))

        async def and_then_lifted(*given: Any, **named: Any) -> Any:
            monkeypatch.undo()
            done = await does(*given, **named)
            await other.flow("r").unpause(by="ana")
            return done

        monkeypatch.setattr(trail.store, behind, and_then_lifted)
        with suppress(CommandRejected):
            await worker.resume(new, obeys_pause=True)
        assert (await trail.flow("r").state()).is_open
        async with trail.work(old):
            await ended(trail, "flow:r")
        assert (await trail.flow("r").state()).status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("fails", [False, True])
async def test_a_node_that_is_held_when_it_has_ended_calls_nothing_more(*, place: Place, fails: bool) -> None:
    ran: list[str] = []

    def version(*nodes: str) -> BuiltWorkflow:
        flow = Workflow("order")
        for node in nodes:
            flow.function(node, partial(note, node), output=node, on_error="continue")
        return flow.chain(*nodes).build()

    def note(node: str, envelope: Envelope) -> str:
        ran.append(node)
        if fails and node == "a":
            raise ValueError(node)
        return node

    async with place.opened() as trail:
        await trail.run(version("a", "b"), session="r", options=RunOptions(pause_after=("a",), longest_wait=0))
        await trail.flow("r").step("a", "continue", by="ana")
        async with trail.work(version("x", "b")):
            await ended(trail, "flow:r")
    assert ran == ["a", "b"]


async def test_a_session_of_none_of_these_versions_goes_on_with_the_last_that_was_given(place: Place) -> None:
    first, old, other, new = (
        AgentBuilder("x").with_model(ScriptedModel([word])).with_system_prompt(prompt).build()
        for word, prompt in (("first", "a"), ("old", "b"), ("other", "c"), ("new", "b"))
    )
    async with place.opened() as trail:
        await trail.start(first, "go", session="s")
        async with trail.work(old, other, new):
            await ended(trail, "s")
        assert (await trail.session("s").state()).output == "new"
