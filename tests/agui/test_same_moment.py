"""What comes at the same moment to one thread is said, all of it and once, by whom it was said."""

import asyncio

import httpx
import pytest
from ag_ui.core import RunAgentInput
from starlette.requests import Request

from steptrail import Steptrail
from steptrail.agui import AguiCaller, agui_app
from steptrail.errors import SessionNotFound
from steptrail.events import ExecutionStarted, MessagesAppended
from tests.agui.pages import JOINED, Front, Gate, front, user
from tests.runner.kit import agent_of, trail_of


async def said_in(trail: Steptrail, thread: str) -> list[str]:
    state = await trail.session(thread).state()
    return sorted(message.text for message in state.messages if message.is_user())


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("delay", [0.0, 0.005])
async def test_two_messages_at_the_same_moment_are_both_said(is_known: bool, delay: float) -> None:
    async def say(page: Front, thread: str, text: str, after: float) -> httpx.Response:
        await asyncio.sleep(after)
        return await page.post(user(text, f"{thread}:{text}"), thread=thread)

    agent = agent_of(["Yes."] * 100).build()
    async with trail_of() as trail, front(trail, agent, JOINED) as page:
        for number in range(10):
            thread = f"t-{number}"
            if is_known:
                await page.post(user("before", "m0"), thread=thread)
            both = await asyncio.gather(say(page, thread, "one", 0), say(page, thread, "two", delay))
            assert [each.status_code for each in both] == [200, 200], [each.text for each in both]
            assert await said_in(trail, thread) == [*(["before"] if is_known else []), "one", "two"]


async def test_the_same_first_message_that_comes_twice_at_the_same_moment_is_said_once() -> None:
    agent = agent_of(["Yes."] * 100).build()
    async with trail_of() as trail, front(trail, agent) as page:
        for number in range(10):
            asked = [page.post(user("one", "m1"), thread=f"t-{number}") for _ in range(2)]
            both = await asyncio.gather(*asked)
            assert [each.status_code for each in both] == [200, 200], [each.text for each in both]
            assert await said_in(trail, f"t-{number}") == ["one"]


async def test_who_comes_second_to_a_new_thread_is_asked_again_whether_it_may_speak_there() -> None:
    agent = agent_of(["Yes."] * 100).build()
    async with trail_of() as trail:

        async def owner(request: Request, given: RunAgentInput) -> AguiCaller | None:
            name = request.headers["authorization"]
            try:
                state = await trail.session(given.thread_id).state()
            except SessionNotFound:
                return AguiCaller(name=name, metadata={"owner": name})
            return AguiCaller(name=name) if state.metadata["owner"] == name else None

        async with front(trail, agent, app=agui_app(trail, agent, authorize=owner)) as page:
            for number in range(10):
                asked = [
                    page.http.post(
                        "/",
                        json={"threadId": f"t-{number}", "runId": "r", "messages": [user(name, name)]},
                        headers={"authorization": name},
                    )
                    for name in ("ana", "bob")
                ]
                answered = {each.status_code: each.text for each in await asyncio.gather(*asked)}
                assert set(answered) == {200, 403}
                assert len(await said_in(trail, f"t-{number}")) == 1


async def test_who_says_it_is_recorded_with_what_begins_a_run_and_with_what_joins_it() -> None:
    gate = Gate()
    agent = gate.agent()
    async with trail_of() as trail, front(trail, agent, JOINED) as page:
        running = asyncio.create_task(page.run(user("go")))
        await gate.entered.wait()
        joining = asyncio.create_task(page.post(user("and this", "m2")))
        while not [each for each in await trail.session("t").events() if isinstance(each.event, MessagesAppended)]:
            await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(running, joining)
        await page.post(user("more", "m3"))
        events = [each.event for each in await trail.session("t").events()]
        said = [each.by for each in events if isinstance(each, ExecutionStarted | MessagesAppended)]
        assert said == ["ana", "ana", "ana"]
