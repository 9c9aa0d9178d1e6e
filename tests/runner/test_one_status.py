"""One run has one status, stop reason and answer wherever somebody looks: live, after a reload, on the command line."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.agui import AguiFold
from steptrail.broadcasting import AgentEventEnvelopeAdapter, envelopes_of
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.main import main
from steptrail.models import FinishReason
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import no_faults
from steptrail.serialization import SlimAgentStateSerializer
from steptrail.testing import Reply, ScriptedModel, call, say
from steptrail.ui import UiConversation, ui_conversation
from tests.integration.broadcast.transports import KeepingTransport
from tests.runner.kit import Crash, agent_of, crash_at

Standing = tuple[str, str | None, bool | None]
Scene = Callable[[Steptrail], AbstractAsyncContextManager[None]]


def ends(*script: Reply, max_steps: int = 9) -> Scene:
    @asynccontextmanager
    async def scene(trail: Steptrail) -> AsyncGenerator[None]:
        with suppress(Crash):
            await trail.run(agent_of(script).with_max_steps(max_steps).build(), "go", session="s")
        yield

    return scene


def gated(entered: asyncio.Event, opened: asyncio.Event) -> Agent:
    @tool(effect=ToolEffect.READ)
    async def gate() -> str:
        """Wait."""
        entered.set()
        await opened.wait()
        return "through"

    return AgentBuilder("gate").with_model(ScriptedModel([call("gate"), "Done."])).with_tools(gate).build()


@asynccontextmanager
async def running(trail: Steptrail) -> AsyncGenerator[None]:
    entered, opened = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(trail.run(gated(entered, opened), "go", session="s"))
    await entered.wait()
    yield
    opened.set()
    await task


def asked_to(what: str) -> Scene:
    @asynccontextmanager
    async def scene(trail: Steptrail) -> AsyncGenerator[None]:
        entered, opened = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(trail.run(gated(entered, opened), "go", session="s"))
        await entered.wait()
        await getattr(trail.session("s"), what)(by="ben")
        opened.set()
        await task
        yield

    return scene


@asynccontextmanager
async def waiting(trail: Steptrail) -> AsyncGenerator[None]:
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = AgentBuilder("bank").with_model(ScriptedModel([call("pay"), "Paid."])).with_tools(pay).build()
    await trail.run(agent, "go", session="s")
    yield


@asynccontextmanager
async def answered(trail: Steptrail) -> AsyncGenerator[None]:
    """Stand where the question is answered and nobody has gone on yet."""
    async with waiting(trail):
        session = trail.session("s")
        (asked,) = (await session.state()).open_approvals
        await session.approve(asked.id, by="ben")
        yield


WORK = call("add", a=1, b=2)
CASES: dict[str, tuple[Scene, Standing]] = {
    "completed": (ends("Hi."), ("completed", "completed", True)),
    "answered at a limit": (ends("Hi.", max_steps=1), ("completed", "steps_limit", True)),
    "a limit without an answer": (ends(WORK, max_steps=1), ("completed", "steps_limit", False)),
    "a cut answer": (ends(say("half an", finish_reason=FinishReason.LENGTH)), ("failed", "finish_reason", False)),
    "failed": (ends(call("fail"), "Hi."), ("failed", "error", False)),
    "stopped by a person": (asked_to("stop"), ("completed", "user_requested", False)),
    "paused": (asked_to("pause"), ("paused", None, None)),
    "waiting": (waiting, ("waiting", None, None)),
    "waiting no more": (answered, ("in_progress", None, None)),
    "running": (running, ("in_progress", None, None)),
    "crashed": (ends(WORK, "3"), ("in_progress", None, None)),
}


SURFACES = (
    "the conversation",
    "the conversation as it is sent",
    "the messages while it went on",
    "the messages from the log",
    "the slim document",
    "AG-UI",
    "steptrail runs",
    "steptrail show",
)


async def surfaces(trail: Steptrail, live: KeepingTransport, command: Callable[..., Any]) -> dict[str, Standing]:
    """Return what each place says of the session, in the same three words."""
    state, history = await trail.session("s").state(), await trail.session("s").history()

    def told(bodies: list[Any]) -> Standing:
        last = [body["data"] for body in bodies if body["event"] == "agent.status"][-1]
        return last["status"], last["stop_reason"], last["answered"]

    def of(shown: UiConversation) -> Standing:
        return shown.status, shown.stop_reason, shown.answered

    def said(status: Any, reason: Any, answered: Any) -> Standing:
        return status, reason, answered if state.stop_reason is not None else None

    ended: dict[str, Any] = AguiFold(state).finish()[-1].model_dump(mode="json", by_alias=True)
    slim: Any = SlimAgentStateSerializer().serialize(state)
    decided = slim["last_continuation"] if not state.is_open else {"stop_reason": None, "answered": None}
    (row,), shown = await command("runs"), await command("show", "s")
    result: Any = ended.get("result") or {"status": "failed", "stopReason": ended["code"], "answered": state.answered}
    return {
        "the conversation": of(ui_conversation(state)),
        "the conversation as it is sent": of(UiConversation.model_validate_json(ui_conversation(state).to_json())),
        "the messages while it went on": told([each.body for each in live.sent]),
        "the messages from the log": told([each.body for each in envelopes_of("s", history)]),
        "the slim document": said(slim["status"], decided["stop_reason"], decided["answered"]),
        "AG-UI": said(result["status"], result["stopReason"], result["answered"]),
        "steptrail runs": said(row["status"], row["stopReason"], row["answered"]),
        "steptrail show": said(shown["status"], shown["stopReason"], shown["answered"]),
    }


@pytest.mark.parametrize("case", CASES)
async def test_a_run_has_one_status_wherever_somebody_looks(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, expected = CASES[case]
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def command(*arguments: str) -> Any:
        capsys.readouterr()
        assert await asyncio.to_thread(main, [*arguments, "--json", "--store", url]) == 0
        return json.loads(capsys.readouterr().out)

    live, reach = KeepingTransport(), crash_at("before-tool") if case == "crashed" else no_faults
    async with (
        Steptrail(Environment(store=open_store(url), reach=reach)) as trail,
        AgentEventEnvelopeAdapter(live) as adapter,
    ):
        trail.wiretap(adapter)
        async with scene(trail):
            await adapter.flush()
            assert await surfaces(trail, live, command) == dict.fromkeys(SURFACES, expected)
