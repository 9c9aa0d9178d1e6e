"""Who is let in by the endpoint, with how much, and in how many words the others are sent away."""

import asyncio
import gc
import json
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from httpx import ASGITransport, AsyncClient
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.routing import Mount

from steptrail import Steptrail
from steptrail.agui import AguiApp, AguiCaller, agui_app
from steptrail.domain.kernel.record import StreamHead
from steptrail.errors import ConfigurationError
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import StoredStream
from steptrail.workflow import Workflow
from tests.agui.pages import Front, ana, asking, ending, front, user, yes
from tests.processes.agents.interposed import Interposed
from tests.runner.kit import agent_of, trail_of
from tests.unit.agui.client import Client

MARK = "hunter2"


class Slow:
    """A request whose body comes in pieces and is counted: how much of it was asked for."""

    def __init__(self, *pieces: bytes, **headers: str) -> None:
        self._pieces, self.asked_for = list(pieces), 0
        said = {"content_type": "application/json"} | headers
        encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in said.items()]
        self.scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": encoded}

    async def receive(self) -> dict[str, Any]:
        self.asked_for += 1
        if not self._pieces:
            await asyncio.Event().wait()  # the client stays, and says no more
        return {"type": "http.request", "body": self._pieces.pop(0), "more_body": bool(self._pieces)}

    async def status(self, app: AguiApp) -> int:
        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await app(self.scope, self.receive, send)
        return int(sent[0]["status"])


async def test_who_is_unknown_by_the_headers_is_turned_away_before_a_byte_of_the_body_is_read() -> None:
    asked: list[str] = []

    def authorize(request: Request, given: RunAgentInput) -> AguiCaller | None:
        asked.append(given.thread_id)
        return AguiCaller(name=request.headers["authorization"])

    def known(connection: HTTPConnection) -> bool:
        return connection.headers.get("authorization") == "ana"

    async def later(connection: HTTPConnection) -> bool:
        return known(connection)

    def truthy(connection: HTTPConnection) -> bool:
        return connection.headers.get("authorization") or ""  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    async with trail_of() as trail:
        agent = agent_of(["Hi."] * 9).build()
        for authenticate in (known, later, truthy):
            app = agui_app(trail, agent, authorize=authorize, authenticate=authenticate)
            stranger = Slow(b"{}", authorization="bob")
            assert (await stranger.status(app), stranger.asked_for) == (401, 0)
            assert asked == []
        async with front(trail, agent, app=agui_app(trail, agent, authorize=authorize, authenticate=known)) as page:
            page.http.headers["authorization"] = "ana"
            await page.run(user("hello"))
            assert asked == ["t"]


@pytest.mark.parametrize("by", ["authenticate", "authorize"])
@pytest.mark.parametrize("is_mounted", [False, True])
async def test_an_exception_of_http_is_the_answer_itself(by: str, is_mounted: bool) -> None:
    def refuse(*_: object) -> Any:
        raise HTTPException(401, "Who are you?", {"www-authenticate": "Basic"})

    async with trail_of() as trail:
        given: dict[str, Any] = {"authorize": ana, by: refuse}
        app = agui_app(trail, agent_of(["Hi."]).build(), **given)
        served = Starlette(routes=[Mount("/", app)]) if is_mounted else app
        async with app, AsyncClient(transport=ASGITransport(served), base_url="http://test") as http:
            answer = await Front(http, Client()).post(user("hello"))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Basic")
    assert answer.json() == {"error": "Who are you?"}


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
)
async def test_what_a_page_of_another_origin_can_send_unasked_is_refused(kind: str) -> None:
    async with trail_of() as trail:
        app = agui_app(trail, agent_of(["Hi."]).build(), authorize=ana)
        sent = Slow(b"{}", content_type=kind)
        assert (await sent.status(app), sent.asked_for) == (415, 0)
        async with front(trail, agent_of(["Hi."]).build(), app=app) as page:
            page.http.headers["content-type"] = "Application/JSON; charset=utf-8"
            await page.run(user("hello"))


async def test_a_body_is_never_read_beyond_its_limit() -> None:
    async with trail_of() as trail:
        app = agui_app(trail, agent_of(["Hi."]).build(), authorize=ana, max_body_bytes=1000)
        declared = Slow(b"x" * 1001, content_length="1001")
        assert (await declared.status(app), declared.asked_for) == (413, 0)
        endless = Slow(*[b"x" * 400] * 1000)
        assert (await endless.status(app), endless.asked_for) == (413, 3)
        lying = Slow(*[b"x" * 400] * 1000, content_length="10")
        assert (await lying.status(app), lying.asked_for) == (413, 3)
        huge = Slow(b"", content_length="9" * 5000)
        assert (await huge.status(app), huge.asked_for) == (413, 0)
        whole = json.dumps({"threadId": "t", "runId": "r", "messages": [user("hello")]}).encode()
        exact = agui_app(trail, agent_of(["Hi."]).build(), authorize=ana, max_body_bytes=len(whole))
        assert await Slow(whole).status(exact) == 200
        await exact.aclose()


async def test_an_authorisation_that_signs_the_body_may_read_it() -> None:
    async def signed(request: Request, given: RunAgentInput) -> AguiCaller | None:
        return AguiCaller(name=given.thread_id) if b'"runId"' in await request.body() else None

    async with trail_of() as trail:
        agent = agent_of(["Hi."]).build()
        async with front(trail, agent, app=agui_app(trail, agent, authorize=signed)) as page:
            await page.run(user("hello"))


async def test_a_thread_begins_with_no_more_history_than_is_allowed() -> None:
    async with trail_of() as trail:
        agent = agent_of(["Hi."] * 9).build()
        async with front(trail, agent, app=agui_app(trail, agent, authorize=ana, max_history=2)) as page:
            told = [user(str(each), f"h{each}") for each in range(4)]
            assert "at most 2 messages" in await page.refused(422, *told)
            assert await trail.runs() == []
            await page.run(*told[:3])
            await page.run(user("x", "m9"))  # the client sends all of it again, and that counts for nothing
        with pytest.raises(ConfigurationError, match="max_body_bytes"):
            agui_app(trail, agent, authorize=ana, max_body_bytes=0)


async def test_no_thread_begins_under_a_name_that_leads_elsewhere_in_an_address() -> None:
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        assert "leads elsewhere" in await page.refused(422, user("hello"), thread="..")
        assert await trail.runs() == []


async def test_what_is_refused_is_told_in_few_words_however_much_was_sent() -> None:
    much = "x" * 1_000_000
    async with trail_of() as trail, front(trail, asking()) as page:
        assert len(await page.refused(422, user("hello"), thread=much)) < 600
        assert len(await page.refused(422, user("hello", much))) < 600
        tools: list[dict[str, Any]] = [{"name": much, "description": "", "parameters": {}}]
        assert len(await page.refused(422, user("hello"), tools=tools)) < 600
        await page.run(user("pay"))
        assert len(await page.refused(409, resume=[yes(much)])) < 600
        strange = {much: 1}
        answered = await page.http.post("/", json={"threadId": strange, "messages": [strange]})
        assert (answered.status_code, len(answered.text) < 700) == (422, True)


async def test_while_a_large_state_is_read_the_collector_does_not_walk_through_it_again_and_again() -> None:
    state = b"[" + b",".join([b"[]"] * 200_000) + b"]"
    given = b'{"threadId":"t","runId":"r","messages":[],"tools":[],"context":[],"forwardedProps":{},"state":%b}' % state
    async with trail_of() as trail:
        app = agui_app(trail, agent_of(["Hi."]).build(), authorize=lambda _, __: None)
        before = gc.get_stats()[0]["collections"]
        assert await Slow(given).status(app) == 403
        assert gc.get_stats()[0]["collections"] - before < 5
        assert gc.isenabled()


@pytest.mark.parametrize("name", ["messages", "content", "tool_calls", "resume"])
async def test_of_more_wrong_values_than_a_request_may_have_none_is_told(name: str) -> None:
    # An error is made of each: ten megabytes of them took a minute of the loop, and 5 GB.
    many: dict[str, Any] = {name: [0] * 50_000}
    within: dict[str, Any] = {
        "messages": many,
        "resume": {"resume": [{"interruptId": "i", "status": "resolved", "payload": {"editedArgs": many}}]},
    }
    given = within.get(name) or {"messages": [{"id": "m", "role": "user", "content": "x"} | many]}
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        answered = await page.http.post("/", json={"threadId": "t", "runId": "r", "messages": []} | given)
        assert answered.json() == {"error": "a request may have 50,000 values beside its state"}
        assert answered.status_code == 422
        assert (await page.post(user("hello"), state=many, forwardedProps=[many])).status_code == 200


async def test_what_is_no_json_is_refused() -> None:
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        for body in ("", "[", "[" * 100_000, '{"threadId": "\\ud800"}'):
            answered = await page.http.post("/", content=body, headers={"content-type": "application/json"})
            assert (answered.status_code, answered.json()["error"][:26]) == (422, "this is no RunAgentInput: ")


async def test_what_is_refused_is_told_to_who_asks_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with trail_of() as trail, front(trail, asking()) as page:
        (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
        said = await page.refused(422, resume=[yes(question["id"], editedArgs={"dollars": 9})])
        assert "Missing required parameters: cents" in said
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []


async def test_what_the_functions_of_the_service_raise_is_logged_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(*_: Any) -> Any:
        raise ConnectionError("the directory is away, api_key=abcdef123456")

    async with trail_of() as trail:
        agent = agent_of(["Hi."]).build()
        asking = agui_app(trail, agent, authorize=away)
        earlier = agui_app(trail, agent, authenticate=away, authorize=lambda _, __: AguiCaller(name="ana"))
        for app in (asking, earlier):
            async with front(trail, agent, app=app) as page:
                assert "log" in await page.refused(500, user("hello"))
            assert "the directory is away, api_key=…" in caplog.text
            assert "abcdef123456" not in caplog.text
            caplog.clear()
        assert await trail.runs() == []


@pytest.mark.parametrize("answer", [False, True, "ana", {"name": "ana"}])
async def test_anything_but_a_caller_is_a_no_also_to_who_only_looks_on(answer: Any) -> None:
    async with trail_of() as trail:
        agent = agent_of(["Hi."]).build()
        async with front(trail, agent) as page:
            await page.run(user("hello"))
        async with front(trail, agent, app=agui_app(trail, agent, authorize=lambda _, __: answer)) as page:
            assert await page.refused(403) == "this thread is not yours"
            assert await page.refused(403, user("hello")) == "this thread is not yours"


async def test_no_thread_is_read_for_somebody_who_may_not_see_it() -> None:
    class Noting(Interposed):
        async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
            read.append(stream)
            return await super().read(stream, after=after, limit=limit)

    read, agent = list[str](), agent_of(["Hi."]).build()
    async with Steptrail(Environment(store=Noting())) as trail:
        await trail.run(agent, "hello", session="t")
        read.clear()
        async with front(trail, agent, app=agui_app(trail, agent, authorize=lambda _, __: None)) as page:
            assert await page.refused(403) == "this thread is not yours"
    assert read == []


async def test_who_is_not_known_is_refused_and_what_was_sent_is_not_repeated() -> None:
    async def nobody(request: Request, given: RunAgentInput) -> AguiCaller | None:
        del request, given
        return None

    async with trail_of() as trail:
        agent = agent_of(["Hi."]).build()
        async with front(trail, agent, app=agui_app(trail, agent, authorize=nobody)) as page:
            assert await page.refused(403, user("hello")) == "this thread is not yours"
        async with front(trail, agent) as page:
            answered = await page.http.post("/", json={"threadId": {"k": MARK}})
            assert answered.status_code == 422
            assert MARK not in answered.text
            assert (await page.http.get("/")).status_code == 405
            assert await trail.runs() == []


@pytest.mark.parametrize(
    "arguments", ['{"n": NaN}', '{"n": ' + "[" * 150 + "]" * 150 + "}", '{"n": ' + "9" * 5000 + "}"]
)
async def test_arguments_in_a_history_that_cannot_be_stored_are_kept_as_they_were_written(arguments: str) -> None:
    function = {"name": "look", "arguments": arguments}
    asked = {"id": "h2", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": function}]}
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        assert (await page.post(asked, user("hello"))).status_code == 200
        (asking, *_) = (await trail.session("t").state()).messages
        assert [(each.arguments, each.raw) for each in asking.tool_calls] == [(None, arguments)]


async def test_what_a_client_adds_to_a_message_of_the_user_is_passed_over() -> None:
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build()) as page:
        assert (await page.post(user("hello") | {"tool_calls": [1]})).status_code == 200


async def test_a_web_socket_is_refused_and_is_no_error_of_the_service() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with trail_of() as trail:
        app = agui_app(trail, agent_of(["Hi."]).build(), authorize=ana)
        await app({"type": "websocket", "path": "/", "headers": []}, receive, send)
    assert sent == ["websocket.close"]


async def test_a_workflow_is_refused_with_a_word_about_what_shows_it() -> None:
    flow: Any = Workflow("w").noop("a").build()
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match="event_stream"):
            agui_app(trail, flow, authorize=ana)
