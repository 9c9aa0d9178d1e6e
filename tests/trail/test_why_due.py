"""Every run that is due says why: answered, started, said to, cancelled, or what it waited for has moved on."""

import asyncio
from collections.abc import Mapping

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.due import Due, DueCause
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.testing import ScriptedModel, call
from steptrail.testing.store_samples import Noted, commit_of
from steptrail.tools import ApprovalRule, SubagentTool
from steptrail.workflow import Workflow


@tool(approval=ApprovalRule(reason="it moves money"))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def asking(name: str = "asking") -> AgentBuilder:
    model = ScriptedModel([call("pay", cents=5), "settled"])
    return AgentBuilder(name).with_model(model).with_tools(pay)


async def why(trail: Steptrail) -> Mapping[str, Due | None]:
    return {row.session_id: row.due for row in await trail.due()}


async def test_an_answered_question_and_one_started_for_a_worker(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        done = await trail.run(asking().build(), "go", session="s")
        assert await why(trail) == {}
        await trail.session("s").approve(done.state.open_approvals[0].id, by="ana")
        await trail.start(asking().build(), "go", session="t")
        causes = {name: due.cause for name, due in (await why(trail)).items() if due is not None}
        assert causes == {"s": DueCause.ANSWERED, "t": DueCause.STARTED}
        assert all(due is not None and due.since for due in (await why(trail)).values())


async def test_one_of_two_answers_to_a_workflow(store_url: str) -> None:
    flow = Workflow("two").human("a", prompt="A?").human("b", prompt="B?").build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("a", approved=True, by="ana")
        (row,) = await trail.due()
        assert row.due is not None
        assert row.due.cause is DueCause.ANSWERED


async def test_a_caller_that_was_cancelled(store_url: str) -> None:
    begun = asyncio.Event()

    @tool
    async def waits() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return "late"

    agent = AgentBuilder("a").with_model(ScriptedModel([call("waits")])).with_tools(waits).build()
    async with Steptrail.open(store_url) as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        due = (await why(trail))["s"]
        assert due is not None
        assert due.cause is DueCause.CANCELLED


async def test_a_parent_whose_child_does_not_rest_any_more(store_url: str) -> None:
    child = asking("child")
    model = ScriptedModel([call("child", prompt="pay"), "done"])
    parent = (
        AgentBuilder("parent").with_model(model).with_tools(SubagentTool(child.build(), description="Ask.")).build()
    )
    async with Steptrail.open(store_url) as trail:
        await trail.run(parent, "go", session="p")
        (question,) = await trail.inbox()
        name = question.stream.removeprefix("agent:")
        await trail.session(name).approve(question.id, by="ana")
        assert (await why(trail))["p"] == Due(cause=DueCause.CHILD, stream=question.stream)


@pytest.mark.parametrize("status", [ExecutionStatus.PAUSED, ExecutionStatus.COMPLETED])
async def test_what_was_said_to_a_run_at_rest(store_url: str, status: ExecutionStatus) -> None:
    standings = {"paused": StandingState.PAUSED, "completed": StandingState.DONE}
    row = RunSummary(
        kind="agent",
        session_id="s",
        status=status,
        standing=standings[status],
        due_at=5,
        paused_by="ana" if status is ExecutionStatus.PAUSED else None,
        version=1,
    )
    commit = commit_of("c", Noted())
    async with Steptrail.open(store_url) as trail:
        await trail.store.append(row.stream, EMPTY_STREAM, Commit(commit.head, commit.events, row))
        assert await why(trail) == {"s": Due(cause=DueCause.SAID, since=5)}
