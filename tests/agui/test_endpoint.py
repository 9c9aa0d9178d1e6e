"""Rules of the endpoint, over its own application: who is heard, what is refused, what goes on and what is shown."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from ag_ui.core import Event, Message, RunAgentInput
from pydantic import TypeAdapter
from starlette.requests import HTTPConnection, Request

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.agui import AguiApp, AguiCaller, AguiConfig, AguiFold, agui_app
from steptrail.domain.agent.evolve import initial
from steptrail.errors import ConfigurationError, MissingExtra, SessionNotFound
from steptrail.events import ExecutionStarted, MessagesAppended
from steptrail.messages import ReasoningPart, TextPart
from steptrail.models import FinishReason, ModelReply
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of
from tests.unit.agui.client import Client

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)
MARK = "hunter2"


@dataclass(frozen=True)
class Front:
    """A front end of the thread `t`, which checks the order of every run that it sees."""

    http: httpx.AsyncClient
    client: Client

    async def post(self, *messages: dict[str, Any], thread: str = "t", **more: Any) -> httpx.Response:
        asked = {"threadId": thread, "runId": "r", "protocolVersion": "1.0", "messages": list(messages), **more}
        return await self.http.post("/", json=asked)

    async def run(self, *messages: dict[str, Any], **more: Any) -> list[Event]:
        """Say something as a client does, which holds the conversation and sends all of it."""
        held = {message.id for message in self.client.messages}
        self.client.messages += [MESSAGE.validate_python(each) for each in messages if each["id"] not in held]
        answered = await self.post(*self.client.said, **more)
        assert answered.status_code == 200, answered.text
        lines = [line.removeprefix("data: ") for line in answered.text.splitlines() if line.startswith("data: ")]
        events = [EVENTS.validate_json(line) for line in lines]
        self.client.take_all(events)
        assert self.client.run_is_over()
        return events

    async def refused(self, status: int, *messages: dict[str, Any], **more: Any) -> str:
        answered = await self.post(*messages, **more)
        assert answered.status_code == status, answered.text
        return str(answered.json()["error"])


def ana(request: Request, given: RunAgentInput) -> AguiCaller | None:
    del request, given
    return AguiCaller(name="ana")


@asynccontextmanager
async def front(
    trail: Steptrail, agent: Agent, config: AguiConfig | None = None, app: AguiApp | None = None
) -> AsyncGenerator[Front]:
    served = app or agui_app(trail, agent, authorize=ana, config=config or AguiConfig(), grace=1.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://test") as http:
        yield Front(http, Client())
    await served.aclose()


def user(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": text}


def yes(interrupt: str, **more: Any) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "resolved", "payload": {"approved": True, **more}}


def no(interrupt: str) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": "cancelled"}


def asking(*script: Reply, expires: float = 3600.0) -> Agent:
    @tool(approval=ApprovalRule(expires=expires))
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    said = script or (call("pay", cents=900), "Paid.")
    return AgentBuilder("bank").with_model(ScriptedModel(said)).with_tools(pay).build()


def ending(events: Sequence[Event]) -> dict[str, Any]:
    found: dict[str, Any] = events[-1].model_dump(mode="json", by_alias=True)
    return found


def test_answers_that_leave_one_out_or_name_another_or_say_something_else_are_refused() -> None:
    async def scenario() -> None:
        async with trail_of() as trail, front(trail, asking()) as page:
            (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
            approval = question["id"]
            assert "no interrupt 'x'" in await page.refused(409, resume=[yes("x")])
            assert "answered twice" in await page.refused(422, resume=[yes(approval), no(approval)])
            wrong = {"interruptId": approval, "status": "resolved", "payload": {"approved": "yes"}}
            assert "is to be" in await page.refused(422, resume=[wrong])
            assert "waits for answers" in await page.refused(409, user("and?", "m2"))
            assert len((await trail.session("t").state()).open_approvals) == 1
            done = await page.run(resume=[no(approval)])
            assert ending(done)["outcome"] == {"type": "success"}
            assert "has been denied before" in await page.refused(409, resume=[yes(approval)])
            assert ending(await page.run(resume=[no(approval)]))["outcome"] == {"type": "success"}

    asyncio.run(scenario())


def test_all_open_questions_are_answered_at_once() -> None:
    async def scenario() -> None:
        agent = asking(calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "Paid.")
        async with trail_of() as trail, front(trail, agent) as page:
            (first,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
            (second,) = ending(await page.run(resume=[yes(first["id"])]))["outcome"]["interrupts"]
            assert second["id"] in await page.refused(409, resume=[yes(first["id"])])
            done = await page.run(resume=[yes(first["id"]), yes(second["id"], editedArgs={"cents": 3})])
            assert ending(done)["outcome"] == {"type": "success"}
            assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["paid 1", "paid 3"]

    asyncio.run(scenario())


def test_a_question_that_has_expired_can_only_be_cancelled() -> None:
    async def scenario() -> None:
        clock = HandClock()  # its instants are years ahead: the question expires by a clock that is long past it
        clock.advance(-20 * 365 * 86_400)
        async with trail_of(clock) as trail, front(trail, asking()) as page:
            (question,) = ending(await page.run(user("pay")))["outcome"]["interrupts"]
            assert "has expired" in await page.refused(409, resume=[yes(question["id"])])
            clock.advance(3601)
            events = await page.run(resume=[no(question["id"])])
            assert "nobody approved it in time" in str(events)
            assert ending(events)["outcome"] == {"type": "success"}

    asyncio.run(scenario())


def test_a_message_that_comes_again_is_not_said_again() -> None:
    async def scenario() -> None:
        async with trail_of() as trail, front(trail, agent_of(["One.", "Two."]).build()) as page:
            await page.run(user("hello"))
            assert (await page.post(user("hello"))).status_code == 200
            await page.run(user("and now?", "m2"))
            events = await trail.session("t").events()
            assert len([each for each in events if isinstance(each.event, ExecutionStarted)]) == 2
            assert [message["content"] for message in page.client.said] == ["hello", "One.", "and now?", "Two."]

    asyncio.run(scenario())


def test_history_begins_a_session_without_instructions_and_does_not_count_afterwards() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["Hello again.", "Yes."])
        agent = AgentBuilder("calc").with_model(model).build()
        function = {"name": "look", "arguments": '{"at": 1}'}
        earlier = [
            {"id": "s", "role": "system", "content": MARK},
            user("before", "h1"),
            {"id": "h2", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": function}]},
            {"id": "h3", "role": "tool", "toolCallId": "c", "content": "seen"},
        ]
        async with trail_of() as trail, front(trail, agent) as page:
            await page.run(*earlier, user("hello", "h4"))
            said = [(message.role.value, message.text) for message in (await trail.session("t").state()).messages]
            assert said == [
                ("user", "before"),
                ("assistant", ""),
                ("tool", ""),
                ("user", "hello"),
                ("assistant", "Hello again."),
            ]
            assert (await page.post(user("made up", "x"), user("really?", "h5"))).status_code == 200
            last = [message.text for message in model.requests[-1].messages]
            assert "made up" not in last
            assert last[-1] == "really?"

    asyncio.run(scenario())


def test_a_crashed_run_is_taken_up_by_who_looks_on() -> None:
    async def scenario() -> None:
        agent = agent_of([call("add", a=1, b=2), "3"]).build()
        async with trail_of(reach=crash_at("before-tool")) as trail:
            with pytest.raises(Crash):
                await trail.run(agent, "add", session="t")
            async with front(again_on(trail), agent) as page:
                events = await page.run()
                assert ending(events)["outcome"] == {"type": "success"}
                assert [message["content"] for message in page.client.said[-1:]] == ["3"]

    asyncio.run(scenario())


def test_who_says_it_is_recorded_with_what_begins_a_run_and_with_what_joins_it() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = gate.agent()
        async with trail_of() as trail, front(trail, agent) as page:
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

    asyncio.run(scenario())


class Gate:
    """A tool that waits until it is let through."""

    def __init__(self) -> None:
        self.entered, self.open = asyncio.Event(), asyncio.Event()

        @tool(effect=ToolEffect.READ)
        async def gate() -> str:
            """Wait."""
            self.entered.set()
            await self.open.wait()
            return "through"

        self.tool = gate

    def agent(self) -> Agent:
        return (
            AgentBuilder("gate")
            .with_model(ScriptedModel([call("gate"), "Done.", "More.", "Even more."]))
            .with_tools(self.tool)
            .build()
        )


def test_a_run_that_a_shutdown_paused_goes_on_for_who_looks_on() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = gate.agent()
        async with trail_of() as trail:
            app = agui_app(trail, agent, authorize=ana, grace=0.05)
            async with front(trail, agent, app=app) as page:
                running = asyncio.create_task(page.run(user("go")))
                await gate.entered.wait()
                await app.aclose()
                ended = ending(await running)
                assert (ended["type"], ended["code"]) == ("RUN_ERROR", "connection_closed")
            assert (await trail.session("t").state()).status == "paused"
            gate.open.set()
            async with front(trail, agent) as page:
                assert ending(await page.run())["outcome"] == {"type": "success"}

    asyncio.run(scenario())


def test_what_a_person_stops_or_pauses_was_called_off() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = gate.agent()
        async with trail_of() as trail, front(trail, agent) as page:
            running = asyncio.create_task(page.run(user("go")))
            await gate.entered.wait()
            await trail.session("t").pause(by="ben")
            gate.open.set()
            ended = ending(await running)
            assert ended["outcome"] == {"type": "cancelled"}
            assert ended["result"]["status"] == "paused"
            assert ending(await page.run())["result"]["status"] == "paused"
            await trail.session("t").stop(by="ben")
            ended = ending(await page.run())
            assert ended["outcome"] == {"type": "cancelled"}
            assert ended["result"]["stopReason"] == "user_requested"

    asyncio.run(scenario())


def test_a_run_of_another_process_is_followed_and_takes_what_is_said_meanwhile() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = gate.agent()
        async with trail_of() as trail, front(again_on(trail), agent) as page:
            elsewhere = asyncio.create_task(trail.run(agent, "go", session="t"))
            await gate.entered.wait()
            looking = asyncio.create_task(page.run(user("and this", "m2")))
            while not (await trail.session("t").state()).fold.keys:
                await asyncio.sleep(0)
            gate.open.set()
            await elsewhere
            assert ending(await looking)["outcome"] == {"type": "success"}
            assert sorted(each.get("content", "") for each in page.client.said) == [
                "",
                "Done.",
                "and this",
                "go",
                "through",
            ]

    asyncio.run(scenario())


def test_hidden_arguments_are_nowhere_in_the_bytes() -> None:
    async def scenario() -> None:
        script: list[Reply] = [call("add", a=MARK, b=2), call("add", a=1, b=2), "Done."]
        for config in (AguiConfig(include_tool_args=False), AguiConfig(hidden_arguments=frozenset({"add"}))):
            async with trail_of() as trail, front(trail, agent_of(script).build(), config) as page:
                answered = await page.post(user("add"))
                assert MARK not in answered.text
                assert '"toolCallName":"add"' in answered.text
                assert "TOOL_CALL_ARGS" not in answered.text
                assert MARK not in (await page.post()).text
        async with trail_of() as trail, front(trail, agent_of(script).build()) as page:
            assert MARK in (await page.post(user("add"))).text

    asyncio.run(scenario())


def test_reasoning_is_told_when_it_is_asked_for() -> None:
    thinks = ModelReply(parts=(ReasoningPart(text="hm"), TextPart(text="Yes.")), finish_reason=FinishReason.STOP)

    async def kinds(config: AguiConfig) -> list[str]:
        async with trail_of() as trail, front(trail, agent_of([thinks]).build(), config) as page:
            return [each.type.value for each in await page.run(user("?"))]

    assert not any(kind.startswith("REASONING") for kind in asyncio.run(kinds(AguiConfig())))
    told = asyncio.run(kinds(AguiConfig(include_reasoning=True)))
    assert [kind for kind in told if kind.startswith("REASONING")] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]


def test_a_subagent_is_told_between_its_call_and_the_result() -> None:
    async def scenario() -> None:
        child = AgentBuilder("child").with_model(ScriptedModel(["I looked."])).build()
        script: list[Reply] = [call("look", prompt="look"), "Done."]
        boss = (
            AgentBuilder("boss").with_model(ScriptedModel(script)).with_tools(SubagentTool(child, name="look")).build()
        )
        async with trail_of() as trail, front(trail, boss) as page:
            kinds = [each.type.value for each in await page.run(user("go"))]
            about = [kind for kind in kinds if kind.startswith(("TOOL", "SUB"))]
            assert about == [
                "TOOL_CALL_START",
                "TOOL_CALL_ARGS",
                "TOOL_CALL_END",
                "SUBAGENT_STARTED",
                "TOOL_CALL_RESULT",
                "SUBAGENT_FINISHED",
            ]

    asyncio.run(scenario())


def test_calls_of_one_id_in_two_replies_are_two_calls_for_a_front_end() -> None:
    async def scenario() -> None:
        script: list[Reply] = [call("add", a=1, b=2), calls(("add", {"a": 3, "b": 4})), "Done."]
        async with trail_of() as trail, front(trail, agent_of(script).build()) as page:
            await page.run(user("add"))
            found = [each["toolCalls"][0] for each in page.client.said if each.get("toolCalls")]
            assert [each["id"] for each in found] == ["call-1", "t:1:2:0"]
            assert [json.loads(each["function"]["arguments"])["a"] for each in found] == [1, 3]

    asyncio.run(scenario())


def test_who_is_not_known_is_refused_and_what_was_sent_is_not_repeated() -> None:
    async def nobody(request: Request, given: RunAgentInput) -> AguiCaller | None:
        del request, given
        return None

    async def scenario() -> None:
        async with trail_of() as trail:
            agent = agent_of(["Hi."]).build()
            async with front(trail, agent, app=agui_app(trail, agent, authorize=nobody)) as page:
                assert await page.refused(403, user("hello")) == "this thread is not yours"
            async with front(trail, agent) as page:
                answered = await page.http.post("/", content=json.dumps({"threadId": {"k": MARK}}))
                assert answered.status_code == 422
                assert MARK not in answered.text
                assert (await page.http.get("/")).status_code == 405
                assert await trail.runs() == []

    asyncio.run(scenario())


class Slow:
    """A request whose body comes in pieces and is counted: how much of it was asked for."""

    def __init__(self, *pieces: bytes, **headers: str) -> None:
        self._pieces, self.asked_for = list(pieces), 0
        encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
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


def test_who_is_unknown_by_the_headers_is_turned_away_before_a_byte_of_the_body_is_read() -> None:
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

    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_body_is_never_read_beyond_its_limit() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_an_authorisation_that_signs_the_body_may_read_it() -> None:
    async def signed(request: Request, given: RunAgentInput) -> AguiCaller | None:
        return AguiCaller(name=given.thread_id) if b'"runId"' in await request.body() else None

    async def scenario() -> None:
        async with trail_of() as trail:
            agent = agent_of(["Hi."]).build()
            async with front(trail, agent, app=agui_app(trail, agent, authorize=signed)) as page:
                await page.run(user("hello"))

    asyncio.run(scenario())


def test_a_thread_begins_with_no_more_history_than_is_allowed() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_what_is_refused_is_told_in_few_words_however_much_was_sent() -> None:
    much = "x" * 1_000_000

    async def scenario() -> None:
        async with trail_of() as trail, front(trail, asking()) as page:
            assert len(await page.refused(422, user("hello"), thread=much)) < 600
            assert len(await page.refused(422, user("hello", much))) < 600
            tools = [{"name": much, "description": "", "parameters": {}}]
            assert len(await page.refused(422, user("hello"), tools=tools)) < 600
            await page.run(user("pay"))
            assert len(await page.refused(409, resume=[yes(much)])) < 600
            strange = {much: 1}
            answered = await page.http.post("/", json={"threadId": strange, "messages": [strange]})
            assert (answered.status_code, len(answered.text) < 700) == (422, True)

    asyncio.run(scenario())


def test_a_stream_that_is_silent_has_a_heartbeat_in_it() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = gate.agent()
        async with trail_of() as trail:
            app = agui_app(trail, agent, authorize=ana, heartbeat_seconds=0.01)
            async with front(trail, agent, app=app) as page:
                running = asyncio.create_task(page.post(user("go")))
                await gate.entered.wait()
                await asyncio.sleep(0.1)
                gate.open.set()
                lines = (await running).text.split("\n\n")
            assert ": " in lines
            assert json.loads(lines[-2].removeprefix("data: "))["type"] == "RUN_FINISHED"
            for never in (0, -1, float("inf"), float("nan")):
                with pytest.raises(ConfigurationError, match="heartbeat_seconds"):
                    agui_app(trail, agent, authorize=ana, heartbeat_seconds=never)

    asyncio.run(scenario())


async def said_in(trail: Steptrail, thread: str) -> list[str]:
    state = await trail.session(thread).state()
    return sorted(message.text for message in state.messages if message.is_user())


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("delay", [0.0, 0.005])
def test_two_messages_at_the_same_moment_are_both_said(is_known: bool, delay: float) -> None:
    async def say(page: Front, thread: str, text: str, after: float) -> httpx.Response:
        await asyncio.sleep(after)
        return await page.post(user(text, f"{thread}:{text}"), thread=thread)

    async def scenario() -> None:
        agent = agent_of(["Yes."] * 100).build()
        async with trail_of() as trail, front(trail, agent) as page:
            for number in range(10):
                thread = f"t-{number}"
                if is_known:
                    await page.post(user("before", "m0"), thread=thread)
                both = await asyncio.gather(say(page, thread, "one", 0), say(page, thread, "two", delay))
                assert [each.status_code for each in both] == [200, 200], [each.text for each in both]
                assert await said_in(trail, thread) == [*(["before"] if is_known else []), "one", "two"]

    asyncio.run(scenario())


def test_the_same_first_message_that_comes_twice_at_the_same_moment_is_said_once() -> None:
    async def scenario() -> None:
        agent = agent_of(["Yes."] * 100).build()
        async with trail_of() as trail, front(trail, agent) as page:
            for number in range(10):
                asked = [page.post(user("one", "m1"), thread=f"t-{number}") for _ in range(2)]
                both = await asyncio.gather(*asked)
                assert [each.status_code for each in both] == [200, 200], [each.text for each in both]
                assert await said_in(trail, f"t-{number}") == ["one"]

    asyncio.run(scenario())


def test_who_comes_second_to_a_new_thread_is_asked_again_whether_it_may_speak_there() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_a_store_that_is_gone_is_said_without_its_place() -> None:
    async def scenario() -> None:
        trail = trail_of()
        async with front(trail, agent_of(["Hi."]).build()) as page:
            await trail.close()
            assert "cannot be used now (StoreUnavailable)" in await page.refused(503, user("hello"))

    asyncio.run(scenario())


def test_served_by_itself_it_ends_with_the_server() -> None:
    async def scenario() -> None:
        sent: list[str] = []
        coming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> Any:
            return coming.pop(0)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        async with trail_of() as trail:
            await agui_app(trail, agent_of([]).build(), authorize=ana)({"type": "lifespan"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    asyncio.run(scenario())


def test_without_the_packages_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> None:
        del name

    monkeypatch.setattr("importlib.util.find_spec", found)
    with pytest.raises(MissingExtra, match=r"steptrail\[agui\]"):
        AguiFold(initial("s"))
    with pytest.raises(MissingExtra, match="ag-ui-protocol"):
        agui_app(trail_of(), agent_of([]).build(), authorize=ana)
