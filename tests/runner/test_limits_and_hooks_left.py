"""A reply that reaches a limit: a pause or a crash between it and the hooks after it changes no ending."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from steptrail import AgentBuilder, HookType, Steptrail
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest
from steptrail.domain.usage import Usage
from steptrail.hooks import CallableHook, HookState
from steptrail.models import PriceTable
from steptrail.testing import ScriptedModel, call, say
from tests.runner.invoices import Invoice, passing
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, slowly, trail_of

PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
LIMITS: dict[str, Callable[[AgentBuilder], AgentBuilder]] = {
    "tokens": lambda b: b.with_max_tokens(15),
    "cost": lambda b: b.with_max_cost("0.00002", prices=PRICES),
    "active time": lambda b: b.with_cumulative_timeout(3),
}
"""Limits that the first reply reaches."""

REPLIES: dict[str, ModelReply] = {
    "an answer": say("done"),
    "a typed answer": call("final_result", number="7"),
    "half an answer": say("half an ans", finish_reason=FinishReason.LENGTH),
    "half a call": structs.replace(call("add", a=1, b=2), finish_reason=FinishReason.LENGTH),
    "a call that fails": call("fail"),
}
LATE = (HookType.AFTER_INFERENCE, HookType.POST_TOOL_USE, HookType.AFTER_STEP, HookType.ON_ERROR, HookType.STOP)
"""The hooks that are left when all calls of a reply have ended, and none of which another call follows."""

Ending = tuple[str, str | None, bool, object, list[str]]


class Pausing:
    """A driver whose model call is paused before it replies."""

    def __init__(self, inner: ScriptedModel, trail: Steptrail) -> None:
        self._inner, self._trail = inner, trail
        self.describe, self.close = inner.describe, inner.close

    async def infer(self, request: ModelRequest) -> ModelReply:
        await again_on(self._trail).session("s").pause(by="ops")
        return await self._inner.infer(request)


def noted(runs: list[str]) -> CallableHook:
    return hook("noted", lambda state: runs.append(state.hook_type.value))


def builder_of(
    reply: str, limit: str, clock: HandClock, runs: list[str], hooks: tuple[HookType, ...] = LATE
) -> tuple[AgentBuilder[Any], ScriptedModel]:
    model = ScriptedModel([slowly(clock, 3.0, structs.replace(REPLIES[reply], usage=Usage(input=10, output=5)))])
    builder: AgentBuilder[Any] = LIMITS[limit](agent_of([])).with_model(model)
    if reply == "a typed answer":
        builder = builder.with_output(Invoice, mode="tool").with_output_validator(passing)
    for hook_type in hooks:
        builder.with_hook(hook_type, noted(runs))
    return builder, model


async def ending_of(trail: Steptrail, runs: Sequence[str]) -> Ending:
    result = await trail.session("s").result()
    return result.status.value, result.stop_reason, result.answered, result.output, list(dict.fromkeys(runs))


async def uncut(reply: str, limit: str) -> Ending:
    clock, runs = HandClock(), list[str]()
    builder, _ = builder_of(reply, limit, clock, runs)
    async with trail_of(clock) as trail:
        await trail.run(builder.build(), "go", session="s")
        return await ending_of(trail, runs)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("reply", REPLIES)
async def test_a_crash_in_any_hook_after_the_last_call_comes_to_the_same_ending(reply: str, limit: str) -> None:
    plain = await uncut(reply, limit)
    for number in range(1, len(plain[-1]) + 1):
        clock, runs = HandClock(), list[str]()
        builder, model = builder_of(reply, limit, clock, runs)
        async with trail_of(clock, crash_at("after-hooks", number)) as trail:
            with pytest.raises(Crash):
                await trail.run(builder.build(), "go", session="s")
            if runs == ["after_inference"] and reply == "a call that fails":
                continue  # its call has not run yet, and a limit keeps it from that
            await again_on(trail, clock).session("s").resume(builder.build())
            assert await ending_of(trail, runs) == plain, number
        assert len(model.requests) == 1


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("reply", [reply for reply in REPLIES if reply != "a call that fails"])
async def test_a_pause_between_the_reply_and_its_hooks_comes_to_the_same_ending(reply: str, limit: str) -> None:
    clock, runs = HandClock(), list[str]()
    builder, model = builder_of(reply, limit, clock, runs)
    async with trail_of(clock) as trail:
        agent = builder.with_model(Pausing(model, trail)).build()
        assert (await trail.run(agent, "go", session="s")).status == "paused"
        assert runs == []
        await again_on(trail, clock).session("s").resume(agent)
        assert await ending_of(trail, runs) == await uncut(reply, limit)


async def test_tokens_that_a_stop_hook_uses_end_no_run_that_has_come_to_its_end() -> None:
    runs, reached = list[str](), asyncio.Event()

    async def long(state: HookState) -> HookState:
        runs.append("execution_end")
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return state

    judge = hook("judge", lambda state: state.with_usage(Usage(input=40_000)))
    ends = (HookType.EXECUTION_END, CallableHook(long, "long"))
    agent = agent_of(["done"], (HookType.STOP, judge), ends).build()
    async with trail_of() as trail:
        caller = asyncio.create_task(trail.run(agent, "go", session="s"))
        await reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await trail.session("s").resume(agent)
        assert await ending_of(trail, runs) == ("completed", "completed", True, "done", ["execution_end"])


@pytest.mark.parametrize("hooks", [(HookType.AFTER_INFERENCE,), (HookType.AFTER_STEP,)])
async def test_a_wait_for_resources_before_the_hooks_that_are_left_comes_to_the_same_ending(
    hooks: tuple[HookType],
) -> None:
    clock, runs, opens = HandClock(), list[str](), [True, False, True]

    @asynccontextmanager
    async def opener(_: object) -> AsyncGenerator[None]:
        if not opens.pop(0):
            raise ConnectionError
        yield

    builder, model = builder_of("an answer", "tokens", clock, runs, hooks)
    async with trail_of(clock) as trail:
        agent = builder.with_model(Pausing(model, trail)).with_resources(opener).build()
        assert (await trail.run(agent, "go", session="s")).status == "paused"
        session = again_on(trail, clock).session("s")
        assert (await session.resume(agent)).status == "waiting"
        clock.advance(60)
        await session.resume(agent)
        assert await ending_of(trail, runs) == ("completed", "token_limit", True, "done", [hooks[0].value])
