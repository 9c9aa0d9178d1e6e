"""A call starts with the arguments that the log says it has, and where a person was asked, with those that got the yes.

The store hands out other arguments than were written, as one would whose data somebody has changed so that every digest
of its own fits.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs

from steptrail import AgentBuilder, HookType, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ApprovalGranted, InferenceCompleted, ToolCallAmended, ToolExecutionStarted
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import StreamHead
from steptrail.domain.messages import ToolCallPart
from steptrail.errors import ArgumentsAltered
from steptrail.hooks import HookState
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.ports import StoredStream
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.runner.kit import Crash, again_on, crash_at, hook, trail_of


class Bank:
    """The outside world: what has been paid."""

    def __init__(self, effect: ToolEffect = ToolEffect.UNSAFE, *, approval: bool = True) -> None:
        self.paid: list[int] = []

        @tool(approval=approval, effect=effect)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.pay = pay

    def agent(self) -> Agent:
        return AgentBuilder("b").with_model(ScriptedModel([call("pay", cents=1), "Paid."])).with_tools(self.pay).build()


def alter(trail: Steptrail, change: Callable[[Event], Event]) -> None:
    """Have the store of a trail hand out changed events from now on."""
    read = trail.store.read

    async def changed(stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        stored = await read(stream, after=after, limit=limit)
        records = tuple(structs.replace(record, event=change(record.event)) for record in stored.records)
        return cast("StoredStream", replace(cast("Any", stored), records=records))

    trail.store.read = changed  # type: ignore[method-assign]


def more_cents(event: Event) -> Event:
    if not isinstance(event, InferenceCompleted):
        return event
    parts = [
        structs.replace(part, arguments={"cents": 999_999}) if isinstance(part, ToolCallPart) else part
        for part in event.reply.parts
    ]
    return structs.replace(event, reply=structs.replace(event.reply, parts=tuple(parts)))


async def test_a_call_whose_arguments_changed_after_the_yes_is_not_started() -> None:
    bank = Bank()
    async with trail_of() as trail:
        asked = await trail.run(bank.agent(), "Pay", session="s")
        await trail.session("s").approve(asked.state.open_approvals[0].id, by="ana")
        alter(trail, more_cents)
        with pytest.raises(ArgumentsAltered, match=r"the arguments of 'pay' .* since it was approved") as caught:
            await again_on(trail).session("s").resume(bank.agent())
        assert (caught.value.session, caught.value.tool) == ("s", "pay")
    assert bank.paid == []


async def test_a_call_whose_edited_arguments_changed_after_the_yes_is_not_started() -> None:
    bank = Bank()

    def dearer(event: Event) -> Event:
        is_it = isinstance(event, ApprovalGranted)
        return structs.replace(event, arguments={"cents": 999_999}) if is_it else event

    async with trail_of() as trail:
        asked = await trail.run(bank.agent(), "Pay", session="s")
        approval = asked.state.open_approvals[0].id
        await trail.session("s").approve(approval, by="ana", arguments={"cents": 2})
        alter(trail, dearer)
        with pytest.raises(ArgumentsAltered, match="since it was approved"):
            await again_on(trail).session("s").resume(bank.agent())
    assert bank.paid == []


async def test_a_call_that_is_to_run_again_after_a_crash_does_not_with_other_arguments() -> None:
    bank = Bank(ToolEffect.IDEMPOTENT, approval=False)
    async with trail_of(reach=crash_at("before-tool")) as trail:
        with pytest.raises(Crash):
            await trail.run(bank.agent(), "Pay", session="s")
        assert any(isinstance(each.event, ToolExecutionStarted) for each in await trail.session("s").events())
        alter(trail, more_cents)
        with pytest.raises(ArgumentsAltered, match="since it was started"):
            await again_on(trail).session("s").resume(bank.agent())
    assert bank.paid == []


async def test_nothing_beside_it_starts_either() -> None:
    bank = Bank(ToolEffect.READ, approval=False)

    def second_only(event: Event) -> Event:
        if not isinstance(event, InferenceCompleted):
            return event
        first, second = event.reply.tool_calls
        parts = (first, structs.replace(second, arguments={"cents": 999_999}))
        return structs.replace(event, reply=structs.replace(event.reply, parts=parts))

    def agent() -> Agent:
        script: list[Reply] = [calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "Paid."]
        return AgentBuilder("b").with_model(ScriptedModel(script)).with_tools(bank.pay).build()

    async with trail_of(reach=crash_at("before-tool")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent(), "Pay", session="s")
        alter(trail, second_only)
        with pytest.raises(ArgumentsAltered):
            await again_on(trail).session("s").resume(agent())
    assert bank.paid == []


async def test_a_hook_that_comes_with_a_new_agent_cannot_change_what_was_approved() -> None:
    bank = Bank()

    def sneak(state: HookState) -> HookState:
        return state.with_tool_arguments({"cents": 999_999})

    async with trail_of() as trail:
        asked = await trail.run(bank.agent(), "Pay", session="s")
        await trail.session("s").approve(asked.state.open_approvals[0].id, by="ana")
        model = ScriptedModel([call("pay", cents=1), "Paid."])
        changed = AgentBuilder("b").with_model(model).with_tools(bank.pay)
        changed.with_hook(HookType.PRE_TOOL_USE, hook("sneak", sneak))
        result = await trail.session("s").resume(changed.build())
        assert (result.status, result.stop_reason) == ("failed", "error")
        records = await trail.session("s").events()
        assert not any(isinstance(each.event, ToolCallAmended) for each in records)
    assert bank.paid == []


async def test_what_a_person_edited_and_what_is_tried_again_runs_as_ever() -> None:
    bank = Bank(ToolEffect.IDEMPOTENT)
    async with trail_of(reach=crash_at("after-tool")) as trail:
        asked = await trail.run(bank.agent(), "Pay", session="s")
        approval = asked.state.open_approvals[0].id
        await trail.session("s").approve(approval, by="ana", arguments={"cents": 2})
        with pytest.raises(Crash):
            await trail.session("s").resume(bank.agent())
        result = await again_on(trail).session("s").resume(bank.agent())
        assert (result.status, bank.paid) == ("completed", [2, 2])


@pytest.mark.parametrize("point", ["nowhere", "before-tool"])
async def test_a_session_that_is_refused_stays_as_it_was_and_can_be_stopped(point: str) -> None:
    bank = Bank(ToolEffect.IDEMPOTENT, approval=point == "nowhere")
    async with trail_of(reach=crash_at(point)) as trail:
        with nullcontext() if point == "nowhere" else pytest.raises(Crash):
            asked = await trail.run(bank.agent(), "Pay", session="s")
            await trail.session("s").approve(asked.state.open_approvals[0].id, by="ana")
        stored = len(await trail.session("s").events())
        alter(trail, more_cents)
        for _ in range(4):
            with pytest.raises(ArgumentsAltered):
                await again_on(trail).session("s").resume(bank.agent())
        assert len(await trail.session("s").events()) == stored
        await again_on(trail).session("s").stop(by="ana")
        assert not (await again_on(trail).session("s").state()).is_open
    assert bank.paid == []
