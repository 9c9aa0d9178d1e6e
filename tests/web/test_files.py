"""Files of a conversation go to those who may see the session, and as what a browser does nothing dangerous with."""

import httpx
import pytest
from starlette.requests import HTTPConnection

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.broadcasting import BroadcastConfig
from steptrail.broadcasting.asgi import event_stream
from steptrail.messages import File, Image, Message
from steptrail.testing import ScriptedModel, call
from steptrail.testing.scripted_model import calls
from steptrail.ui import UiConversation, UiFile
from steptrail.workflow import RunOptions, Workflow

IMAGE = Image.from_bytes(b"\x89PNG\r\n\x1a\n-", name="a.png")
DRAWN = File.from_bytes(b"<svg onload='alert(1)'/>", "image/svg+xml", name="b.svg")
OF_TOOL = Image.from_bytes(b"GIF89a-", name="c.gif")
OF_OTHERS = Image.from_bytes(b"GIF89a+")


@tool
def look() -> object:
    """Look."""
    return OF_TOOL


@tool(approval=True)
def move() -> str:
    """Move."""
    return "moved"


async def asked(*paths: str, may: bool = True, summaries: bool = True) -> list[httpx.Response]:
    script = [call("look"), "A cat.", "Another."]
    agent = AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(look).build()
    config = BroadcastConfig(include_tool_summaries=summaries)

    def hook(connection: HTTPConnection, session: str) -> bool:
        return may and session == connection.path_params["session"]

    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, Message.user("What?", IMAGE, DRAWN), session="told")
        await trail.run(agent, Message.user("", OF_OTHERS), session="other")
        transport = httpx.ASGITransport(event_stream(trail, authorize=hook, config=config))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [await client.get(f"/sessions/told/{path}") for path in paths]


def at(file: File) -> str:
    return f"files/{file.digest}"


@pytest.mark.acceptance("8.9-5")
async def test_a_front_end_is_told_of_files_and_fetches_each_that_it_was_told_of() -> None:
    whole, image, drawn, of_tool = await asked("conversation", at(IMAGE), at(DRAWN), at(OF_TOOL))
    shown = UiConversation.model_validate_json(whole.content)
    files = [file for each in shown.messages if each.metadata for file in each.metadata.files or ()]
    assert files[0] == UiFile(digest=IMAGE.digest, mime_type="image/png", size=9, filename="a.png")
    assert [file.digest for file in files] == [IMAGE.digest, DRAWN.digest, OF_TOOL.digest]
    assert [each.content for each in (image, drawn, of_tool)] == [IMAGE.data, DRAWN.data, OF_TOOL.data]
    about = [(each.headers["content-type"], each.headers["content-disposition"]) for each in (image, drawn, of_tool)]
    assert about == [
        ("image/png", "inline"),
        ("application/octet-stream", "attachment"),
        ("image/gif", "inline"),
    ]
    for each in (image, drawn):
        assert each.headers["x-content-type-options"] == "nosniff"
        assert each.headers["content-security-policy"] == "default-src 'none'; sandbox"


async def test_nobody_else_gets_one_and_nobody_what_the_session_does_not_show() -> None:
    refused = await asked(at(IMAGE), may=False)
    assert [(each.status_code, each.json()) for each in refused] == [(403, {"error": "forbidden"})]
    absent = await asked(at(OF_OTHERS), "files/x", f"files/{'0' * 64}")
    assert [each.status_code for each in absent] == [404, 404, 404]
    whole, image, of_tool = await asked("conversation", at(IMAGE), at(OF_TOOL), summaries=False)
    assert OF_TOOL.digest not in whole.text
    assert [image.status_code, of_tool.status_code] == [200, 404]


@pytest.mark.acceptance("8.9-11")
async def test_a_front_end_fetches_the_files_of_a_run_that_it_is_shown() -> None:
    flow = (
        Workflow("w", result="out")
        .function("cut", lambda _: {"scan": OF_TOOL}, output="cut")
        .human("ask", prompt="Is it?", type="input", show=("cut",))
        .function("end", lambda _: {"pages": [DRAWN]}, output="out")
        .chain("cut", "ask", "end")
        .build()
    )
    bare = BroadcastConfig(include_tool_summaries=False)
    async with Steptrail.open("sqlite:///:memory:") as trail:

        async def fetched(config: BroadcastConfig, *, may: bool = True) -> list[int]:
            app = event_stream(trail, authorize=lambda _, name: may and name == "flow:told", config=config)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
                found = {each: await client.get(f"/flows/told/{at(each)}") for each in (IMAGE, OF_TOOL, DRAWN)}
            assert all(answer.content == file.data for file, answer in found.items() if answer.is_success)
            return [answer.status_code for answer in found.values()]

        await trail.run(flow, IMAGE, session="told", options=RunOptions(longest_wait=0.0))
        assert await fetched(BroadcastConfig()) == [404, 200, 404]
        assert await fetched(BroadcastConfig(), may=False) == [403, 403, 403]
        await trail.flow("told").answer("ask", by="ana", data="yes")
        await trail.flow("told").resume(flow)
        assert await fetched(BroadcastConfig()) == [404, 404, 200]
        assert await fetched(bare) == [404, 404, 404]


async def test_a_front_end_fetches_what_the_open_step_shows() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel([calls(("look", {}), ("move", {}))])).with_tools(look, move)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(agent.build(), "What?", session="told")).status == "waiting"
        session = trail.session("told")
        await session.post(agent.build(), Message.user("And this?", IMAGE))
        for file in (OF_TOOL, IMAGE):
            assert (await session.file(file.digest)).data == file.data
        transport = httpx.ASGITransport(event_stream(trail, authorize=lambda _, __: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            whole = (await client.get("/sessions/told/conversation")).text
            assert all(file.digest in whole for file in (OF_TOOL, IMAGE))
            found = [await client.get(f"/sessions/told/{at(file)}") for file in (OF_TOOL, IMAGE)]
    assert [each.content for each in found] == [OF_TOOL.data, IMAGE.data]
