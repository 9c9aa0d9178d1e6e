"""The questions of one reply in the lists of a store, and two processes that answer two of them at the same moment."""

import asyncio
import json

import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ApprovalRule
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, calls
from tests.trail.test_due import Shifted

ran: list[int] = []


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
def pay(amount: int) -> str:
    """Pay."""
    ran.append(amount)
    return f"paid {amount}"


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=24 * 3600))
def ship(amount: int) -> str:
    """Ship."""
    ran.append(amount)
    return f"shipped {amount}"


def agent(*wanted: str) -> Agent:
    reply = calls(*[(name, {"amount": amount}) for amount, name in enumerate(wanted)])
    return AgentBuilder("desk").with_model(ScriptedModel([reply, "Done."])).with_tools(pay, ship).build()


async def test_two_processes_that_answer_two_questions_at_the_same_moment_end_the_wait_together(store_url: str) -> None:
    ran.clear()
    desk = agent(*["pay"] * 8)
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        await trail.run(desk, "go", session="s")
        asked = await trail.inbox()
        assert len(asked) == 8
        answers = [
            (trail if place % 2 else other).session("s").approve(each.id, by="ana") for place, each in enumerate(asked)
        ]
        answered = await asyncio.gather(*reversed(answers))
        assert sum(not each.state.open_approvals for each in answered) == 1
        assert list(await other.inbox()) == []
        assert [row.session_id for row in await other.due()] == ["s"]
        done = await other.session("s").resume(desk)
        assert (done.status, ran) == (ExecutionStatus.COMPLETED, list(range(8)))


async def test_a_session_is_due_once_the_last_of_its_questions_is_answered_or_has_expired(store_url: str) -> None:
    desk = agent("pay", "ship")
    async with Steptrail.open(store_url) as trail:
        await trail.run(desk, "go", session="both")
        await trail.run(desk, "go", session="one")
        await trail.session("one").deny("one:1:1:1", by="ana")
        assert await trail.due() == []
        waits = [each.kind for row in await trail.runs() for each in row.waits if each.answered_at is None]
        assert waits == ["approval"] * 3
    async with Steptrail(Environment(store=open_store(store_url), clock=Shifted(hours=1.1))) as later:
        assert [each.id for each in await later.inbox()] == ["both:1:1:1"]
        assert [row.session_id for row in await later.due()] == ["one"]
        waiting = await later.session("both").resume(desk)
        assert [each.id for each in waiting.state.open_approvals] == ["both:1:1:1"]
        assert (await later.session("one").resume(desk)).status is ExecutionStatus.COMPLETED
    async with Steptrail(Environment(store=open_store(store_url), clock=Shifted(hours=25))) as tomorrow:
        assert [row.session_id for row in await tomorrow.due()] == ["both"]
        assert (await tomorrow.session("both").resume(desk)).status is ExecutionStatus.COMPLETED


async def test_a_worker_takes_the_session_up_after_the_last_answer_and_not_before(store_url: str) -> None:
    desk = agent("pay", "ship")
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other, other.work(desk):
        asked = await trail.run(desk, "go", session="s")
        answered = await trail.session("s").approve("s:1:1:1", by="ana")
        assert answered.state.version == asked.state.version + 1
        await asyncio.sleep(0.1)
        assert (await trail.session("s").state()).version == answered.state.version
        await trail.session("s").deny("s:1:1:0", by="ana")
        async with asyncio.timeout(60):
            while (await trail.session("s").state()).status is not ExecutionStatus.COMPLETED:
                await asyncio.sleep(0.01)


def test_the_command_line_names_every_open_question_and_how_many_are_left(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def asks() -> None:
        async with Steptrail.open(store_url) as trail:
            await trail.run(agent("pay", "pay", "pay"), "go", session="s")

    def said(*arguments: str) -> str:
        assert main(["--store", store_url, *arguments]) == 0
        return capsys.readouterr().out

    asyncio.run(asks())
    assert [each["id"] for each in json.loads(said("inbox", "--json"))] == ["s:1:1:0", "s:1:1:1", "s:1:1:2"]
    told = said("why", "s")
    for position in range(3):
        assert f'pay {{"amount":{position}}}: approval s:1:1:{position}, expires' in told
    assert said("inbox").count("one of 3 questions: the run goes on when none of them is open") == 3
    assert "recorded; 2 more questions are open" in said("approve", "s", "s:1:1:1", "--by", "ana")
    assert "recorded; 1 more question is open" in said("deny", "s", "s:1:1:2", "--by", "ana")
    assert "resume" in said("approve", "s", "s:1:1:0", "--by", "ana")
