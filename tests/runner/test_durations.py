"""Whoever asks what took how long is told what the clocks said, under every name that a duration has."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Limits, ToolEffect, tool
from steptrail.domain.agent.standing import summary
from steptrail.domain.json_value import JsonValue
from steptrail.errors import Backoff
from steptrail.events import RetryScheduled
from steptrail.lifecycle import (
    AgentStepCompleted,
    InferenceRequestFailed,
    InferenceResponseReceived,
    RunEvent,
    SubagentCompleted,
    ToolCallCompleted,
    lifecycle_events,
)
from steptrail.projections.broadcast.fold import envelopes_of
from steptrail.serialization import SlimAgentStateSerializer, SlimSerializationConfig
from steptrail.testing import ScriptedModel, call, calls
from steptrail.tools import SubagentTool
from steptrail.ui import ui_conversation
from tests.runner.kit import NOON, HandClock, Run, run, slowly, trail_of


@dataclass(frozen=True)
class Timed:
    """A run of two steps: 1.5 s of the model, 0.25 s and 0.5 s of tools; a wait; and then 2 s of the model."""

    ran: Run

    @property
    def waited(self) -> float:
        return self.ran.one(RetryScheduled).delay_seconds

    @property
    def told(self) -> Sequence[RunEvent]:
        return lifecycle_events("s", self.ran.records)


@pytest.fixture
async def timed() -> Timed:
    clock = HandClock()

    @tool(effect=ToolEffect.READ)
    async def quick() -> str:
        """Take a quarter of a second."""
        clock.advance(0.25)
        return "ok"

    @tool(effect=ToolEffect.READ)
    async def broken() -> str:
        """Take half a second, and fail."""
        clock.advance(0.5)
        raise RuntimeError("no tea")

    asking = calls(("quick", {}), ("broken", {}))
    model = ScriptedModel([slowly(clock, 1.5, asking), slowly(clock, 2, "done")])
    builder = AgentBuilder("timed").with_model(model).with_tools(quick, broken)
    policy = ErrorPolicy.retry_tool_errors(3).with_backoff(Backoff.linear(10.0))
    agent = builder.with_error_policy(policy).with_limits(Limits(max_concurrent_tools=1)).build()
    return Timed(await run(agent, clock=clock))


def test_listeners_are_told_what_steps_replies_and_calls_took(timed: Timed) -> None:
    steps = [event for event in timed.told if isinstance(event, AgentStepCompleted)]
    assert [step.duration_ms for step in steps] == [2250, 2000]
    assert [step.to_dict()["durationMs"] for step in steps] == [2250, 2000]
    replies = [event for event in timed.told if isinstance(event, InferenceResponseReceived)]
    assert [reply.duration_ms for reply in replies] == [1500, 2000]
    assert [reply.to_dict()["duration_ms"] for reply in replies] == [1500, 2000]
    ended = [event for event in timed.told if isinstance(event, ToolCallCompleted)]
    assert [(each.tool, each.duration_ms, each.to_dict()["duration_ms"]) for each in ended] == [
        ("quick", 250, 250),
        ("broken", 500, 500),
    ]
    since = [(each.started - NOON, each.ended - NOON) for each in ended]
    assert since == [(1_500_000, 1_750_000), (1_750_000, 2_250_000)]


def test_front_ends_are_sent_what_steps_and_calls_took(timed: Timed) -> None:
    sent: dict[str, list[JsonValue]] = {"agent.step.completed": [], "agent.tool.completed": []}
    for each in envelopes_of("s", timed.ran.records):
        data = each.body["data"]
        if each.type in sent and isinstance(data, dict):
            sent[each.type].append(data["duration_ms"])
    assert sent == {"agent.step.completed": [2250, 2000], "agent.tool.completed": [250, 500]}


def test_a_stored_conversation_shows_what_calls_took(timed: Timed) -> None:
    shown = ui_conversation(timed.ran.result.state).messages
    assert [
        message.metadata.tool_duration_ms
        for message in shown
        if message.role == "tool" and message.metadata is not None
    ] == [250, 500]


def test_a_slim_document_says_what_its_steps_took_and_what_is_read_back_has_the_sum(timed: Timed) -> None:
    serializer = SlimAgentStateSerializer(SlimSerializationConfig.standard())
    document = serializer.serialize(timed.ran.result.state)
    steps = document["steps"]
    assert isinstance(steps, list)
    assert [step["duration_ms"] for step in steps if isinstance(step, dict)] == [2250, 2000]
    read = serializer.deserialize(document)
    assert [step.duration_seconds for step in read.steps] == [0.0, 4.25]
    assert read.cumulative_execution_seconds == 4.25


def test_lists_of_runs_have_the_active_time_alone(timed: Timed) -> None:
    assert summary(timed.ran.result.state).active_seconds == 4.25


def test_why_tells_active_time_from_all_of_it_and_counts_every_call(timed: Timed) -> None:
    spent = timed.ran.why.spent
    assert timed.waited > 0
    assert (spent.active_seconds, round(spent.wall_seconds - timed.waited, 6)) == (4.25, 4.25)
    assert (spent.steps, spent.tool_calls) == (2, 2)
    told = timed.ran.why.to_dict()["spent"]
    assert isinstance(told, dict)
    assert (told["activeSeconds"], told["wallSeconds"], told["toolCalls"]) == (4.25, spent.wall_seconds, 2)


async def test_why_counts_the_calls_of_an_open_step_and_the_time_until_now() -> None:
    clock = HandClock()

    @tool(effect=ToolEffect.READ)
    async def quick() -> str:
        """Take a quarter of a second."""
        clock.advance(0.25)
        return "ok"

    @tool(approval=True)
    def pay() -> str:
        """Wait for a person."""
        raise AssertionError("nobody approved it")

    model = ScriptedModel([slowly(clock, 1, call("quick")), slowly(clock, 2, calls(("quick", {}), ("pay", {})))])
    agent = AgentBuilder("asks").with_model(model).with_tools(quick, pay).build()
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        spent = (await trail.session("s").why()).spent
        # The call that nobody has approved was not started.
        assert (spent.tool_calls, spent.steps) == (2, 1)
        assert (spent.active_seconds, spent.wall_seconds) == (3.5, 3.5)


async def test_a_model_call_that_fails_or_is_cut_off_is_told_with_what_it_took() -> None:
    clock = HandClock()

    def give_up(request: object) -> str:
        clock.advance(3)
        raise ConnectionError("no line")

    ran = await run(AgentBuilder("x").with_model(ScriptedModel([give_up])).build(), clock=clock)
    (failed,) = [event for event in lifecycle_events("s", ran.records) if isinstance(event, InferenceRequestFailed)]
    assert (failed.duration_ms, failed.to_dict()["duration_ms"]) == (3000, 3000)


async def test_a_subagent_is_told_with_what_it_took() -> None:
    clock = HandClock()
    child = AgentBuilder("child").with_model(ScriptedModel([slowly(clock, 1.25, "four")])).build()
    model = ScriptedModel([call("child", prompt="two and two?"), "four"])
    ran = await run(AgentBuilder("parent").with_model(model).with_tools(SubagentTool(child)).build(), clock=clock)
    (ended,) = [event for event in lifecycle_events("s", ran.records) if isinstance(event, SubagentCompleted)]
    assert (ended.duration_ms, ended.to_dict()["duration_ms"]) == (1250, 1250)
