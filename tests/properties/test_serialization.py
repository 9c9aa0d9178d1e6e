"""Documents of every life: their size has the bound that was set, and reading them back loses what it may lose."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from pydantic_core import to_json

from steptrail.domain.agent.state import AgentState
from steptrail.domain.messages import Message, MessageRole, ToolCallPart
from steptrail.serialization import FullAgentStateSerializer, SlimAgentStateSerializer, SlimSerializationConfig
from tests.profile import examples
from tests.properties.driving import Life, lives
from tests.unit.serialization.states import state_of

texts = st.text(max_size=40) | st.sampled_from(["\x00" * 3000, "é" * 3000, "👍" * 3000])
arguments = st.none() | st.dictionaries(texts, texts, max_size=2)
called = st.builds(ToolCallPart, id=texts, name=texts, arguments=arguments, raw=st.none() | texts)


def asking(text: str, calls: list[ToolCallPart]) -> Message:
    return Message.assistant(text, tool_calls=tuple(calls))


messages = st.one_of(
    st.builds(Message.user, texts),
    st.builds(Message.system, texts),
    st.builds(asking, texts, st.lists(called, max_size=2)),
    st.builds(Message.tool, texts, texts, texts),
)
presets = st.sampled_from(
    [SlimSerializationConfig.minimal(), SlimSerializationConfig.standard(), SlimSerializationConfig.full()]
)


def limited(
    preset: SlimSerializationConfig, most: int | None, length: int | None, size: int
) -> SlimSerializationConfig:
    return replace(preset, max_messages=most, max_content_length=length, max_bytes=size)


configs = st.builds(
    limited, presets, st.none() | st.integers(0, 8), st.none() | st.integers(0, 50), st.integers(4096, 9000)
)
some = examples(60)


def check(state: AgentState, config: SlimSerializationConfig) -> None:
    document = SlimAgentStateSerializer(config).serialize(state)
    assert config.max_bytes is not None
    assert len(to_json(document)) <= config.max_bytes
    found = document["messages"]
    assert isinstance(found, list)
    assert config.max_messages is None or len(found) <= config.max_messages
    assert not found or not isinstance(found[0], dict) or found[0]["role"] != MessageRole.TOOL


@pytest.mark.slow("draws large messages")
@given(st.lists(messages, max_size=8), configs)
def test_no_document_is_larger_than_it_may_be_whatever_was_said(
    told: list[Message], config: SlimSerializationConfig
) -> None:
    check(state_of(told), config)


@some
@given(lives(), configs)
def test_no_document_of_a_life_is_larger_than_it_may_be(life: Life, config: SlimSerializationConfig) -> None:
    check(life.stored, config)


@some
@given(lives(), presets, st.data())
def test_what_is_read_back_says_the_same_at_every_moment_of_a_life(
    life: Life, config: SlimSerializationConfig, data: st.DataObject
) -> None:
    state = data.draw(st.sampled_from(life.states()[1:]))
    serializer = SlimAgentStateSerializer(config)
    document = serializer.serialize(state)
    read = serializer.deserialize(json.loads(json.dumps(document)))
    assert (read.agent_id, read.status, read.usage) == (state.agent_id, state.status, state.usage)
    assert (read.started_at, read.updated_at) == (state.started_at, state.updated_at)
    assert abs(read.cumulative_execution_seconds - state.cumulative_execution_seconds) < 1e-5
    assert read.metadata == (state.metadata if config.include_metadata else {})
    assert (read.step_count, read.stop_reason) == (state.step_count, state.stop_reason)
    again = serializer.serialize(read)
    assert again["messages"] == document["messages"]
    if config == SlimSerializationConfig.full():
        # What is said of an answer that is due, or was rejected, is for the model alone.
        said = zip(state.messages, state.message_origins, strict=True)
        assert list(read.messages) == [message for message, origin in said if not origin.output]


@some
@given(lives(forks=True), st.data())
def test_the_whole_state_is_read_back_at_every_moment_of_a_life(life: Life, data: st.DataObject) -> None:
    state = data.draw(st.sampled_from(life.states()))
    full = FullAgentStateSerializer()
    assert full.deserialize(json.loads(json.dumps(full.serialize(state)))) == state
