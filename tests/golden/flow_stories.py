"""The runs of workflows that the golden streams hold. The streams are in `flow_runs/`; see `flows.py`."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.kernel.record import Recorded
from steptrail.messages import File, Image, Message
from steptrail.models import PriceTable
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import OnUnknown, ToolReply
from steptrail.workflow import Artifact, BuiltWorkflow, Cache, Case, RetryPolicy, RunOptions, Update, Workflow
from tests.flow.kit import LEAVES, World, run_to_rest
from tests.runner.kit import Crash, HandClock, crash_at, trail_of

Story = Callable[[], Coroutine[None, None, Sequence[Recorded[FlowEvent]]]]


def on(trail: Steptrail, clock: HandClock, reach: Reach = no_faults) -> Steptrail:
    """Return another process on the same store."""
    return Steptrail(Environment(store=trail.store, clock=clock, worker="host:1", reach=reach))


def branching(world: World) -> BuiltWorkflow:
    """A flow with branches, a map of which an item fails, a try that fails, a merge, a cache and a loop."""
    act = world.tool()

    def fact(_: object) -> Update:
        return Update(output="fact", set={"extra": 1, "gone": 2}, unset=("given",))

    return (
        Workflow("branching")
        .function("start", lambda _: ["x", "bad", "y"], output="names")
        .tool("left", act, args={"name": "left"}, retry=RetryPolicy(max_attempts=3, backoff=1.0), output="l")
        .tool("right", act, args={"name": "right"}, retry=1, on_error="continue", output="r")
        .map(
            "each", over="names", tool=act, args={"name": "{{ item }}"}, concurrency=2, on_item_error="record", retry=1
        )
        .function("fact", fact, cache=Cache(key=("names",)), output="fact")
        .merge("join", strategy="json", output="joined")
        .function("count", lambda seen: int(str(seen.get("count", 0))) + 1, output="count")
        .conditional("again", [Case("vars.count > 2", to="end")], default="fact")
        .noop("end")
        .edge("start", "left", "right", "each", "fact")
        .edge(("left", "right", "each", "fact"), "join")
        .chain("join", "count", "again", "end")
        .edge("again", "fact", loop=True)
        .build()
    )


async def branches() -> Sequence[Recorded[FlowEvent]]:
    world, clock = World(), HandClock()
    world.fails, world.breaks = {"left": [ConnectionError("away")]}, {"right": RuntimeError("no"), "bad": OSError("no")}
    async with trail_of(clock) as trail:
        await run_to_rest(on(trail, clock), clock, branching(world), {"n": 1})
        return await trail.flow("f").events()


async def crashed() -> Sequence[Recorded[FlowEvent]]:
    world, clock = World(), HandClock()
    async with trail_of(clock) as trail:
        try:
            await run_to_rest(on(trail, clock, crash_at("after-node", 3)), clock, branching(world))
        except Crash:
            clock.advance(60.0)
        await run_to_rest(on(trail, clock), clock, branching(world))
        return await trail.flow("f").events()


async def asked() -> Sequence[Recorded[FlowEvent]]:
    world, clock = World(), HandClock()
    flow = (
        Workflow("asked")
        .human("ask", prompt="Publish?", type="edit", show=("text",), output="said")
        .tool("act", world.tool(ToolEffect.KEYED), args={"name": "act"}, approval=True)
        .tool("second", world.tool(), args={"name": "second"}, approval=True, on_error="continue")
        .noop("held")
        .chain("ask", "act", "second", "held")
        .build()
    )
    options = RunOptions(longest_wait=0.0, pause_before=("held",), pause_after=("ask",))
    async with trail_of(clock) as trail:
        this = on(trail, clock)
        result = await this.run(flow, session="f", vars={"text": "a"}, options=options)
        await this.flow("f").answer("ask", by="ana", approved=True, data={"text": "b"}, key="k1")
        await this.flow("f").resume(flow)
        await this.flow("f").step("ask", "continue", by="ana")
        result = await this.flow("f").resume(flow)
        clock.advance(5.0)
        await this.flow("f").approve("f:1:act:1", by="ana")
        result = await this.flow("f").resume(flow)
        await this.flow("f").pause(by="ben", reason="lunch")
        await this.flow("f").deny("f:1:second:1", by="ana", reason="no")
        result = await this.flow("f").resume(flow)
        await this.flow("f").step("held", "continue", by="ana", set={"late": True})
        result = await this.flow("f").resume(flow)
        assert result.status.value == "completed", result
        return await trail.flow("f").events()


async def retried() -> Sequence[Recorded[FlowEvent]]:
    world, clock = World(), HandClock()
    world.fails = {"b": [RuntimeError("no")]}
    act, unsafe = world.tool(), world.tool(ToolEffect.UNSAFE, OnUnknown.PARK)
    flow = (
        Workflow("retried")
        .tool("a", unsafe, args={"name": "a"}, output="a")
        .tool("b", act, args={"name": "b"}, retry=1, output="b")
        .chain("a", "b")
        .build()
    )
    async with trail_of(clock) as trail:
        try:
            await run_to_rest(on(trail, clock, crash_at("before-node")), clock, flow)
        except Crash:
            clock.advance(60.0)
        await on(trail, clock).flow("f").resume(flow)
        await on(trail, clock).flow("f").settle("f:1:a:1", "completed", by="ana", output="it was done")
        await on(trail, clock).flow("f").resume(flow)
        clock.advance(60.0)
        await on(trail, clock).flow("f").retry(flow, by="ana", reason="again", key="k")
        return await trail.flow("f").events()


async def below() -> Sequence[Recorded[FlowEvent]]:
    clock = HandClock()

    @tool(effect=ToolEffect.UNSAFE, approval=True)
    async def act(name: str) -> str:
        """Act."""
        return name

    model = ScriptedModel([call("act", name="x"), say("dogs")])
    agent = AgentBuilder("critic").with_model(model).with_tools(act).build()
    flow = Workflow("below").agent("critic", agent, prompt="What is missing?", output="c").build()
    prices = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1", date="2026-11-02")
    async with trail_of(clock) as trail:
        this = on(trail, clock)
        await this.run(flow, session="f", options=RunOptions(longest_wait=0.0, prices=prices))
        (child,) = [row.stream for row in await trail.runs() if row.parent is not None]
        session = this.session(child.removeprefix("agent:"))
        await session.approve((await session.state()).open_approvals[0].id, by="ana")
        await this.flow("f").resume(flow)
        return await trail.flow("f").events()


async def stopped() -> Sequence[Recorded[FlowEvent]]:
    world, clock = World(), HandClock()
    world.holds = "a"
    flow = Workflow("stopped").tool("a", world.tool(), args={"name": "a"}).noop("b").chain("a", "b").build()
    async with trail_of(clock) as trail:
        this = on(trail, clock)
        running = asyncio.create_task(this.run(flow, session="f", options=RunOptions(stop_grace=0.0)))
        await world.entered.wait()
        await this.flow("f").stop(by="ana", reason="enough")
        await running
        return await trail.flow("f").events()


async def limited() -> Sequence[Recorded[FlowEvent]]:
    clock = HandClock()
    flow = Workflow("limited").noop("a").noop("b").chain("a", "b").edge("b", "a", loop=True).build()
    async with trail_of(clock) as trail:
        await on(trail, clock).run(
            flow, session="f", options=RunOptions(max_visits=3, longest_wait=LEAVES.longest_wait)
        )
        return await trail.flow("f").events()


async def shown() -> Sequence[Recorded[FlowEvent]]:
    """A run whose input, nodes, answers and a verdict come with files, and which is run again."""
    clock, note = HandClock(), File.from_bytes(b"tea", "text/plain", name="n.txt")

    @tool(effect=ToolEffect.READ)
    def look() -> object:
        """Look."""
        return ToolReply({"lit": True}, Image.from_bytes(b"GIF89a-", name="c.gif"))

    def keep(_: object) -> Update:
        return Update(output=note, messages=(Message.user("", note),), artifacts=(Artifact(id="n", file=note),))

    flow = (
        Workflow("shown")
        .function("keep", keep, output="kept")
        .tool("look", look, output="seen")
        .llm("say", ScriptedModel([say("Three.")]), prompt="{{ input.photo }} {{ vars.seen }}?", output="said")
        .human("ask", prompt="And {{ kept }}?", show=("kept",), type="input", output="answer")
        .chain("keep", "look", "say", "ask")
        .build()
    )
    photo, options = Image.from_bytes(b"GIF89a+"), RunOptions(longest_wait=0.0, pause_before=("say",))
    async with trail_of(clock) as trail:
        this = on(trail, clock)
        await this.run(flow, {"photo": photo}, session="f", vars={"given": [note]}, options=options)
        await this.flow("f").step("say", "continue", by="ana", set={"held": File.from_bytes(b"held")})
        await this.flow("f").resume(flow)
        await this.flow("f").answer("ask", by="ana", data={"scan": File.from_bytes(b"%PDF-1")})
        await this.flow("f").resume(flow)
        await this.run(flow, {"photo": "none"}, session="f", options=options)
        return await trail.flow("f").events()


STORIES: dict[str, Story] = {
    "branches": branches,
    "crashed": crashed,
    "asked": asked,
    "retried": retried,
    "below": below,
    "stopped": stopped,
    "limited": limited,
    "shown": shown,
}
