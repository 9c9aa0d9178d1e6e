"""Tasks 5.1 and 5.2: how much a slim document holds, and what it holds."""

import asyncio
import json
from typing import Any

import pytest

from steptrail import RunResult
from steptrail.domain.agent.state import AgentState
from steptrail.serialization import SlimAgentStateSerializer, SlimSerializationConfig
from steptrail.testing import ScriptedModel, calls
from tests.runner.kit import HandClock, agent_of, slowly, trail_of

SECRET = 4_815_162_342


def ran() -> AgentState:
    """A run of two steps and five seconds, with a tool call and a long answer."""
    clock = HandClock()
    asking = calls(("add", {"a": SECRET, "b": 2}), text="Let me add.")
    agent = agent_of([slowly(clock, 2.0, asking), slowly(clock, 3.0, "0123456789" * 200)]).build()

    async def scenario() -> RunResult:
        async with trail_of(clock) as trail:
            return await trail.run(agent, "go", session="s", metadata={"tenant": "acme"})

    return asyncio.run(scenario()).state


STATE = ran()


def written(config: SlimSerializationConfig) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(SlimAgentStateSerializer(config).serialize(STATE)))
    return document


def contents(document: dict[str, Any]) -> list[str]:
    return [message["content"] for message in document["messages"]]


@pytest.mark.acceptance("5.1-1")
def test_minimal() -> None:
    config = SlimSerializationConfig.minimal()
    assert (config.max_messages, config.max_content_length, config.steps_kept) == (10, 500, 0)
    left_out = (
        config.include_tool_args,
        config.include_tool_results,
        config.include_metadata,
        config.include_all_steps,
    )
    assert not any(left_out)


@pytest.mark.acceptance("5.1-2")
def test_standard() -> None:
    config = SlimSerializationConfig.standard()
    assert config == SlimSerializationConfig()
    assert (config.max_messages, config.max_content_length, config.include_all_steps) == (50, 1000, False)
    assert config.include_tool_args
    assert config.include_metadata


@pytest.mark.acceptance("5.1-3")
def test_full() -> None:
    config = SlimSerializationConfig.full()
    limits = (config.max_messages, config.max_content_length, config.steps_kept, config.max_bytes)
    assert limits == (None, None, None, None)
    switches = [name for name in SlimSerializationConfig.__dataclass_fields__ if name.startswith("include_")]
    assert all(getattr(config, name) for name in switches)


@pytest.mark.acceptance("5.2-1")
def test_the_newest_messages_are_kept() -> None:
    assert len(contents(written(SlimSerializationConfig()))) == 4
    assert contents(written(SlimSerializationConfig(max_messages=1))) == ["0123456789" * 100 + "..."]
    assert contents(written(SlimSerializationConfig(max_messages=0))) == []


@pytest.mark.acceptance("5.2-2")
def test_a_longer_text_is_cut_and_marked() -> None:
    assert contents(written(SlimSerializationConfig(max_content_length=4)))[-1] == "0123..."
    assert contents(written(SlimSerializationConfig(max_content_length=2000)))[-1] == "0123456789" * 200
    assert contents(written(SlimSerializationConfig.full()))[-1] == "0123456789" * 200


@pytest.mark.acceptance("5.2-3")
def test_arguments_are_nowhere_when_they_are_left_out() -> None:
    without = written(SlimSerializationConfig(include_tool_args=False))
    assert str(SECRET) in json.dumps(written(SlimSerializationConfig()))
    assert str(SECRET) not in json.dumps(without)
    # What the tool made of them is not what was left out.
    assert str(SECRET + 2) in json.dumps(without)
    assert '"tool_calls": [{"id": "call-1", "name": "add"}]' in json.dumps(without["messages"])


@pytest.mark.acceptance("5.2-4")
def test_the_active_seconds_are_there() -> None:
    assert written(SlimSerializationConfig.minimal())["execution"]["cumulative_seconds"] == 5.0


@pytest.mark.acceptance("5.2-5")
async def test_a_run_begins_with_the_messages_of_a_state_that_was_read_back() -> None:
    read = SlimAgentStateSerializer().deserialize(SlimAgentStateSerializer().serialize(STATE))
    model = ScriptedModel(["4,815,162,344"])
    agent = agent_of([]).with_model(model).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "And in words?", session="next", history=read.messages)
    assert result.status == "completed"
    assert list(result.state.messages)[:4] == list(read.messages)
    (request,) = model.requests
    assert [message.role for message in request.messages] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.acceptance("5.2-6")
def test_what_matters_survives_the_way_there_and_back() -> None:
    serializer = SlimAgentStateSerializer(SlimSerializationConfig.full())
    read = serializer.deserialize(json.loads(json.dumps(serializer.serialize(STATE))))
    assert (read.agent_id, read.parent_agent_id) == ("s", None)
    assert (read.status, read.stop_reason, read.step_count) == (STATE.status, STATE.stop_reason, 2)
    assert (read.usage, read.metadata) == (STATE.usage, STATE.metadata)
    assert (read.started_at, read.updated_at) == (STATE.started_at, STATE.updated_at)
    assert read.cumulative_execution_seconds == 5.0
    assert read.messages == STATE.messages
