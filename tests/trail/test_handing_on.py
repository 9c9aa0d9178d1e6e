"""A person hands a run to the workers that they paused, or that came to no answer. Nobody runs it meanwhile."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ExecutionStarted, PauseLifted
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.shared.due import DueCause
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import CommandRejected
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow

PATIENCE = 30.0


@pytest.fixture
async def trail(tmp_path: Path) -> AsyncGenerator[Steptrail]:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail, asyncio.timeout(PATIENCE):
        yield trail


class Bank:
    """A tool that fails until it is mended."""

    def __init__(self) -> None:
        self.is_mended, self.asked = False, 0

        @tool(effect=ToolEffect.READ)
        def balance() -> str:
            """Say what there is."""
            self.asked += 1
            if not self.is_mended:
                raise ConnectionError("the bank is away")
            return "12 euros"

        script = [call("balance"), "12 euros.", "12 euros.", "12 euros."]
        self.agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(balance)


async def ended(trail: Steptrail, name: str) -> ExecutionStatus:
    """Return how a run ended that a worker carries on."""
    async for _ in trail.handle(name).follow():
        pass
    state = await trail.handle(name).state()
    assert isinstance(state.status, ExecutionStatus)
    return state.status


async def test_a_worker_goes_on_with_a_session_whose_pause_was_lifted(trail: Steptrail) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Done."])).build()
    session = await trail.start(agent, "Do it", session="s")
    await session.pause(by="ana", reason="not now")
    assert (await session.result()).status is ExecutionStatus.PAUSED
    assert await trail.due() == []
    lifted = await session.unpause(by="ben", reason="now")
    assert lifted.status is ExecutionStatus.PENDING
    (row,) = await trail.due()
    assert (row.due and row.due.cause, row.status) == (DueCause.STARTED, ExecutionStatus.PENDING)
    why = await session.why()
    assert why.state.unpaused is not None
    assert (why.state.unpaused.by, why.state.unpaused.reason) == ("ben", "now")
    assert why.verdict.startswith("not stopped: unpaused after 0 steps, waiting for a worker since")
    async with trail.work(agent):
        assert await ended(trail, "s") is ExecutionStatus.COMPLETED
    assert (await session.state()).unpaused is None


async def test_a_key_lifts_one_pause_and_not_the_next(trail: Steptrail) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Done."])).build()
    session = await trail.start(agent, "Do it", session="s")
    await session.pause(by="ana")
    for _ in range(2):
        assert (await session.unpause(by="ben", key="k")).status is ExecutionStatus.PENDING
    assert [type(each.event) for each in await session.events()].count(PauseLifted) == 1
    await session.pause(by="ana")
    assert (await session.unpause(by="ben", key="k")).status is ExecutionStatus.PAUSED
    with pytest.raises(CommandRejected, match="'k'"):
        await session.pause(by="ana", key="k")


async def test_the_pauses_below_are_lifted_too(trail: Steptrail) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def look() -> str:
        """Look."""
        reached.set()
        await go_on.wait()
        return "seen"

    inner = AgentBuilder("inner").with_model(ScriptedModel([call("look"), "Found."])).with_tools(look).build()
    script = [call("inner", prompt="find it"), "Both."]
    outer = AgentBuilder("outer").with_model(ScriptedModel(script)).with_tools(SubagentTool(inner)).build()
    running = asyncio.create_task(trail.run(outer, "Go", session="s"))
    await reached.wait()
    await trail.session("s").pause(by="ana")
    go_on.set()
    assert (await running).status is ExecutionStatus.PAUSED
    await trail.session("s").unpause(by="ben")
    assert {row.status for row in await trail.runs()} == {ExecutionStatus.PENDING}
    async with trail.work(outer):
        assert await ended(trail, "s") is ExecutionStatus.COMPLETED
    assert {row.status for row in await trail.runs()} == {ExecutionStatus.COMPLETED}


async def test_a_worker_retries_what_was_handed_to_it_with_the_code_that_it_has(trail: Steptrail) -> None:
    bank = Bank()
    failing = bank.agent.with_error_policy(ErrorPolicy.stop_on_any_error()).build()
    assert (await trail.run(failing, "How much?", session="s")).status is ExecutionStatus.FAILED
    session = trail.session("s")
    with pytest.raises(CommandRejected, match="no execution is open"):
        await session.unpause(by="ana")
    for _ in range(2):
        requeued = await session.requeue(by="ana", reason="the bank is back", key="k", limits=Limits(max_steps=7))
        assert requeued.status is ExecutionStatus.PENDING
    with pytest.raises(CommandRejected, match="pending and not over"):
        await session.requeue(by="ben")
    bank.is_mended = True
    async with trail.work(bank.agent.with_system_prompt("Be kind.").build()):
        assert await ended(trail, "s") is ExecutionStatus.COMPLETED
    started = [each.event for each in await session.events() if isinstance(each.event, ExecutionStarted)]
    assert [(event.ordinal, event.by, event.reason, event.retry_of) for event in started[1:]] == [
        (2, "ana", "the bank is back", "s:1")
    ]
    state = await session.state()
    assert state.agent is not None
    assert (state.agent.limits.max_steps, state.execution_id) == (7, "s:2")
    with pytest.raises(CommandRejected, match="has answered"):
        await session.requeue(by="ben")


async def test_what_a_limit_ended_goes_on_with_a_worker(trail: Steptrail) -> None:
    bank = Bank()
    bank.is_mended = True
    agent = bank.agent.with_max_steps(1).build()
    limited = await trail.run(agent, "How much?", session="s")
    assert limited.stop_reason is StopReason.STEPS_LIMIT
    await trail.session("s").requeue(by="ana")
    async with trail.work(agent):
        assert await ended(trail, "s") is ExecutionStatus.COMPLETED
    assert bank.asked == 1


def flow_of(bank: Bank) -> BuiltWorkflow:
    def balance(envelope: Envelope) -> object:
        bank.asked += 1
        if not bank.is_mended:
            raise ConnectionError("the bank is away")
        return f"{envelope.input}: 12 euros"

    built = Workflow("bank", result="said").function("first", lambda envelope: "hello", output="hello")
    return built.function("ask", balance, output="said").chain("first", "ask").build()


async def test_workflows_are_handed_on_too(trail: Steptrail) -> None:
    bank = Bank()
    flow = flow_of(bank)
    assert (await trail.run(flow, "ana", session="f")).status is ExecutionStatus.FAILED
    handle = trail.flow("f")
    assert (await handle.requeue(by="ana", reason="it is back", key="k")).status is ExecutionStatus.PENDING
    assert (await handle.requeue(by="ana", key="k")).status is ExecutionStatus.PENDING
    await handle.pause(by="ana")
    assert (await handle.unpause(by="ben", reason="now")).status is ExecutionStatus.PENDING
    why = await handle.why()
    assert why.verdict.startswith("unpaused, waiting for a worker since")
    bank.is_mended = True
    async with trail.work(flow):
        assert await ended(trail, "flow:f") is ExecutionStatus.COMPLETED
    assert bank.asked == 2
    assert (await handle.result()).output == "ana: 12 euros"
    assert [row.executions for row in await trail.runs()] == [2]


def test_the_blocking_twin_hands_on_as_well() -> None:
    bank = Bank()
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        trail.run(bank.agent.with_error_policy(ErrorPolicy.stop_on_any_error()).build(), "How much?", session="s")
        assert trail.session("s").requeue(by="ana").status is ExecutionStatus.PENDING
        trail.session("s").pause(by="ana")
        assert trail.session("s").unpause(by="ana").status is ExecutionStatus.PENDING
