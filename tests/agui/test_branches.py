"""A request goes on with the conversation that its client shows: in the thread, or in a branch of it."""

import asyncio
from typing import Any

import pytest
from ag_ui.core import RunAgentInput, UserMessage
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, Steptrail, tool
from steptrail.agui import AguiCaller, AguiConfig, agui_app
from steptrail.errors import ConfigurationError
from steptrail.hooks import HookType
from steptrail.interfaces.http.agui.branches import Branches
from steptrail.messages import Message
from steptrail.models import ModelRequest
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ApprovalRule
from tests.agui.pages import JOINED, Front, Gate, ending, front, user
from tests.runner.kit import Echo, again_on, agent_of, hook, trail_of
from tests.unit.agui.client import Client

REFUSING = AguiConfig(branches="refuse")


def all_said(request: ModelRequest) -> str:
    return " ".join(message.text for message in request.messages if message.is_user())


def echo() -> Agent:
    return AgentBuilder("echo").with_model(Echo(all_said)).build()


def contents(page: Front) -> list[str]:
    return [each.get("content", "") for each in page.client.said]


def cut(page: Front, count: int) -> Front:
    """Return a page that shows so many of the messages."""
    client = Client()
    client.messages = list(page.client.messages[:count])
    return Front(page.http, client)


async def talked(page: Front) -> None:
    await page.run(user("one", "m1"), runId="r1")
    await page.run(user("two", "m2"), runId="r2")
    assert contents(page) == ["one", "1: one", "two", "2: one two"]


async def branches(trail: Steptrail) -> list[str]:
    return [row.session_id for row in await trail.runs() if row.session_id != "t"]


async def test_an_edited_message_goes_on_in_a_branch_and_the_next_one_there_and_the_old_one_where_it_was() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await talked(page)
        edited = cut(page, 2)
        seen = await edited.run(user("zwei", "m3"), runId="r3")
        assert (seen[0].model_dump()["thread_id"], ending(seen)["threadId"]) == ("t", "t")
        assert contents(edited) == ["one", "1: one", "zwei", "3: one zwei"]
        assert [each["id"] for each in edited.client.said][:3] == [*[m["id"] for m in page.client.said[:2]], "m3"]
        await edited.run(user("drei", "m4"), runId="r4")
        assert contents(edited)[4:] == ["drei", "4: one zwei drei"]
        await page.run(user("three", "m5"), runId="r5")  # a tab that shows the old conversation
        assert contents(page)[4:] == ["three", "5: one two three"]
        loaded = Front(page.http, Client())
        await loaded.run(runId="r6")
        assert contents(loaded) == contents(edited)
        (branch,) = await branches(trail)
        state = await trail.session(branch).state()
        assert state.forked_from is not None
        assert state.forked_from.session == "t"


async def test_the_same_message_under_its_own_id_with_other_words_is_an_edit_too() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await talked(page)
        edited = cut(page, 0)
        await edited.run(user("eins", "m1"), runId="r3")
        assert contents(edited) == ["eins", "3: eins"]
        assert contents(page)[:1] == ["one"]


@pytest.mark.parametrize(("shown", "says"), [(3, "3: one two"), (1, "3: one")])
async def test_a_message_at_the_end_that_was_answered_is_answered_again(shown: int, says: str) -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await talked(page)
        again = cut(page, shown)
        await again.run(runId="r3")
        assert contents(again)[shown:] == [says]
        await page.run(user("three", "m3"), runId="r4")
        await again.run(user("four", "m4"), runId="r5")
        assert (contents(page)[4], contents(again)[shown + 1]) == ("three", "four")
        assert len(await branches(trail)) == 1


async def test_a_request_that_comes_again_makes_no_second_branch_and_has_nothing_answered_again() -> None:
    model = Echo(all_said)
    agent = AgentBuilder("echo").with_model(model).build()
    async with trail_of() as trail, front(trail, agent) as page:
        await talked(page)
        for shown, said, run_id in ((2, [user("zwei", "m3")], "r3"), (3, [], "r4"), (1, [], "r1"), (3, [], "r2")):
            body = [*page.client.said[:shown], *said]
            answers = [await page.post(*body, runId=run_id) for _ in range(2)]
            async with front(again_on(trail), agent) as other:
                answers.append(await other.post(*body, runId=run_id))
            assert {each.status_code for each in answers} == {200}
        at_once = await asyncio.gather(*(page.post(*page.client.said[:1], runId="r7") for _ in range(3)))
        assert {each.status_code for each in at_once} == {200}
        assert len(await branches(trail)) == 3
        assert model.count == 5


async def test_what_a_crash_left_between_the_branch_and_its_message_is_shown_to_nobody_and_gone_on_with() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await talked(page)
        edited = cut(page, 2)
        asked = {"threadId": "t", "runId": "r3", "messages": [*edited.client.said, user("zwei", "m3")], "state": None}
        given = RunAgentInput.model_validate({**asked, "tools": [], "context": [], "forwardedProps": None})
        state, says = await Branches(trail, AguiConfig()).shown(
            given, await trail.session("t").state(), AguiCaller(name="ana")
        )
        assert (state.version, [each.id for each in says]) == (1, ["m3"])
        loaded = Front(page.http, Client())
        await loaded.run(runId="r4")
        assert contents(loaded) == contents(page)
        await edited.run(user("zwei", "m3"), runId="r3")
        assert contents(edited) == ["one", "1: one", "zwei", "3: one zwei"]
        assert await branches(trail) == [state.agent_id]


async def test_an_edit_while_the_run_is_open_leaves_that_run_alone() -> None:
    gate = Gate()
    agent = gate.agent()
    async with trail_of() as trail, front(trail, agent) as page:
        running = asyncio.create_task(page.run(user("go"), runId="r1"))
        await gate.entered.wait()
        looking = asyncio.create_task(page.post(user("go"), runId="r2"))  # this is being answered: it looks on
        gate.entered.clear()
        edited = asyncio.create_task(Front(page.http, Client()).run(user("went", "m2"), runId="r3"))
        await gate.entered.wait()
        gate.open.set()
        await asyncio.gather(running, looking, edited)
        (branch,) = await branches(trail)
        for session, said in (("t", "go"), (branch, "went")):
            assert [each.text for each in (await trail.session(session).state()).messages if each.is_user()] == [said]


async def test_what_waits_in_the_old_conversation_is_answered_there_and_not_in_the_new_one() -> None:
    @tool(approval=ApprovalRule(expires=3600.0))
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    def ask(request: ModelRequest) -> Any:
        return call("pay", cents=9) if request.messages[-1].is_user() else "Paid."

    agent = AgentBuilder("bank").with_model(ScriptedModel([ask] * 9)).with_tools(pay).build()
    async with trail_of() as trail, front(trail, agent) as page:
        (old,) = ending(await page.run(user("pay"), runId="r1"))["outcome"]["interrupts"]
        other = Front(page.http, Client())
        (new,) = ending(await other.run(user("pay it", "m2"), runId="r2"))["outcome"]["interrupts"]
        assert old["id"] != new["id"]
        yes = {"interruptId": old["id"], "status": "resolved", "payload": {"approved": True}}
        assert "no interrupt" in await page.refused(409, *other.client.said, resume=[yes])
        assert ending(await page.run(resume=[yes], runId="r3"))["outcome"] == {"type": "success"}
        assert len((await trail.session(old["id"].split(":")[0]).state()).messages) == 4
        assert [each.id for each in await trail.inbox()] == [new["id"]]


async def test_messages_that_never_arrived_are_said_with_the_new_one() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await page.run(user("one", "m1"), runId="r1")
        await page.run(user("two", "m2"), user("three", "m3"), runId="r2")
        assert [each for each in contents(page) if ":" not in each] == ["one", "two", "three"]
        many = [user(f"{n}", f"n{n}") for n in range(11)]
        assert "at most 10 messages" in await page.refused(422, *page.client.said, *many)
        made_up = [user("x", "x"), {"id": "y", "role": "assistant", "content": "never said"}, user("z", "z")]
        assert "this is not what was said in the thread" in await page.refused(409, *page.client.said, *made_up)
        assert await branches(trail) == []


async def test_a_message_that_was_lost_while_a_reply_came_is_said_with_the_new_one() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        await page.run(user("one", "m1"), runId="r1")
        page.client.messages.insert(1, UserMessage(id="m2", role="user", content="lost"))
        await page.run(user("three", "m3"), runId="r3")
        assert (await trail.session("t").state()).output == "2: one lost three"
        assert await branches(trail) == []


async def test_a_message_in_several_parts_is_the_same_when_it_comes_again() -> None:
    texts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in ("one", " and", " two")]
    picture = {"type": "image", "source": {"type": "url", "value": "https://media.example/a"}}
    async with trail_of() as trail, front(trail, echo()) as page:
        said = [
            {"id": f"m{n}", "role": "user", "content": content} for n, content in enumerate((texts, [*texts, picture]))
        ]
        for n in (1, 2):
            assert (await page.post(*said[:n], runId=f"r{n}")).status_code == 200
        assert (await page.post(*said, user("more", "m3"), runId="r3")).status_code == 200
        assert await branches(trail) == []
        assert len((await trail.session("t").state()).messages) == 6


async def test_what_a_hook_said_is_not_missed_and_what_joined_a_run_is_no_place() -> None:
    says = hook("clerk", lambda state: state.with_messages(Message.user("psst")) if state.step_count == 1 else None)
    agent = agent_of([call("add", a=1, b=2), "3", "More.", *["Yes."] * 9], (HookType.AFTER_STEP, says)).build()
    async with trail_of() as trail, front(trail, agent) as page:
        await page.post(user("add"), runId="r1")
        assert (await page.post(user("add"), user("more", "m2"), runId="r2")).status_code == 200
        assert await branches(trail) == []
        await trail.session("t").send(agent, "again")
        loaded = Front(page.http, Client())
        await loaded.run(runId="r3")
        place = contents(loaded).index("psst")
        assert "was said while a run went on" in await page.refused(409, *loaded.client.said[: place + 1], runId="r4")


async def test_history_that_a_thread_began_with_is_no_place() -> None:
    async with trail_of() as trail, front(trail, echo()) as page:
        past = [user("before", "h1"), {"id": "h2", "role": "assistant", "content": "yes"}]
        await page.run(*past, user("one", "m1"), runId="r1")
        assert "is of its history" in await page.refused(409, user("after", "h3"), runId="r2")
        edited = cut(page, 2)
        await edited.run(user("eins", "m2"), runId="r3")
        assert contents(edited) == ["before", "yes", "eins", "2: before eins"]


@pytest.mark.parametrize("config", [REFUSING, JOINED], ids=["refuse", "join"])
async def test_a_service_has_threads_without_branches_and_keeps_those_that_were_made(config: AguiConfig) -> None:
    async with trail_of() as trail:
        async with front(trail, echo()) as page:
            await talked(page)
            edited = cut(page, 2)
            await edited.run(user("zwei", "m3"), runId="r3")
        async with front(trail, echo(), config) as page:
            tab = Front(page.http, edited.client)
            await tab.run(user("drei", "m4"), runId="r4")
            assert contents(tab)[2:5:2] == ["zwei", "drei"]
            short = tab.client.said[:1]
            if config is REFUSING:
                assert "which has no branches" in await page.refused(409, *short, user("uno", "m5"), runId="r5")
                assert "which has no branches" in await page.refused(409, *short, runId="r6")
            else:
                assert (await page.post(*short, user("uno", "m5"), runId="r5")).status_code == 200
        assert len(await branches(trail)) == 1
    with pytest.raises(ConfigurationError, match="is fork, refuse or join, not 'merge'"):
        AguiConfig(branches="merge")  # type: ignore[arg-type]


async def test_forks_of_other_people_are_no_branches_and_who_may_not_see_the_thread_makes_none() -> None:
    def nobody(request: object, given: RunAgentInput) -> AguiCaller | None:
        del request
        return AguiCaller(name="ana") if given.run_id != "bob" else None

    async with trail_of() as trail, front(trail, echo(), app=agui_app(trail, echo(), authorize=nobody)) as page:
        await talked(page)
        fork = await trail.session("t").fork(before="t:said:2", session="f", by="ben")
        await fork.send(echo(), "an experiment")
        loaded = Front(page.http, Client())
        await loaded.run(runId="r3")
        assert contents(loaded) == contents(page)
        await page.refused(403, *page.client.said[:1], runId="bob")
        await page.refused(403, user("eins", "m9"), runId="bob")
        assert await branches(trail) == ["f"]
        assert "256 characters" in await page.refused(422, *page.client.said, runId="r" * 257)


async def test_a_branch_from_before_the_first_message_has_the_context_of_who_asks_for_it() -> None:
    class Desk(BaseModel):
        name: str

    agent = AgentBuilder("desk").with_model(Echo(all_said)).with_context(Desk).build()

    def authorize(request: object, given: RunAgentInput) -> AguiCaller:
        del request, given
        return AguiCaller(name="ana", context=Desk(name="a"))

    async with trail_of() as trail:
        async with front(trail, agent, app=agui_app(trail, agent, authorize=authorize)) as page:
            await page.run(user("one", "m1"), runId="r1")
            for run_id, edited in (("r2", [user("eins", "m2")]), ("r3", [])):
                tab = cut(page, 0 if edited else 1)
                await tab.run(*edited, runId=run_id)
        states = [await trail.session(branch).state() for branch in await branches(trail)]
        assert [state.context for state in states] == [{"name": "a"}] * 2
        assert [state.status for state in states] == ["completed"] * 2
