"""Tasks 6.1 and 6.2: messages about a run, and the way out for them."""

import re
from collections.abc import Iterable

import orjson
import pytest

from steptrail import ErrorPolicy
from steptrail.broadcasting import (
    AgentEventEnvelopeAdapter,
    BroadcastConfig,
    CanBroadcastAgentEvents,
    InProcessTransport,
)
from steptrail.domain.json_value import JsonValue
from steptrail.lifecycle import AgentExecutionCompleted, RunEvent, lifecycle_events
from steptrail.testing import Reply, calls
from tests.runner.kit import HandClock, agent_of, slowly, trail_of


async def sent(config: BroadcastConfig | None = None) -> list[dict[str, JsonValue]]:
    """Return the bodies of all messages that a listener has sent of a run, as a client reads them.

    The first reply takes 1.5 s, and the second one 2 s.
    """
    told: list[dict[str, JsonValue]] = []
    clock = HandClock()
    script: list[Reply] = [
        slowly(clock, 1.5, calls(("add", {"a": 1, "b": 2}), ("fail", {"why": "no tea"}))),
        slowly(clock, 2, "done"),
    ]
    transport = InProcessTransport(most_waiting=1_000)
    async with trail_of(clock) as trail, AgentEventEnvelopeAdapter(transport, config) as adapter:
        trail.wiretap(adapter)
        agent = agent_of(script).with_error_policy(ErrorPolicy.ignore_tool_errors()).build()
        await trail.run(agent, "go", session="s")
        await adapter.flush()
    await transport.aclose()
    told.extend([orjson.loads(each.to_json()) async for each in transport])
    return told


async def of_type(kind: str, config: BroadcastConfig | None = None) -> list[dict[str, JsonValue]]:
    data = [each["data"] for each in await sent(config) if each["event"] == kind]
    return [each for each in data if isinstance(each, dict)]


@pytest.mark.acceptance("6.1-1")
async def test_anything_with_two_methods_is_a_way_out() -> None:
    class Counts:
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def broadcast(self, event: RunEvent) -> None:
            self.kinds.append(type(event).__name__)

        def broadcast_batch(self, events: Iterable[RunEvent]) -> None:
            for event in events:
                self.broadcast(event)

    own = Counts()
    async with trail_of() as trail, AgentEventEnvelopeAdapter(InProcessTransport()) as ours:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        told = lifecycle_events("s", await trail.session("s").history())
        ways_out: list[CanBroadcastAgentEvents] = [own, ours]
        for way_out in ways_out:
            way_out.broadcast(told[0])
            way_out.broadcast_batch(told[1:])
        await ours.flush()
        assert ours.counts.sent == 5
    assert own.kinds == [type(each).__name__ for each in told]
    assert own.kinds[-1] == AgentExecutionCompleted.__name__


@pytest.mark.acceptance("6.2-1")
async def test_a_step_that_starts_is_told() -> None:
    assert (await of_type("agent.step.started"))[0] == {"step_number": 1, "message_count": 1, "available_tools": 2}


@pytest.mark.acceptance("6.2-2")
async def test_a_step_that_ends_is_told_with_usage_and_duration() -> None:
    first, second = await of_type("agent.step.completed")
    assert first["usage"] == {
        "input": 10,
        "output": 5,
        "cacheWrite": 0,
        "cacheRead": 0,
        "reasoning": 0,
        "total": 15,
    }
    assert (first["duration_ms"], second["duration_ms"]) == (1500, 2000)
    assert first["errors"] == 1


@pytest.mark.acceptance("6.2-3")
async def test_a_tool_that_starts_is_called_tool() -> None:
    started = await of_type("agent.tool.started")
    assert [each["tool"] for each in started] == ["add", "fail"]
    assert not any({"name", "arguments"} & each.keys() for each in started)


@pytest.mark.acceptance("6.2-4")
async def test_a_tool_that_ends_says_whether_it_worked() -> None:
    ended = {str(each["tool"]): each for each in await of_type("agent.tool.completed")}
    assert (ended["add"]["success"], ended["add"]["error"]) == (True, None)
    assert (ended["fail"]["success"], ended["fail"]["error"]) == (False, "no tea")


@pytest.mark.acceptance("6.2-5")
async def test_a_decision_is_told_with_its_evaluations() -> None:
    last = (await of_type("agent.continuation", BroadcastConfig.debug()))[-1]
    votes = last["evaluations"]
    assert isinstance(votes, list)
    names = [each["criterion"] for each in votes if isinstance(each, dict)]
    assert {"StepsLimit", "ToolCallPresenceCheck"} <= set(names)
    assert await of_type("agent.continuation") == []


@pytest.mark.acceptance("6.2-6")
async def test_an_envelope_is_json_of_four_keys_and_its_place() -> None:
    for each in await sent(BroadcastConfig.debug()):
        assert [*each] == ["event", "timestamp", "agent_id", "data", "sequence", "previous"]
        assert each["agent_id"] == "s"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(each["timestamp"]))
        assert isinstance(each["data"], dict)
