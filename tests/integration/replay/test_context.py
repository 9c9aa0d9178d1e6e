"""A replay has the recorded context, and never opens resources, also not where the recorded run could not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel

from steptrail import AgentBuilder, HookType, ToolContext, ToolEffect, tool
from steptrail.events import ExecutionResumed, ExecutionStarted
from steptrail.hooks import HookState
from steptrail.interfaces.python.redaction import redact
from steptrail.testing import Recording, ScriptedModel, call, normalise, replay
from tests.runner.kit import HandClock, hook, trail_of


class Caller(BaseModel):
    tenant: str


OPENED: list[str] = []
SEEN: list[object] = []


@asynccontextmanager
async def opened(caller: Caller) -> AsyncGenerator[str]:
    OPENED.append(caller.tenant)
    if len(OPENED) == 1:
        raise ConnectionError("the shop is away")
    yield f"shop of {caller.tenant}"


@tool(effect=ToolEffect.READ)
def orders(context: ToolContext[Caller, str]) -> str:
    """Look at the orders."""
    return context.resources


def desk(*moments: tuple[HookType, str]) -> AgentBuilder[str, Caller]:
    model = ScriptedModel([call("orders"), "done", "again"])
    builder = AgentBuilder("desk").with_model(model).with_context(Caller).with_resources(opened).with_tools(orders)
    return builder.with_hook(HookType.BEFORE_STEP, hook("look", lambda state: SEEN.append(state.data)))


async def recorded(builder: AgentBuilder[str, Caller]) -> Recording:
    OPENED.clear()
    SEEN.clear()
    clock = HandClock()
    async with trail_of(clock) as trail:
        agent, session = builder.build(), trail.session("s")
        await trail.run(agent, "go", session="s", context=Caller(tenant="acme"))
        clock.advance(1)
        await session.resume(agent, context=Caller(tenant="beta"))
        await session.send(agent, "more", context=Caller(tenant="gamma"))
        recording = Recording("s", await session.history())
    OPENED.clear()
    return recording


async def test_the_context_comes_again_and_nothing_is_opened() -> None:
    recording = await recorded(desk())
    seen = list(SEEN)
    SEEN.clear()
    again = await replay(desk().build(), recording)
    assert normalise(again.events) == normalise(recording.events)
    assert seen == SEEN
    assert {str(each) for each in seen} == {"tenant='beta'", "tenant='gamma'"}
    assert OPENED == []


async def test_a_hook_that_reads_resources_in_a_replay_is_told_that_none_are_open() -> None:
    told: list[str] = []

    def read(state: HookState) -> None:
        try:
            assert state.resources
        except Exception as error:
            told.append(str(error))

    def reading() -> AgentBuilder[str, Caller]:
        return desk().with_hook(HookType.STOP, hook("read", read))

    recording = await recorded(reading())
    assert told == []
    await replay(reading().build(), recording)
    assert [text.split(":")[0] for text in told] == ["no resources are open for this run"] * 2


async def test_what_is_redacted_is_gone_from_the_context_too() -> None:
    redacted = redact(await recorded(desk()), ["tenant"])
    said = [event.context for event in redacted.events if isinstance(event, ExecutionStarted | ExecutionResumed)]
    assert said == [{"tenant": "[redacted]"}] * 3
    assert (await replay(desk().build(), redacted)).result.output == "again"
