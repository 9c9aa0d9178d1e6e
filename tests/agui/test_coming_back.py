"""Pages that come back to a thread with the messages that they show: nothing is said twice, and no texts are mixed."""

import asyncio
import json
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.agui import AguiConfig
from steptrail.interfaces.http.agui.conversation import wire_messages
from tests.agui.pages import Front, Gate, front, user
from tests.runner.kit import agent_of, trail_of
from tests.unit.agui.client import Client


async def test_a_message_that_a_client_was_shown_is_not_said_again_when_it_comes_back_to_look_on() -> None:
    # As does a tab that was loaded anew, and lost its line before the model had said anything.
    gate = Gate()
    agent = gate.agent()

    async def shown(trail: Steptrail) -> list[dict[str, Any]]:
        messages, _ = wire_messages(await trail.session("t").state(), AguiConfig())
        return [message.model_dump(mode="json", by_alias=True) for message in messages]

    async with trail_of() as trail, front(trail, agent) as page:
        running = asyncio.create_task(page.run(user("go")))
        await gate.entered.wait()
        await trail.session("t").post(agent, "and this")
        looking = asyncio.create_task(page.post(*await shown(trail)))  # it waits behind the call that is open
        gate.open.set()
        await asyncio.gather(running, looking)
        ended = await shown(trail)
        for last in [place for place, message in enumerate(ended, 1) if message["role"] == "user"]:
            assert (await page.post(*ended[:last])).status_code == 200
        assert await shown(trail) == ended
        await page.post(*ended, user("more", "t:said:3"))  # this is none that we have shown
        assert [each["content"] for each in await shown(trail) if each["role"] == "user"] == ["go", "and this", "more"]


@pytest.mark.parametrize("is_loaded_anew", [False, True])
async def test_a_page_that_has_the_messages_of_an_erased_thread_mixes_none_of_them_with_the_new_one(
    is_loaded_anew: bool,
) -> None:
    client = Client()
    async with trail_of() as trail, front(trail, agent_of(["One."]).build()) as page:
        await page.run(user("hello"))
        tab = Front(page.http, client if is_loaded_anew else page.client)
        await tab.run()
        client = tab.client
    async with trail_of() as trail, front(trail, agent_of(["Two.", "Three."]).build()) as page:
        tab = Front(page.http, client)
        await tab.run(user("again", "m2"))
        await tab.run(user("and again", "m3"))
        stored = wire_messages(await trail.session("t").state(), AguiConfig())[0]
        assert [each["content"] for each in client.said] == [message.content for message in stored]
        assert [each["content"] for each in client.said] == ["hello", "One.", "again", "Two.", "and again", "Three."]


async def test_a_message_with_media_is_shown_as_it_was_said() -> None:
    types = {"image": "image/png", "audio": "audio/*", "video": "video/mp4", "document": "application/pdf"}
    media: list[dict[str, Any]] = [
        {"type": kind, "source": {"type": "url", "value": f"https://media.example/{kind}", "mimeType": mime_type}}
        for kind, mime_type in types.items()
    ]
    said = [{"type": "text", "text": "Look:"}, *media]
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        await page.run({"id": "m1", "role": "user", "content": said})
        (shown,) = [
            json.loads(line[6:]) for line in (await page.post()).text.splitlines() if "MESSAGES_SNAPSHOT" in line
        ]
    assert shown["messages"][0]["content"] == said
