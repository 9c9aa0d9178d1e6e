"""Listeners hear what happens in the runs of their process, after it is stored, and harm nobody."""

import asyncio
import io
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import cast

import pytest
from pydantic import BaseModel

from steptrail import ErrorPolicy, HookType, Limits, Steptrail, tool
from steptrail.errors import Backoff, ConfigurationError
from steptrail.events import AgentEvent, ContinuationEvaluated, StepStarted
from steptrail.lifecycle import (
    AgentExecutionCompleted,
    AgentExecutionEnded,
    AgentExecutionFailed,
    AgentExecutionStarted,
    AgentExecutionStopped,
    AgentExecutionWaiting,
    AgentStepCompleted,
    AgentStepStarted,
    CallBlocked,
    CallCancelled,
    ConsoleLogger,
    DecisionTaken,
    HookExecuted,
    InferenceRequestFailed,
    InferenceResponseReceived,
    LifecycleReader,
    RunEvent,
    StopSignalReceived,
    SubagentCompleted,
    SubagentSpawning,
    TokenUsageReported,
    ToolCallCompleted,
    ToolCallStarted,
    ValidationFailed,
    lifecycle_events,
)
from steptrail.live import LiveUpdate, ReplyDelta, ToolProgress
from steptrail.models import ModelDelta, ModelReply, ModelRequest
from steptrail.projections.broadcast.fold import envelopes_of
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import SubagentTool
from steptrail.workflow import FlowTool, Workflow
from tests.runner.families import asks, boss, named
from tests.runner.kit import NOON, Crash, HandClock, again_on, agent_of, crash_at, hook, run, slowly, trail_of

SCRIPT: list[Reply] = [calls(("add", {"a": 1, "b": 2}), ("fail", {"why": "no tea"})), "done"]
IGNORING = ErrorPolicy.ignore_tool_errors()
FOR_AN_HOUR = Backoff.linear(3600.0, max_seconds=3600.0)


async def heard_in(
    script: Sequence[Reply], *, clock: HandClock | None = None, limits: Limits | None = None
) -> tuple[list[RunEvent], Sequence[RunEvent]]:
    """Return what a wiretap heard of a run, and what its log says afterwards."""
    heard: list[RunEvent] = []
    async with trail_of(clock) as trail:
        trail.wiretap(heard.append)
        builder = agent_of(script).with_error_policy(IGNORING)
        await trail.run((builder.with_limits(limits) if limits else builder).build(), "go", session="s")
        return heard, lifecycle_events("s", await trail.session("s").history())


async def test_a_wiretap_hears_a_run_in_order_and_a_later_reader_of_the_log_hears_the_same() -> None:
    heard, later = await heard_in(SCRIPT)
    assert heard == list(later)
    assert [type(event).__name__ for event in heard] == [
        "AgentExecutionStarted",
        "MessagesAdded",
        "DecisionTaken",
        "AgentStepStarted",
        "InferenceRequestStarted",
        "InferenceResponseReceived",
        "ToolCallStarted",
        "ToolCallStarted",
        "ToolCallCompleted",
        "ToolCallCompleted",
        "AgentStepCompleted",
        "TokenUsageReported",
        "DecisionTaken",
        "AgentStepStarted",
        "InferenceRequestStarted",
        "InferenceResponseReceived",
        "AgentStepCompleted",
        "TokenUsageReported",
        "DecisionTaken",
        "AgentExecutionCompleted",
    ]
    assert {(event.session_id, event.parent_session_id, event.execution_id) for event in heard} == {("s", None, "s:1")}


async def test_what_is_told_is_true() -> None:
    heard, _ = await heard_in(SCRIPT)
    (started,) = [event for event in heard if isinstance(event, AgentExecutionStarted)]
    assert (started.messages, started.tools) == (1, 2)
    assert [event.messages for event in heard if isinstance(event, AgentStepStarted)] == [1, 4]
    reply = next(event for event in heard if isinstance(event, InferenceResponseReceived))
    assert (reply.input_tokens, reply.output_tokens, reply.finish_reason) == (10, 5, "tool_calls")
    added, failed = (event for event in heard if isinstance(event, ToolCallCompleted))
    assert (added.success, added.result, added.step, added.tool_call_id) == (True, 3, 1, "call-1")
    assert (failed.success, failed.error, failed.error_type) == (False, "no tea", "tool")
    step = next(event for event in heard if isinstance(event, AgentStepCompleted))
    assert (step.has_tool_calls, step.error_messages, step.finish_reason) == (True, ("no tea",), "tool_calls")
    bill = next(event for event in heard if isinstance(event, TokenUsageReported))
    assert (bill.operation, bill.usage.total, bill.context) == ("step", 15, {"step": 1, "hasToolCalls": True})
    (ended,) = [event for event in heard if isinstance(event, AgentExecutionEnded)]
    assert (ended.steps, ended.usage.total, ended.errors) == (2, 30, 1)


async def test_a_step_of_75_seconds_took_75000_milliseconds() -> None:
    clock = HandClock()
    heard, _ = await heard_in([slowly(clock, 75.0, "done")], clock=clock)
    (step,) = [event for event in heard if isinstance(event, AgentStepCompleted)]
    (reply,) = [event for event in heard if isinstance(event, InferenceResponseReceived)]
    assert (step.duration_ms, reply.duration_ms) == (75_000, 75_000)
    assert "completed [75000ms]" in str(step)


@pytest.mark.parametrize(
    ("script", "limits", "kind", "says"),
    [
        (["done"], None, AgentExecutionCompleted, "completed (steps: 1"),
        ([call("add", a=1, b=2)], Limits(max_steps=1), AgentExecutionStopped, "stopped: steps_limit by StepsLimit"),
        ([ConnectionError("no line")], None, AgentExecutionFailed, "failed: no line"),
    ],
)
async def test_each_end_is_told_as_one_of_three(
    script: Sequence[Reply], limits: Limits | None, kind: type[AgentExecutionEnded], says: str
) -> None:
    heard, _ = await heard_in(script, limits=limits)
    (ended,) = [event for event in heard if isinstance(event, AgentExecutionEnded)]
    assert type(ended) is kind
    assert says in str(ended)


async def test_a_stop_says_what_the_deciding_vote_says() -> None:
    heard, _ = await heard_in([call("add", a=1, b=2)], limits=Limits(max_steps=1))
    (ended,) = [event for event in heard if isinstance(event, AgentExecutionStopped)]
    assert (ended.message, ended.source) == ("Step limit reached: 1/1", "StepsLimit")
    assert ended.context == {"currentSteps": 1, "maxSteps": 1}


async def test_refused_arguments_and_failed_model_calls_are_told_as_such() -> None:
    heard, later = await heard_in([call("add", a="x", b=2), ConnectionError("no line")])
    assert heard == list(later)
    (invalid,) = [event for event in heard if isinstance(event, ValidationFailed)]
    assert (invalid.step, invalid.validation_type) == (1, "tool_arguments")
    (failed,) = [event for event in heard if isinstance(event, InferenceRequestFailed)]
    assert (failed.step, failed.error) == (2, "no line")


class Grams(BaseModel):
    grams: str


@tool
def weigh(grams: int) -> str:
    """Take a number and nothing else."""
    return f"{grams} g"


async def test_no_line_shows_arguments_that_a_tool_below_refused() -> None:
    lines: list[str] = []
    child = named("below", call("weigh", grams="canary")).with_tools(weigh).build()
    flow = Workflow("scales").tool("weigh", weigh, args={"grams": "{{ input.grams }}"}).build()
    above = boss([SubagentTool(child)], asks("below", "go"), call("scales", grams="canary"), "done")
    async with trail_of() as trail:
        trail.wiretap(lambda event: lines.append(str(event)))
        await trail.run(above.with_tools(FlowTool(flow, parameters=Grams)).build(), "go")
        await trail.run(Workflow("above").agent("asks", child, prompt="go").build())
        await trail.run(Workflow("above").flow("asks", flow, input="{{ input }}").build(), {"grams": "canary"})
    told = [line for line in lines if "a tool refused its arguments" in line]
    assert any("call failed: scales" in line for line in told)
    assert {line.split("'")[1] for line in told if line.startswith("Workflow")} == {"below", "scales"}
    assert "canary" not in "".join(lines)


async def test_hooks_and_what_they_block_are_told() -> None:
    heard: list[RunEvent] = []
    guard = hook("guard", lambda state: state.with_blocked_tool_call("not today"))
    async with trail_of() as trail:
        trail.wiretap(heard.append)
        agent = agent_of([call("add", a=1, b=2), "done"], (HookType.PRE_TOOL_USE, guard)).with_error_policy(IGNORING)
        await trail.run(agent.build(), "go", session="s")
    (blocked,) = [event for event in heard if isinstance(event, CallBlocked)]
    assert (blocked.tool, blocked.reason, blocked.hook) == ("add", "not today", "guard")
    (ran,) = [event for event in heard if isinstance(event, HookExecuted)]
    assert (ran.hook, ran.hook_type, ran.tool) == ("guard", "pre_tool_use", "add")


async def test_a_listener_hears_its_type_and_what_is_below_it_until_it_is_taken_off() -> None:
    heard: list[RunEvent] = []
    async with trail_of() as trail:
        agent = agent_of(["done"] * 3).build()
        with trail.on(AgentExecutionEnded, heard.append) as listening:
            await trail.run(agent, "one", session="s")
        await trail.run(agent, "two", session="s")
        listening.stop()
        trail.on(AgentExecutionStarted, heard.append).stop()
        await trail.run(agent, "three", session="s")
    assert [type(event) for event in heard] == [AgentExecutionCompleted]


@pytest.mark.parametrize(("point", "misses"), [("before-append", False), ("after-append", True)])
async def test_a_listener_is_told_only_of_what_is_stored_and_at_most_once(point: str, misses: bool) -> None:
    heard: list[RunEvent] = []
    async with trail_of(reach=crash_at(point, 3)) as trail:
        trail.wiretap(heard.append)
        with pytest.raises(Crash):
            await trail.run(agent_of(SCRIPT).with_error_policy(IGNORING).build(), "go", session="s")
        later = lifecycle_events("s", await trail.session("s").history())
    assert heard
    assert heard == list(later[: len(heard)])
    assert (len(later) > len(heard)) is misses


async def test_a_listener_that_raises_is_logged_once_for_each_type_and_the_run_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[RunEvent] = []

    def broken(event: RunEvent) -> None:
        raise ValueError(event)

    with caplog.at_level(logging.WARNING, logger="steptrail"):
        async with trail_of() as trail:
            trail.on(AgentStepStarted, broken)
            trail.on(DecisionTaken, broken)
            trail.on(AgentStepStarted, heard.append)
            agent = agent_of(SCRIPT).with_error_policy(IGNORING).build()
            assert (await trail.run(agent, "go", session="s")).output == "done"
    assert len(heard) == 2
    said = [line for record in caplog.records if (line := record.getMessage()).startswith("listener")]
    assert len(said) == 2
    assert all("broken failed on" in line and "session s" in line for line in said)


async def test_a_listener_that_asks_something_cancelled_does_not_cancel_the_run() -> None:
    def asks(event: object) -> None:
        raise asyncio.CancelledError

    async with trail_of() as trail:
        trail.on(RunEvent, asks)
        agent = agent_of(SCRIPT).with_error_policy(IGNORING).build()
        result = await trail.run(agent, "go", session="s", on_commit=asks, on_update=asks)
    assert result.output == "done"


async def test_async_listeners_are_refused_with_what_to_do_and_one_in_disguise_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def later(event: RunEvent) -> None:
        raise AssertionError(event)

    class Callable:
        async def __call__(self, event: RunEvent) -> None:
            raise AssertionError(event)

    with caplog.at_level(logging.WARNING, logger="steptrail"):
        async with trail_of() as trail:
            for listener in (later, Callable()):
                with pytest.raises(ConfigurationError, match="put_nowait"):
                    trail.wiretap(listener)
            trail.wiretap(lambda event: later(event))
            await trail.run(agent_of(["done"]).build(), "go", session="s")
    assert "returned a coroutine" in caplog.text


@pytest.mark.parametrize("wrong", [StepStarted, ContinuationEvaluated, AgentEvent, str, "AgentStepStarted", None])
async def test_what_is_no_lifecycle_event_cannot_be_listened_to(wrong: object) -> None:
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=r"steptrail\.lifecycle"):
            trail.on(cast("type[RunEvent]", wrong), print)
        with pytest.raises(ConfigurationError, match="a listener is a function, not str"):
            trail.on(RunEvent, cast("Callable[[RunEvent], None]", "print"))


async def test_live_text_joins_for_who_asks_for_it_beside_who_watches_the_run() -> None:
    heard: list[LiveUpdate] = []
    watched: list[LiveUpdate] = []
    async with trail_of() as trail:
        trail.on(ReplyDelta, heard.append)
        progress = trail.on(ToolProgress, heard.append)
        agent = agent_of(["It is late.", "Very."]).build()
        await trail.run(agent, "go", session="s", on_update=watched.append)
        progress.stop()
        await trail.run(agent, "go on", session="s")
    assert [update.text for update in heard if isinstance(update, ReplyDelta)][:4] == ["It ", "is ", "late.", ""]
    assert heard[: len(watched)] == watched
    assert len(heard) > len(watched)


async def test_a_wiretap_alone_makes_no_model_stream() -> None:
    class Whole(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
            raise AssertionError(request)
            yield ModelDelta("")

    async with trail_of() as trail:
        trail.wiretap(lambda event: None)
        await trail.run(agent_of([]).with_model(Whole(["done"])).build(), "go", session="s")


async def test_the_agents_that_calls_run_are_heard_under_their_own_names_with_their_parent() -> None:
    heard: list[RunEvent] = []
    async with trail_of() as trail:
        trail.wiretap(heard.append)
        scout = SubagentTool(agent_of(["three boxes"]).build(), name="scout")
        boss = agent_of([call("scout", prompt="Count."), "Three."]).with_tools(scout).build()
        await trail.run(boss, "go", session="s")
    (spawning,) = [event for event in heard if isinstance(event, SubagentSpawning)]
    (completed,) = [event for event in heard if isinstance(event, SubagentCompleted)]
    below = [event for event in heard if event.parent_session_id == "s"]
    assert (spawning.subagent, spawning.prompt, spawning.depth) == ("scout", "Count.", 1)
    assert {event.session_id for event in below} == {spawning.subagent_id} == {completed.subagent_id}
    assert (completed.status, completed.tokens) == ("completed", 15)
    assert str(below[0]).startswith(f"Agent [{spawning.subagent_id[:8]}] [parent=s] execution started")


async def test_commands_are_told_where_they_are_given_and_other_processes_hear_their_own() -> None:
    here: list[RunEvent] = []
    there: list[RunEvent] = []
    clock = HandClock()
    async with trail_of(clock) as trail:
        other = again_on(trail, clock)
        trail.wiretap(here.append)
        other.wiretap(there.append)
        agent = agent_of([call("add", a=1, b=2), "done"]).with_max_steps(1).build()
        await trail.run(agent, "go", session="s")
        await other.run(agent, "again", session="s")
        assert list(lifecycle_events("s", await trail.session("s").history())) == here + there
    assert {event.execution_id for event in here} == {"s:1"}
    assert {event.execution_id for event in there} == {"s:2"}


async def test_a_stop_of_a_run_that_waits_is_heard() -> None:
    heard: list[RunEvent] = []
    clock = HandClock()
    async with trail_of(clock) as trail:
        trail.wiretap(heard.append)
        late = ConnectionError("no line")
        policy = ErrorPolicy.retry_all(3).with_backoff(FOR_AN_HOUR)
        await trail.run(agent_of([late]).with_error_policy(policy).build(), "go", session="s")
        await trail.session("s").stop(by="ana", reason="enough")
        assert list(lifecycle_events("s", await trail.session("s").history())) == heard
    (waits,) = [event for event in heard if isinstance(event, AgentExecutionWaiting)]
    assert (waits.kind, waits.until) == ("retry", NOON + 3_600_000_000)
    (asked,) = [event for event in heard if isinstance(event, StopSignalReceived)]
    assert (asked.source, asked.message) == ("ana", "enough")


async def test_who_follows_the_log_hears_the_same_with_positions_from_anywhere() -> None:
    async with trail_of() as trail:
        heard: list[RunEvent] = []
        trail.wiretap(heard.append)
        await trail.run(agent_of([*SCRIPT, "more"]).with_error_policy(IGNORING).build(), "go", session="s")
        fork = await trail.session("s").fork(session="f")
        await trail.run(agent_of([*SCRIPT, "more"]).with_error_policy(IGNORING).build(), "more", session="f")
        whole = await followed(trail, 0)
        assert whole == heard
        assert [event for event in whole if event.session_id == "f"] == list(
            lifecycle_events("f", await fork.history())
        )
        positions = [event.position for event in whole]
        assert None not in positions
        assert positions == sorted(cast("list[int]", positions))
        for after in range(0, max(cast("list[int]", positions)), 3):
            assert await followed(trail, after) == [event for event in whole if (event.position or 0) > after]


async def followed(trail: Steptrail, after: int) -> list[RunEvent]:
    follower = LifecycleReader(trail.store)
    found: list[RunEvent] = []
    async for entry in trail.subscribe(after, follow=False):
        found += await follower.events(entry)
    return found


async def test_entries_may_come_again_or_be_left_out() -> None:
    async with trail_of() as trail:
        await trail.run(agent_of(SCRIPT).with_error_policy(IGNORING).build(), "go", session="s")
        follower = LifecycleReader(trail.store)
        entries = [entry async for entry in trail.subscribe(follow=False)]
        whole = [await follower.events(entry) for entry in entries]
        for entry, expected in reversed(list(zip(entries, whole, strict=True))):
            assert await follower.events(entry) == expected


async def test_who_follows_the_log_passes_over_a_session_that_was_erased() -> None:
    async with trail_of() as trail:
        for session in ("s", "t"):
            await trail.run(agent_of(SCRIPT).with_error_policy(IGNORING).build(), "go", session=session)
        of_t = [event for event in await followed(trail, 0) if event.session_id == "t"]
        entries, known = [entry async for entry in trail.subscribe(follow=False)], LifecycleReader(trail.store)
        for entry in entries:
            await known.events(entry)
        await trail.erase("s", by="ana", reason="she asked for it")
        assert await followed(trail, 0) == of_t
        at_the_end = [entry async for entry in trail.subscribe(entries[-1].position, follow=False)]
        assert [await known.events(entry) for entry in at_the_end] == [()]
        # Also one that has read its entries before, and has to look at what came before them.
        follower = LifecycleReader(trail.store)
        assert [event for entry in entries[2:] for event in await follower.events(entry)] == of_t


def test_the_blocking_twin_has_listeners_too() -> None:
    heard: list[RunEvent] = []
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        with trail.wiretap(heard.append):
            trail.run(agent_of(["one", "two"]).build(), "go", session="s")
        trail.run(agent_of(["one", "two"]).build(), "more", session="s")
        told = lifecycle_events("s", trail.session("s").history())
    assert heard == [event for event in told if event.execution_id == "s:1"]


async def test_the_console_logger_writes_a_plain_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines = io.StringIO()
    async with trail_of() as trail:
        trail.wiretap(ConsoleLogger(lines))
        trail.on(ToolCallStarted, ConsoleLogger())
        agent = agent_of([call("fail", why="s3cret\nforged"), "done"]).with_error_policy(IGNORING).build()
        await trail.run(agent, "go", session="s")
    written = lines.getvalue().splitlines()
    assert written[0] == "08:00:00.000 Agent [s] execution started (messages: 1, tools: 2)"
    assert "08:00:00.000 Tool call started: fail(why)" in written
    assert all(line.startswith("08:00:00.000 ") for line in written)
    assert capsys.readouterr().err == "08:00:00.000 Tool call started: fail(why)\n"


async def test_a_call_that_is_not_run_any_more_is_told_to_be_cancelled_to_everybody() -> None:
    """Listeners, front ends over messages, and AG-UI."""
    clock = HandClock()

    @tool
    def slow() -> str:
        """Take twenty seconds."""
        clock.advance(20)
        return "ok"

    builder = agent_of([calls(("slow", {}), ("slow", {}))]).with_tools(slow).with_timeout(10)
    ran = await run(builder.build(), clock=clock)
    told = lifecycle_events("s", ran.records)
    (cancelled,) = [event for event in told if isinstance(event, CallCancelled)]
    assert (cancelled.tool, cancelled.tool_call_id) == ("slow", "call-2")
    assert cancelled.to_dict()["reason"] == cancelled.reason != ""
    ended = [each.body["data"] for each in envelopes_of("s", ran.records) if each.type == "agent.tool.completed"]
    assert [(data["tool_call_id"], data["success"]) for data in ended if isinstance(data, dict)] == [
        ("call-1", True),
        ("call-2", False),
    ]
