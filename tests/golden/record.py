"""Writes the golden streams, folds and rows that are not there yet, with the code of today, and changes none."""

import asyncio
from collections.abc import Awaitable, Callable

import orjson
from msgspec import structs
from pydantic import BaseModel

from steptrail import (
    AgentBuilder,
    Compaction,
    ErrorPolicy,
    HookType,
    Limits,
    OnUnknown,
    Steptrail,
    ToolContext,
    ToolEffect,
    external_tool,
    tool,
)
from steptrail.continuation import (
    CallableCriterion,
    ContinuationCriteria,
    ContinuationDecision,
    ContinuationEvaluation,
    StateView,
    StepsLimit,
    StopReason,
)
from steptrail.domain.agent.snapshot import FORMAT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.hooks.state import HookState
from steptrail.domain.shared.parent import session_for_call
from steptrail.errors import Backoff
from steptrail.hooks import CallableHook, Critique, SelfCritic
from steptrail.messages import File, Image, Message
from steptrail.models import ModelFailed, PriceTable, Usage
from steptrail.output import OutputContext, OutputRejected
from steptrail.projections import project_agent_state
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.tools import ApprovalRule, SubagentTool, ToolReply
from tests.golden import flows, rows
from tests.golden.flow_stories import STORIES as FLOW_STORIES
from tests.golden.streams import FOLDER, folds, lines, outcome
from tests.runner.kit import Crash, HandClock, crash_at, slowly, trail_of

Story = Callable[[HandClock], Awaitable[Steptrail]]
SESSION = "golden"


@tool(effect=ToolEffect.READ)
def look(what: str) -> dict[str, str]:
    """Look something up."""
    return {"what": what, "found": "yes"}


@tool(effect=ToolEffect.READ)
def broken() -> str:
    """Fail."""
    raise RuntimeError("out of order")


@tool(effect=ToolEffect.KEYED)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
def send(text: str) -> str:
    """Send a letter."""
    return f"sent {text}"


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600.0, reason="it moves money"))
def refund(amount: int) -> str:
    """Refund."""
    return f"refunded {amount}"


class Receipt(BaseModel):
    what: str
    cents: int
    paid: bool = False


class Budget:
    """Forbids after two steps, in its own words."""

    is_guard = True

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote."""
        left = 2 - state.step_count
        return ContinuationEvaluation.from_decision(
            criterion_class="golden.Budget",
            decision=ContinuationDecision.ALLOW if left > 0 else ContinuationDecision.FORBID,
            reason=f"{left} left",
            context={"left": left, "of": 2},
            stop_reason=None if left > 0 else StopReason.TOKEN_LIMIT,
        )


def counsel(state: HookState) -> HookState:
    return state.with_evaluation(ContinuationEvaluation.from_decision("golden.Counsel", ContinuationDecision.STOP))


def seen(state: HookState) -> HookState:
    return state.with_metadata("seen", state.step_count)


def building(script: list[Reply]) -> AgentBuilder:
    return (
        AgentBuilder("golden")
        .with_model(ScriptedModel(script))
        .with_system_prompt("Be brief.")
        .with_tools(look, broken, pay, send)
        .with_hook(HookType.AFTER_STEP, CallableHook(seen, "seen"))
    )


def process(trail: Steptrail, clock: HandClock, point: str = "", number: int = 0) -> Steptrail:
    """Return another process on the same store."""
    return Steptrail(Environment(store=trail.store, clock=clock, worker="host:2", reach=crash_at(point, number)))


def first(clock: HandClock, point: str = "", number: int = 0) -> Steptrail:
    return process(trail_of(clock), clock, point, number)


async def completed(clock: HandClock) -> Steptrail:
    trail = first(clock)
    script: list[Reply] = [
        slowly(clock, 2.0, calls(("look", {"what": "a"}), ("pay", {"amount": 7}), text="Let me see.")),
        "Done.",
    ]
    await trail.run(building(script).build(), "Pay for a", session=SESSION, key="k1", metadata={"team": "a"})
    return trail


async def failed(clock: HandClock) -> Steptrail:
    trail = first(clock)
    await trail.run(building([calls(("broken", {}), ("look", {"what": "b"}))]).build(), "Break", session=SESSION)
    return trail


async def retried(clock: HandClock) -> Steptrail:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(5.0))
    trail = first(clock)
    agent = building([TimeoutError("too slow"), call("broken"), "At last."]).with_error_policy(policy).build()
    await trail.run(agent, "Try", session=SESSION, on_commit=clock.sit_out)
    return trail


async def switched(clock: HandClock) -> Steptrail:
    """The first model is too slow twice, and the run goes on with the second one."""
    trail = first(clock)
    second = ScriptedModel(["", "", call("look", what="a"), "Done."], name="second")
    agent = building([TimeoutError("too slow")] * 2).with_fallback(second).build()
    await trail.run(agent, "Look", session=SESSION, on_commit=clock.sit_out)
    return trail


async def instructed(clock: HandClock) -> Steptrail:
    """Instructions that change, stay, and go; and at last their function fails."""

    def left(state: AgentState) -> str | None:
        return (f"You have {2 - state.step_count // 2} looks left.", None)[state.step_count // 4]

    async def mood(state: AgentState) -> str:
        if state.step_count == 5:
            raise LookupError("no mood today")
        return "Be kind."

    trail = first(clock)
    agent = building([call("look", what=each) for each in "abcdef"])
    agent.with_instructions(left, every="step", at="tail", name="left")
    agent.with_instructions(mood, every="step", name="mood")
    await trail.run(agent.build(), "Look around", session=SESSION)
    return trail


async def compacted(clock: HandClock) -> Steptrail:
    """The conversation outgrows its model twice: as its provider counts, and as it says itself."""
    trail = first(clock)
    script: list[Reply] = [
        calls(("look", {"what": "a"}), usage=Usage(input=9)),
        calls(("look", {"what": "b"}), usage=Usage(input=90)),
        slowly(clock, 2.0, say("a was looked at.", usage=Usage(input=60, output=8))),
        calls(("look", {"what": "c"}), usage=Usage(input=8)),
        ModelFailed("This model's maximum context length is 100 tokens.", status_code=400),
        say("a and b were looked at.", usage=Usage(input=30, output=9)),
        "Done.",
    ]
    compaction = Compaction(window=100, keep_steps=1, clear_results_above=4)
    await trail.run(building(script).with_compaction(compaction).build(), "Look", session=SESSION)
    return trail


async def crashed(clock: HandClock) -> Steptrail:
    script: list[Reply] = [calls(("look", {"what": "a"}), ("pay", {"amount": 7}), ("look", {"what": "b"})), "Done."]
    agent = building(script).build()
    dying = first(clock, "after-tool", 2)
    try:
        await dying.run(agent, "Pay", session=SESSION)
    except Crash:
        clock.advance(3600.0)
    trail = process(dying, clock)
    await trail.session(SESSION).resume(agent)
    return trail


async def paused(clock: HandClock) -> Steptrail:
    trail = first(clock)

    @tool(effect=ToolEffect.READ)
    async def rest() -> str:
        """Rest."""
        clock.advance(5.0)
        await trail.session(SESSION).pause(by="ana", reason="deploy")
        return "rested"

    await trail.run(
        building([calls(("rest", {}), ("look", {"what": "a"}))]).with_tools(rest).build(), "Rest", session=SESSION
    )
    return trail


async def waiting(clock: HandClock) -> Steptrail:
    agent = building([calls(("send", {"text": "hello"}), ("look", {"what": "a"})), "Sent."]).build()
    dying = first(clock, "before-tool", 1)
    try:
        await dying.run(agent, "Send", session=SESSION)
    except Crash:
        clock.advance(60.0)
    trail = process(dying, clock)
    await trail.session(SESSION).resume(agent)
    return trail


async def settled(clock: HandClock) -> Steptrail:
    trail = await waiting(clock)
    clock.advance(86_400.0)
    parked = (await trail.session(SESSION).state()).tool_executions[0]
    await trail.session(SESSION).settle(parked.effect_id or "", "completed", by="ana", result="it was sent")
    clock.advance(60.0)
    await trail.session(SESSION).resume(building([calls(("send", {}), ("look", {"what": "a"})), "Sent."]).build())
    return trail


async def approved(clock: HandClock) -> Steptrail:
    trail = first(clock)
    refunds = calls(("refund", {"amount": 1}), ("refund", {"amount": 2}), ("refund", {"amount": 3}))
    agent = building([refunds, "Two of three."]).with_tools(refund).build()
    await trail.run(agent, "Refund", session=SESSION)
    session = process(trail, clock).session(SESSION)
    await session.deny(f"{SESSION}:1:1:1", by="ben", reason="not ours")
    await session.approve(f"{SESSION}:1:1:0", by="ana", arguments={"amount": 5}, key="k1")
    clock.advance(7200.0)
    await session.resume(agent)
    return trail


async def external(clock: HandClock) -> Steptrail:
    trail = first(clock)
    pick = external_tool("pick", "Pick a file.", {"type": "object"}, expires=3600.0)
    theirs = external_tool("confirm", "Ask the user.", {"type": "object"})
    wanted = calls(("pick", {"kind": "png"}), ("look", {"what": "a"}), ("refund", {"amount": 1}), ("confirm", {}))
    script: list[Reply] = [wanted, calls(("pick", {}), ("confirm", {})), "Done."]
    agent = building(script).with_tools(pick, refund).build()
    await trail.run(agent, "Go", session=SESSION, external_tools=[theirs])
    session = process(trail, clock).session(SESSION)
    await session.answer(f"{SESSION}:1:1:3", True, by="page", key="k1")
    await session.approve(f"{SESSION}:1:1:2", by="ana")
    await session.answer(f"{SESSION}:1:1:0", {"name": "a.png"}, by="ana", reason="the newest one")
    clock.advance(60.0)
    await session.resume(agent)
    await session.answer(f"{SESSION}:1:2:1", error="no page is open", by="page")
    clock.advance(3600.0)
    await session.resume(agent)
    return trail


async def voted(clock: HandClock) -> Steptrail:
    trail = first(clock)
    agent = (
        building([call("look", what="a"), call("look", what="b"), "Never said."])
        .with_criteria(
            ContinuationCriteria(StepsLimit(9), CallableCriterion(lambda _: True, name="open"), name="nested"),
            CallableCriterion(lambda _: ContinuationDecision.REQUEST, name="golden.More", is_guard=False),
            Budget(),
        )
        .with_hook(HookType.AFTER_STEP, CallableHook(counsel, "counsel"))
        .build()
    )
    await trail.run(agent, "Vote", session=SESSION)
    return trail


async def suspended(clock: HandClock) -> Steptrail:
    trail = first(clock)
    below = AgentBuilder("clerk").with_model(ScriptedModel([call("refund", amount=1), "Refunded."])).with_tools(refund)
    critic = SelfCritic(lambda task, answer: Critique(approved=True, usage=Usage(output=1)))
    agent = building([call("clerk", prompt="Refund"), "The clerk has refunded."]).with_tools(
        SubagentTool(below.build())
    )
    ready = agent.with_capability(critic).build()
    await trail.run(ready, "Refund", session=SESSION)
    child = session_for_call(f"{SESSION}:1:1:0")
    await process(trail, clock).session(child).approve(f"{child}:1:1:0", by="ana")
    await process(trail, clock).session(SESSION).resume(ready)
    return trail


async def priced(clock: HandClock) -> Steptrail:
    trail = first(clock)
    small = structs.replace(call("look", what="b"), response_model="scripted-small")
    prices = PriceTable.of(
        {"scripted": {"input": "0.25", "output": 2}, "scripted-*": {"input": "0.05", "output": "0.4"}},
        version="2026-11",
        date="2026-11-02",
    )
    agent = (
        building([call("look", what="a"), small, "Never said."])
        .with_max_cost("0.000015", prices=prices)
        .with_max_steps(1, shadow=True)
        .build()
    )
    await trail.run(agent, "Look", session=SESSION)
    return trail


async def taken_up_again(clock: HandClock) -> Steptrail:
    """A key is missing, and when it is there the run is retried by somebody with more steps."""
    trail = process(trail_of(clock), clock)

    model = ScriptedModel([PermissionError("no key"), call("look", what="tea"), "Tea."])
    agent = AgentBuilder("golden").with_model(model).with_tools(look).build()
    await trail.run(agent, "What is left?", session=SESSION, by="ana", key="order-7")
    more = Limits(max_steps=40)
    await trail.session(SESSION).retry(agent, by="ben", reason="it has a key now", limits=more, key="again")
    return trail


async def out_of_time(clock: HandClock) -> Steptrail:
    """A tool that keeps its deadline itself wakes up a little early, and the next one has no time left."""

    @tool(effect=ToolEffect.KEYED)
    def patient(amount: int, context: ToolContext) -> str:
        """Pay, as long as there is time."""
        clock.advance((context.deadline_seconds or 0.0) - 0.02)
        raise TimeoutError(f"no time for {amount}")

    trail = first(clock)
    script: list[Reply] = [slowly(clock, 2.5, calls(("patient", {"amount": 1}), ("patient", {"amount": 2}))), "Done."]
    await trail.run(building(script).with_tools(patient).with_cumulative_timeout(9).build(), "Pay", session=SESSION)
    return trail


async def typed(clock: HandClock) -> Steptrail:
    """An answer that does not fit, and one beside a call; a validator changes it."""

    def rounded(receipt: Receipt, context: OutputContext) -> Receipt:
        if receipt.what == "b":
            raise OutputRejected("nobody looks for b")
        return receipt.model_copy(update={"cents": round(receipt.cents, -2)})

    script: list[Reply] = [
        calls(("receipt", {"what": "a", "cents": "many"})),
        calls(("receipt", {"what": "b", "cents": 149}), ("look", {"what": "a"})),
        "It is 149 cents.",
        calls(("receipt", {"what": "a", "cents": 149}), ("look", {"what": "a"}), ("receipt", {"what": "c"})),
    ]
    trail = first(clock)
    agent = building(script).with_output(Receipt, mode="tool", retries=3, name="receipt")
    await trail.run(agent.with_output_validator(rounded).build(), "Look for a", session=SESSION)
    return trail


async def shown(clock: HandClock) -> Steptrail:
    """Let a person and a tool show files."""

    @tool(effect=ToolEffect.READ)
    def camera() -> ToolReply:
        return ToolReply("a shelf", Image.from_bytes(b"\x89PNG\r\n\x1a\n-", name="a.png", detail="low"))

    agent = AgentBuilder("clerk").with_model(ScriptedModel([call("camera"), "Three."])).with_tools(camera).build()
    trail = first(clock)
    await trail.run(agent, Message.user("How many?", File.from_bytes(b"a,b", "text/csv")), session=SESSION)
    return trail


async def scored(clock: HandClock) -> Steptrail:
    """People and a program score a session, while it waits and after its end; one thinks better of it."""
    agent = building([call("refund", amount=5), "Paid."]).with_tools(refund).build()
    trail = first(clock)
    await trail.run(agent, "Refund", session=SESSION)
    session = trail.session(SESSION)
    await session.score("slow", False, by="bob", key="k")
    await session.approve(f"{SESSION}:1:1:0", by="ana")
    await session.resume(agent)
    for value in (0.25, 1):
        await session.score("helpful", value, by="ana", comment="It paid.", execution=1, step=1)
    await session.score("tone", "formal", by="judge")
    return trail


STORIES: dict[str, Story] = {
    "completed": completed,
    "failed": failed,
    "retried": retried,
    "crashed-and-resumed": crashed,
    "paused": paused,
    "waiting": waiting,
    "settled": settled,
    "approved": approved,
    "external": external,
    "voted": voted,
    "suspended": suspended,
    "priced": priced,
    "taken-up-again": taken_up_again,
    "out-of-time": out_of_time,
    "typed": typed,
    "switched": switched,
    "instructed": instructed,
    "shown": shown,
    "compacted": compacted,
    "scored": scored,
}


async def write(name: str, story: Story) -> None:
    trail = await story(HandClock())
    async with trail:
        records = await trail.session(SESSION).events()
    stream = FOLDER / f"agent-v1-{name}.jsonl"
    stream.write_bytes(b"".join(lines(records)))
    folded = outcome(project_agent_state(stream.stem, records))
    stream.with_suffix(".json").write_bytes(orjson.dumps(folded, option=orjson.OPT_INDENT_2) + b"\n")


def main() -> None:
    for name, story in STORIES.items():
        if not (FOLDER / f"agent-v1-{name}.jsonl").exists():
            asyncio.run(write(name, story))
            print(f"wrote agent-v1-{name}")
    for name, flow_story in FLOW_STORIES.items():
        stream = flows.FOLDER / f"flow-v1-{name}.jsonl"
        if not stream.exists():
            stream.write_bytes(b"".join(lines(asyncio.run(flow_story()))))
            print(f"wrote {stream.name}")
    for form, folded in ((FORMAT, folds), (flows.FORMAT, flows.folds), (rows.FORMAT, rows.counted)):
        recorded = FOLDER / "folds" / f"{form}.json"
        if not recorded.exists():
            recorded.write_bytes(orjson.dumps(folded(), option=orjson.OPT_INDENT_2) + b"\n")
            print(f"wrote {recorded.name}")


if __name__ == "__main__":
    main()
