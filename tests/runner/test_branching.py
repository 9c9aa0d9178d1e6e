"""A session branches before the input of a run: edited, the next message takes its place; regenerated, the same one."""

import asyncio

import pytest
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, Steptrail, ToolContext, external_tool, tool
from steptrail.domain.agent.state import AgentState
from steptrail.domain.shared.forks import ForkRef
from steptrail.errors import CommandRejected, ConfigurationError, FileUnreadable, SessionNotFound
from steptrail.events import SessionForked
from steptrail.hooks import HookType
from steptrail.messages import File, Message
from steptrail.testing import ScriptedModel, call
from steptrail.ui import ui_conversation
from tests.runner.kit import Crash, Echo, again_on, agent_of, crash_at, hook, trail_of

LOOK = external_tool("look", "Look.", {"type": "object", "properties": {}})


def echo() -> Agent:
    return AgentBuilder("echo").with_model(Echo()).build()


def texts(state: AgentState) -> list[str]:
    return [message.text for message in state.messages]


async def talked(trail: Steptrail, *said: str) -> Agent:
    agent = echo()
    for each in said:
        await trail.session("t").send(agent, each)
    return agent


@pytest.mark.acceptance("10.6-1")
async def test_a_fork_before_a_message_ends_with_the_run_before_and_takes_another_in_its_place() -> None:
    async with trail_of() as trail:
        agent = await talked(trail, "one", "two", "three")
        before = await trail.session("t").state()
        fork = await trail.session("t").fork(before="t:said:2", session="f", by="ana", reason="a typo")
        assert texts(await fork.state()) == ["one", "1: one"]
        done = await fork.send(agent, "zwei")
        assert texts(done.state) == ["one", "1: one", "zwei", "4: zwei"]
        assert (await trail.session("t").state()) == before
        (event, *_) = [record.event for record in await fork.events()]
        assert isinstance(event, SessionForked)
        assert (event.by, event.reason, event.source) == ("ana", "a typo", "t")


async def test_before_the_first_message_a_fork_is_empty_and_nobody_works_on_it() -> None:
    async with trail_of() as trail:
        agent = echo()
        await trail.run(agent, "one", session="t", metadata={"tenant": "acme"})
        fork = await trail.session("t").fork(before="t:said:1", session="f")
        state = await fork.state()
        assert (texts(state), dict(state.metadata), state.forked_from) == ([], {"tenant": "acme"}, ForkRef("t", 1))
        assert (await fork.why()).verdict == "not started: no execution yet"
        assert await trail.due() == []
        assert [(row.session_id, row.tenant) for row in await trail.runs()] == [("f", "acme"), ("t", "acme")]
        assert ui_conversation(state).messages == ()
        async with trail.work(agent):
            await asyncio.sleep(0)
        with pytest.raises(CommandRejected, match="nothing was said in it"):
            await fork.regenerate(agent)
        assert (await fork.send(agent, "eins")).output == "2: eins"
        again = await fork.fork(before="f:said:1", session="g")
        assert texts(await again.state()) == []
        assert (await trail.run(agent, "uno", session="g")).output == "3: uno"


async def test_the_history_that_a_session_began_with_stays_before_its_first_message() -> None:
    async with trail_of() as trail:
        agent = echo()
        past = [Message.user("before"), Message.assistant("yes")]
        await trail.run(agent, "one", session="t", history=past)
        fork = await trail.session("t").fork(before="t:said:3")
        assert texts(await fork.state()) == ["before", "yes"]
        assert (await fork.send(agent, "two")).output == "2: two"
        with pytest.raises(CommandRejected, match=r"'t:said:1' is of its history, with which it began: begin another"):
            await trail.session("t").fork(before="t:said:1")


async def test_what_began_no_run_is_refused_with_the_nearest_place() -> None:
    async with trail_of() as trail:
        waiting, session = asyncio.Event(), trail.session("t")

        @tool
        async def look(context: ToolContext) -> str:
            """Look."""
            if not waiting.is_set():
                waiting.set()
                await session.send(agent, "hurry")
            return "seen"

        agent = (
            AgentBuilder("a").with_model(ScriptedModel([call("look"), call("look"), "Done."])).with_tools(look).build()
        )
        await session.send(agent, "one")
        with pytest.raises(CommandRejected) as refused:
            await session.fork(before="t:said:2")
        assert "'t:said:2' was said while a run went on: fork before 't:said:1', with which" in str(refused.value)
        for part in ("t:1:2", "t:1:1:0"):
            with pytest.raises(CommandRejected, match="is part of a run: fork before 't:said:1'"):
                await session.fork(before=part)
        for unknown in ("t:said:9", "u:said:1", "", "t:2:1"):
            with pytest.raises(CommandRejected, match="it has no message"):
                await session.fork(before=unknown)
        with pytest.raises(ConfigurationError, match="give one of them"):
            await session.fork(at=1, before="t:said:1")
        with pytest.raises(SessionNotFound):
            await trail.session("nobody").fork(before="nobody:said:1")
        assert [row.session_id for row in await trail.runs()] == ["t"]


async def test_what_a_hook_says_between_two_steps_names_the_end_of_the_step_before() -> None:
    async with trail_of() as trail:
        says = hook(
            "clerk", lambda state: state.with_messages(Message.user("and more")) if state.step_count == 1 else None
        )
        agent = agent_of([call("add", a=1, b=2), "3"], (HookType.AFTER_STEP, says)).build()
        await trail.run(agent, "add", session="t")
        with pytest.raises(CommandRejected, match=r"or after event (\d+) of 't', where the step before") as refused:
            await trail.session("t").fork(before="t:said:2")
        at = int(str(refused.value).split("after event ")[1].split()[0])
        fork = await trail.session("t").fork(at=at)
        assert texts(await fork.state()) == ["add", "", "3"]


async def test_a_fork_of_a_fork_leaves_the_session_that_has_the_message() -> None:
    async with trail_of() as trail:
        agent = await talked(trail, "one", "two")
        fork = await trail.session("t").fork(before="t:said:2", session="f", metadata={"arm": "b"})
        await fork.send(agent, "zwei")
        shared = await (await fork.fork(before="f:said:1", session="g")).state()
        own = await (await fork.fork(before="f:said:2", session="h")).state()
        assert (shared.forked_from, texts(shared), dict(shared.metadata)) == (ForkRef("t", 1), [], {"arm": "b"})
        assert (own.forked_from, texts(own)) == (ForkRef("f", 1), ["one", "1: one"])


class Desk(BaseModel):
    name: str


@pytest.mark.acceptance("10.6-2")
async def test_the_same_input_is_answered_again_with_its_file_its_context_and_its_external_tools() -> None:
    async with trail_of() as trail:
        model = ScriptedModel(["One.", "Two.", "Three."])
        agent = AgentBuilder("desk").with_model(model).with_context(Desk).build()
        session, picture = trail.session("t"), File.from_bytes(b"tea", "text/plain", name="tea.txt")
        await session.send(agent, "hello", context=Desk(name="a"))
        await session.send(agent, Message.user("Look:", picture), context=Desk(name="b"), external_tools=[LOOK])
        again = await session.regenerate(agent, session="f", by="ana")
        assert (again.session_id, again.output, again.state.context) == ("f", "Two.", {"name": "b"})
        assert texts(again.state) == ["hello", "One.", "Look:", "Two."]
        assert [tool.name for tool in again.state.external_tools] == ["look"]
        assert (await trail.session("f").file(picture.digest)).data == b"tea"
        assert model.requests[-1].messages[-1].files[0].digest == picture.digest
        assert [spec.name for spec in model.requests[-1].tools] == ["look"]


async def test_files_that_only_messages_after_the_cut_name_stay_in_the_source_alone() -> None:
    async with trail_of() as trail:
        agent, picture = await talked(trail, "one"), File.from_bytes(b"tea", "text/plain")
        await trail.session("t").send(agent, Message.user("Look:", picture))
        fork = await trail.session("t").fork(before="t:said:2", session="f")
        assert (await trail.session("t").file(picture.digest)).data == b"tea"
        with pytest.raises(FileUnreadable, match="no message of session 'f' names it"):
            await fork.file(picture.digest)


async def test_with_a_key_it_is_done_once_whatever_became_of_the_session_meanwhile() -> None:
    async with trail_of() as trail:
        agent, session = await talked(trail, "one", "two"), trail.session("t")
        first, second = await asyncio.gather(
            *(session.regenerate(agent, key="k") for _ in range(2)), return_exceptions=True
        )
        done = [each for each in (first, second) if not isinstance(each, BaseException)]
        assert {each.output for each in done if each.output} == {"3: two"}
        await session.send(agent, "three")
        again = await session.regenerate(agent, key="k")
        assert (again.output, again.stored, again.session_id) == ("3: two", True, done[0].session_id)
        assert (await session.regenerate(agent, key="l")).output == "5: three"
        assert len(await trail.runs()) == 3
        with pytest.raises(CommandRejected, match="exists already"):
            await session.regenerate(agent, session="t", key="k")


@pytest.mark.parametrize("point", ["before-append", "after-append", "before-inference"])
async def test_a_crash_on_the_way_leaves_one_fork_in_which_the_same_command_goes_on(point: str) -> None:
    for number in range(1, 6):
        async with trail_of() as trail:
            agent = await talked(trail, "one", "two")
            dying = again_on(trail, reach=crash_at(point, number))
            try:
                await dying.session("t").regenerate(agent, key="k")
            except Crash:
                await trail.session("t").send(agent, "three")
            again = await again_on(trail).session("t").regenerate(agent, key="k")
            assert again.state.messages[-2].text in {"two", "three"}
            assert len(await trail.runs()) == 2


async def test_what_is_open_is_not_regenerated_and_what_failed_is() -> None:
    async with trail_of() as trail:
        agent = agent_of([call("add", a=1, b=2), "3", "Well."]).with_max_steps(1).build()
        started = await trail.start(agent, "go", session="t")
        with pytest.raises(
            CommandRejected, match="cannot regenerate session 't': execution t:1 is pending and not over"
        ):
            await started.regenerate(agent)
        assert (await started.resume(agent)).stop_reason == "steps_limit"
        assert (await started.retry(agent)).execution_id == "t:2"
        again = await started.regenerate(agent, session="f")
        assert (again.execution_id, texts(again.state)[0]) == ("f:1", "go")
        assert again.stop_reason == "steps_limit"


def test_the_blocking_twin_branches_too() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        agent = echo()
        trail.run(agent, "one", session="t")
        assert trail.session("t").regenerate(agent).output == "2: one"
        assert trail.session("t").fork(before="t:said:1").send(agent, "eins").output == "3: eins"
