"""The inbox shows what workflows ask, from when it is asked until it is answered."""

import asyncio

from steptrail import Steptrail, ToolEffect, tool
from steptrail.workflow import Envelope, Workflow


@tool(effect=ToolEffect.UNSAFE, approval=True)
async def release(number: int) -> str:
    return f"released {number}"


async def test_a_question_is_open_while_another_branch_runs_and_while_the_run_is_paused(store_url: str) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def slow(envelope: Envelope) -> int:
        began.set()
        await may_end.wait()
        return 1

    flow = Workflow("side").human("ask", type="input", prompt="How many?").function("slow", slow).noop("end")
    built = flow.edge(("ask", "slow"), "end").build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        running = asyncio.create_task(trail.run(built, {}, session="s"))
        await began.wait()
        (question,) = await other.inbox()
        assert (question.kind, question.node, question.type, question.prompt) == ("human", "ask", "input", "How many?")
        assert [run.stream for run in await other.runs(waits_for="human")] == ["flow:s"]
        await other.flow("s").pause(by="ana")
        may_end.set()
        assert (await running).status == "paused"
        assert [each.id for each in await other.inbox()] == [question.id]
        await other.flow("s").answer("ask", data=3, digest=question.digest, by="ana")
        assert await other.inbox() == []
        assert (await other.flow("s").resume(built)).status == "completed"


async def test_an_approval_shows_the_arguments_that_the_tool_is_called_with(store_url: str) -> None:
    built = Workflow("w").tool("out", release, args={"number": "{{ input.id }}"}, output="said").build()
    async with Steptrail.open(store_url) as trail:
        assert (await trail.run(built, {"id": 7}, session="s")).status == "waiting"
        (question,) = await trail.inbox()
        assert (question.kind, question.tool, question.arguments) == ("approval", "release", {"number": 7})
        assert (question.node, question.stream, question.agent) == ("out", "flow:s", "w")
        await trail.flow("s").approve(question.id, by="ana", digest=question.digest)
        assert await trail.inbox() == []
        assert (await trail.flow("s").resume(built)).output == "released 7"


async def test_an_older_execution_is_explained_as_it_ended(store_url: str) -> None:
    def fails(envelope: Envelope) -> int:
        raise ValueError("no luck")

    built = Workflow("w").function("f", fails).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(built, {}, session="s")
        await trail.flow("s").retry(built)
        older, newer = await trail.flow("s").why(execution=1), await trail.flow("s").why(execution=2)
        assert (older.execution_id, newer.execution_id) == ("s:1", "s:2")
        assert (older.is_newest, newer.is_newest) == (False, True)
