"""Rules of the endpoint, over its own application: what is said and answered, what goes on and what is shown."""

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from ag_ui.core import Event, MessagesSnapshotEvent, RunAgentInput
from ag_ui.encoder import EventEncoder
from pydantic import BaseModel
from starlette.requests import Request

from steptrail import AgentBuilder, Steptrail, ToolContext, tool
from steptrail.agui import AguiCaller, AguiConfig, AguiFold, agui_app
from steptrail.domain.agent.evolve import initial
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.usage import Usage
from steptrail.errors import ConfigurationError, MissingExtra, StoreUnavailable
from steptrail.events import ExecutionStarted
from steptrail.interfaces.http.agui.conversation import wire_messages
from steptrail.messages import ReasoningPart, TextPart
from steptrail.models import FinishReason, ModelReply
from steptrail.runtime.kernel.hands import Hands
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import SubagentTool
from tests.agui.pages import JOINED, Front, Gate, ana, asking, at_rest, ending, front, user
from tests.harness.mischievous_engine import Mischief, MischievousEngine
from tests.runner.kit import Crash, again_on, agent_of, crash_at, trail_of

MARK = "hunter2"


class Tenant(BaseModel):
    name: str


async def test_a_thread_has_the_context_of_who_began_it() -> None:
    @tool
    def whose(context: ToolContext[Tenant, None]) -> str:
        """Say for whom this is."""
        return context.data.name

    script: list[Reply] = [call("whose"), "One.", call("whose"), "Two."]
    agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_context(Tenant).with_tools(whose).build()

    def authorize(request: Request, given: RunAgentInput) -> AguiCaller:
        del request, given
        return AguiCaller(name="ana", context=Tenant(name="acme"))

    async with trail_of() as trail:
        app = agui_app(trail, agent, authorize=authorize)
        async with front(trail, agent, app=app) as page:
            await page.run(user("whose?"))
            await page.run(user("and now?", "m2"))
            assert [each["content"] for each in page.client.said if each["role"] == "tool"] == ["acme", "acme"]


async def test_a_thread_whose_context_the_agent_of_today_cannot_read_is_refused_with_the_reason() -> None:
    class Named(BaseModel):
        title: str

    desks = (AgentBuilder("desk").with_model(ScriptedModel(["One."])).with_context(kind) for kind in (Tenant, Named))
    old, new = (desk.build() for desk in desks)
    async with trail_of() as trail:
        await trail.run(old, "hello", session="t", context=Tenant(name="acme"))
        async with front(trail, new, JOINED) as page:
            why = "the stored context does not fit Named: title: Field required"
            assert why in await page.refused(409, user("and now?"))
        assert (await trail.session("t").state()).output == "One."


async def test_a_message_that_comes_again_is_not_said_again() -> None:
    async with trail_of() as trail, front(trail, agent_of(["One.", "Two."]).build()) as page:
        await page.run(user("hello"))
        assert (await page.post(user("hello"))).status_code == 200
        await page.run(user("and now?", "m2"))
        events = await trail.session("t").events()
        assert len([each for each in events if isinstance(each.event, ExecutionStarted)]) == 2
        assert [message["content"] for message in page.client.said] == ["hello", "One.", "and now?", "Two."]


async def test_a_message_without_an_id_is_refused_since_the_next_one_would_not_be_said() -> None:
    async with trail_of() as trail, front(trail, agent_of(["done", "done again"]).build()) as page:
        assert "needs an id" in await page.refused(422, user("go", ""))
        await page.run(user("go", "m1"))
        assert "needs an id" in await page.refused(422, user("go on", ""))
        assert [each.text for each in (await trail.session("t").state()).messages if each.is_user()] == ["go"]


async def test_history_begins_a_session_without_instructions_and_does_not_count_afterwards() -> None:
    model = ScriptedModel(["Hello again.", "Yes."])
    agent = AgentBuilder("calc").with_model(model).build()
    function = {"name": "look", "arguments": '{"at": 1}'}
    earlier = [
        {"id": "s", "role": "system", "content": MARK},
        user("before", "h1"),
        {"id": "h2", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": function}]},
        {"id": "h3", "role": "tool", "toolCallId": "c", "content": "seen"},
    ]
    async with trail_of() as trail, front(trail, agent, JOINED) as page:
        await page.run(*earlier, user("hello", "h4"))
        said = [(message.role.value, message.text) for message in (await trail.session("t").state()).messages]
        assert said == [
            ("user", "before"),
            ("assistant", ""),
            ("tool", "seen"),
            ("user", "hello"),
            ("assistant", "Hello again."),
        ]
        assert (await page.post(user("made up", "x"), user("really?", "h5"))).status_code == 200
        last = [message.text for message in model.requests[-1].messages]
        assert "made up" not in last
        assert last[-1] == "really?"


@pytest.mark.parametrize("count", [10, 1_000])
async def test_only_a_long_conversation_is_put_together_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    made_in, sent_in, encode = list[int](), list[int](), EventEncoder.encode

    def noted(*args: Any, **settings: Any) -> Any:
        made_in.append(threading.get_ident())
        return wire_messages(*args, **settings)

    def encoded(encoder: EventEncoder, event: Event) -> str:
        if isinstance(event, MessagesSnapshotEvent):
            sent_in.append(threading.get_ident())
        return encode(encoder, event)

    earlier = [{"id": f"h{n}", "role": ("user", "assistant")[n % 2], "content": f"{n}"} for n in range(count)]
    async with trail_of() as trail, front(trail, asking()) as page:
        await page.run(*earlier, user("go", "m"))
        monkeypatch.setattr("steptrail.interfaces.http.agui.fold.wire_messages", noted)
        monkeypatch.setattr(EventEncoder, "encode", encoded)
        events = await page.run()
    # Whoever is asked something is shown the conversation at the end once more.
    first, last = [event for event in events if isinstance(event, MessagesSnapshotEvent)]
    assert (len(first.messages), len(last.messages)) == (count + 2, count + 2)
    is_here = [thread == threading.get_ident() for thread in (*made_in, *sent_in)]
    assert is_here == 4 * [count < 100]


async def test_who_looks_on_does_not_look_through_all_that_the_worker_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[object]()

    def left(hands: Hands) -> Mapping[str, int]:
        looks.append(hands)
        return {}

    monkeypatch.setattr(Hands, "left", property(left))
    async with trail_of() as trail, front(trail, agent_of(["One two three."]).build()) as page:
        assert ending(await page.run(user("count")))["outcome"] == {"type": "success"}
    assert not looks


async def test_a_crashed_run_is_taken_up_by_who_looks_on() -> None:
    agent = agent_of([call("add", a=1, b=2), "3"]).build()
    async with trail_of(reach=crash_at("before-tool")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "add", session="t")
        async with front(again_on(trail), agent) as page:
            events = await page.run()
            assert ending(events)["outcome"] == {"type": "success"}
            assert [message["content"] for message in page.client.said[-1:]] == ["3"]


async def test_a_run_that_a_shutdown_paused_goes_on_for_who_looks_on() -> None:
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


async def paused_by_ben(trail: Steptrail, page: Front, gate: Gate) -> list[Event]:
    """Run until a call is at the gate, pause, let it through, and return what the page was told."""
    running = asyncio.create_task(page.run(user("go")))
    await gate.entered.wait()
    await trail.session("t").pause(by="ben")
    gate.open.set()
    return await running


async def test_what_a_crash_or_a_deploy_left_goes_on_without_a_request() -> None:
    gate, agent = Gate(), agent_of([call("add", a=1, b=2), "3"]).build()
    async with trail_of() as trail:
        with pytest.raises(Crash):
            await again_on(trail, reach=crash_at("before-tool")).run(agent, "add", session="crashed")
        async with agui_app(trail, agent, authorize=ana):
            await at_rest(trail, "crashed")
        drained = gate.agent()
        app = agui_app(trail, drained, authorize=ana, grace=0.05)
        async with front(trail, drained, app=app) as page:
            running = asyncio.create_task(page.run(user("go")))
            await gate.entered.wait()
            await app.aclose()
            assert ending(await running)["code"] == "connection_closed"
            assert "about to end" in await page.refused(503, user("more", "m2"))
        gate.open.set()
        async with agui_app(again_on(trail), drained, authorize=ana):
            await at_rest(trail, "t")
        assert [(await trail.session(each).result()).output for each in ("crashed", "t")] == ["3", "Done."]


async def test_a_message_to_a_session_that_a_person_paused_is_answered() -> None:
    gate = Gate()
    agent = gate.agent()
    async with trail_of() as trail, front(trail, agent) as page:
        await paused_by_ben(trail, page, gate)
        assert ending(await page.run())["result"]["status"] == "paused"
        events = await page.run(user("go on", "m2"))
        assert ending(events)["outcome"] == {"type": "success"}


@pytest.mark.parametrize("concurrency", [0, 1])
async def test_who_looks_at_a_thread_that_waits_is_told_the_question_whatever_was_said_meanwhile(
    concurrency: int,
) -> None:
    agent = asking()
    async with asyncio.timeout(30), trail_of() as trail:
        await trail.run(agent, "pay", session="t")
        app = agui_app(trail, agent, authorize=ana, concurrency=concurrency)
        async with front(trail, agent, app=app) as page:
            asked = ending(await page.run())["outcome"]
            assert asked["type"] == "interrupt"
            await trail.session("t").post(agent, "Hurry.")
            assert ending(await page.run())["outcome"] == asked


async def test_without_a_worker_of_its_own_another_one_answers() -> None:
    agent = agent_of(["Hi."]).build()
    async with trail_of() as trail:
        app = agui_app(trail, agent, authorize=ana, concurrency=0)
        async with front(trail, agent, app=app) as page:
            running = asyncio.create_task(page.run(user("hello")))
            while not await trail.due():
                await asyncio.sleep(0)
            assert (await trail.session("t").state()).status == "pending"
            async with trail.work(agent):
                assert ending(await running)["outcome"] == {"type": "success"}
    with pytest.raises(ConfigurationError, match="concurrency"):
        agui_app(trail, agent, authorize=ana, concurrency=-1)


async def test_a_run_that_goes_on_when_its_subagent_does_is_waited_for_and_not_called_off() -> None:
    child = asking()
    boss = AgentBuilder("boss").with_model(ScriptedModel([call("bank", prompt="pay"), "All paid."]))
    agent = boss.with_tools(SubagentTool(child, name="bank")).build()
    async with trail_of() as trail:
        app = agui_app(trail, agent, authorize=ana, concurrency=0)
        async with front(trail, agent, app=app) as page:
            async with trail.work(agent):
                assert ending(await page.run(user("pay")))["outcome"] == {"type": "cancelled"}
            (question,) = await trail.inbox()
            below = trail.session(id_of(question.stream))
            await below.approve(question.id, by="ben")
            looking = asyncio.create_task(page.run())
            await asyncio.sleep(0.1)
            async with trail.work(agent):
                assert ending(await looking)["outcome"] == {"type": "success"}


async def test_a_run_that_cannot_be_carried_on_ends_with_an_error_without_its_text() -> None:
    def unable(point: str) -> None:
        if point == "after-acquire":
            raise RuntimeError(MARK)

    agent = agent_of(["Hi."]).build()
    async with trail_of(reach=unable) as trail, front(trail, agent) as page:
        for asked in ((user("hello"),), ()):
            ended = ending(await page.run(*asked))
            assert (ended["type"], ended["code"]) == ("RUN_ERROR", "internal_error")
            assert ended["message"] == "The run cannot go on (RuntimeError)."


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("unfit", [lambda: 1 / 0, object], ids=["raises", "is no JSON"])
async def test_a_state_that_cannot_be_made_ends_the_run_with_an_error_that_the_log_explains(
    unfit: Any, begins: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = AguiConfig(state=lambda state: unfit() if begins or state.step_count else {})
    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build(), config=config) as page:
        ended = ending(await page.run(user("hello")))
        assert (ended["type"], ended["code"]) == ("RUN_ERROR", "internal_error")
    assert any("can no longer be shown" in each.message and each.exc_info for each in caplog.records)


async def test_the_log_tells_no_credential_of_a_state_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    def unfit(_: object) -> dict[str, Any]:
        raise ConnectionError("the state is away, api_key=abcdef123456")

    async with trail_of() as trail, front(trail, agent_of(["Hi."]).build(), config=AguiConfig(state=unfit)) as page:
        assert ending(await page.run(user("hello")))["code"] == "internal_error"
    assert "the state is away, api_key=…" in caplog.text
    assert "abcdef123456" not in caplog.text


async def test_what_a_person_stops_or_pauses_was_called_off() -> None:
    gate = Gate()
    agent = gate.agent()
    async with trail_of() as trail, front(trail, agent) as page:
        ended = ending(await paused_by_ben(trail, page, gate))
        assert ended["outcome"] == {"type": "cancelled"}
        assert ended["result"]["status"] == "paused"
        assert ending(await page.run())["result"]["status"] == "paused"
        await trail.session("t").stop(by="ben")
        ended = ending(await page.run())
        assert ended["outcome"] == {"type": "cancelled"}
        assert ended["result"]["stopReason"] == "user_requested"


async def test_a_run_of_another_process_is_followed_and_takes_what_is_said_meanwhile() -> None:
    gate = Gate()
    agent = gate.agent()
    async with trail_of() as trail, front(again_on(trail), agent, JOINED) as page:
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


async def test_hidden_arguments_are_nowhere_in_the_bytes() -> None:
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


async def test_reasoning_is_told_when_it_is_asked_for() -> None:
    thinks = ModelReply(
        parts=(ReasoningPart(text="hm"), TextPart(text="Yes.")), finish_reason=FinishReason.STOP, usage=Usage()
    )

    async def kinds(config: AguiConfig) -> list[str]:
        async with trail_of() as trail, front(trail, agent_of([thinks]).build(), config) as page:
            return [each.type.value for each in await page.run(user("?"))]

    assert not any(kind.startswith("REASONING") for kind in await kinds(AguiConfig()))
    told = await kinds(AguiConfig(include_reasoning=True))
    assert [kind for kind in told if kind.startswith("REASONING")] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]


async def test_a_subagent_is_told_between_its_call_and_the_result() -> None:
    child = AgentBuilder("child").with_model(ScriptedModel(["I looked."])).build()
    script: list[Reply] = [call("look", prompt="look"), "Done."]
    boss = AgentBuilder("boss").with_model(ScriptedModel(script)).with_tools(SubagentTool(child, name="look")).build()
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


async def test_calls_of_one_id_in_two_replies_are_two_calls_for_a_front_end() -> None:
    script: list[Reply] = [call("add", a=1, b=2), calls(("add", {"a": 3, "b": 4})), "Done."]
    async with trail_of() as trail, front(trail, agent_of(script).build()) as page:
        await page.run(user("add"))
        found = [each["toolCalls"][0] for each in page.client.said if each.get("toolCalls")]
        assert [each["id"] for each in found] == ["call-1", "t:1:2:0"]
        assert [json.loads(each["function"]["arguments"])["a"] for each in found] == [1, 3]


async def test_a_stream_that_is_silent_has_a_heartbeat_in_it() -> None:
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


async def test_a_store_that_is_gone_is_said_without_its_place_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trail = trail_of()
    async with front(trail, agent_of(["Hi."]).build()) as page:
        await trail.close()
        assert "cannot be used now (StoreUnavailable)" in await page.refused(503, user("hello"))
    assert "is closed" in caplog.text


class _AwayAtFirst(MischievousEngine):
    """An engine whose server is away when somebody asks for the first time."""

    is_there = False

    async def open(self) -> None:
        is_there, self.is_there = self.is_there, True
        if not is_there:
            raise StoreUnavailable("the server of the engine is away")


async def test_a_worker_whose_engine_was_away_at_first_begins_with_the_next_request() -> None:
    async with (
        Steptrail.open("sqlite:///:memory:", engine=_AwayAtFirst(Mischief())) as trail,
        front(trail, agent_of(["Hi."]).build()) as page,
    ):
        assert "cannot be used now (StoreUnavailable)" in await page.refused(503, user("hello"))
        async with asyncio.timeout(60):
            assert ending(await page.run(user("hello")))["outcome"] == {"type": "success"}


async def served_by_itself(trail: Steptrail) -> list[dict[str, Any]]:
    """Return what the endpoint says to a server that begins and ends."""
    sent: list[dict[str, Any]] = []
    coming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await agui_app(trail, agent_of([]).build(), authorize=ana)({"type": "lifespan"}, receive, send)
    return sent


async def test_served_by_itself_it_ends_with_the_server() -> None:
    async with trail_of() as trail:
        told = await served_by_itself(trail)
    assert [each["type"] for each in told] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_server_is_told_that_its_endpoint_cannot_begin() -> None:
    async with Steptrail.open("sqlite:///:memory:", engine=_AwayAtFirst(Mischief())) as trail:
        told = await served_by_itself(trail)
    assert told == [{"type": "lifespan.startup.failed", "message": "the server of the engine is away"}]


def test_without_the_packages_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> None:
        del name

    monkeypatch.setattr("importlib.util.find_spec", found)
    with pytest.raises(MissingExtra, match=r"steptrail\[agui\]"):
        AguiFold(initial("s"))
    with pytest.raises(MissingExtra, match="ag-ui-protocol"):
        agui_app(trail_of(), agent_of([]).build(), authorize=ana)
