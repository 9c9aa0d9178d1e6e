"""What is too large is left out, in an order: arguments, metadata and votes, the oldest steps, the oldest messages."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic_core import to_json

from steptrail import Message
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionStarted,
    SessionStarted,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.inference import ModelInfo
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.version import VERSION
from steptrail.errors import ConfigurationError
from steptrail.messages import ToolCallPart
from steptrail.serialization import SlimAgentStateSerializer, SlimSerializationConfig
from tests.runner.kit import NOON
from tests.unit.serialization.states import state_of

SMALL = SlimSerializationConfig(max_bytes=4096)


def document(*messages: Message) -> dict[str, Any]:
    return SlimAgentStateSerializer(SMALL).serialize(state_of(messages))


def test_arguments_go_before_messages_do() -> None:
    asking = Message.assistant(
        "Let me look.", tool_calls=(ToolCallPart(id="c", name="t", arguments={"a": "x" * 9000}),)
    )
    (first, second) = document(Message.user("Tea?"), asking)["messages"]
    assert first == {"role": "user", "content": "Tea?"}
    assert second["metadata"] == {"tool_calls": [{"id": "c", "name": "t"}]}


def test_metadata_goes_as_a_whole() -> None:
    state = evolve_all(initial("s"), [Recorded(1, NOON, SessionStarted(name="a", metadata={"k": "x" * 9000}))])
    assert SlimAgentStateSerializer(SMALL).serialize(state)["metadata"] == {}


def test_the_oldest_messages_go_and_results_with_their_calls() -> None:
    asking = Message.assistant("y" * 900, tool_calls=(ToolCallPart(id="c", name="t"),))
    told = [Message.user("x" * 900), asking, Message.tool("c", "t", "z" * 900), *[Message.user("w" * 900)] * 3]
    kept = document(*told)["messages"]
    assert [message["content"][0] for message in kept] == ["w", "w", "w"]


def test_names_without_end_do_not_break_the_bound() -> None:
    agent, parent = "a" * 128, ParentRef(kind="agent", session="p" * 128, execution="", effect="")
    snapshot = AgentSnapshot(name="a", model=ModelInfo(driver="d", model="m"), fingerprint="f")
    endless = "\x00" * 9000
    events: list[AgentEvent] = [
        SessionStarted(name=endless, parent=parent),
        ExecutionStarted(
            execution_id=endless,
            ordinal=1,
            segment=1,
            worker="w",
            input=Message.user(endless),
            agent=snapshot,
            by="user",
            library=VERSION,
        ),
        EvaluationsRecorded(votes=(ContinuationEvaluation.from_decision(endless, ContinuationDecision.FORBID),)),
        ContinuationEvaluated(step=0, decision=ContinuationDecision.FORBID, should_continue=False, resolved_by=endless),
    ]
    state = evolve_all(initial(agent), [Recorded(at, NOON, event) for at, event in enumerate(events, 1)])
    for config in (SMALL, replace(SlimSerializationConfig.full(), max_bytes=4096)):
        assert len(to_json(SlimAgentStateSerializer(config).serialize(state))) <= 4096


def test_nothing_is_left_out_where_everything_fits() -> None:
    told = [Message.user(str(number)) for number in range(20)]
    assert len(document(*told)["messages"]) == 20
    assert len(json.dumps(document(*told))) < 4096


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_bytes": 4095},
        {"max_messages": -1},
        {"max_steps": -1},
        {"max_content_length": -1},
        {"max_messages": 1.5},
        {"max_steps": "5"},
        {"max_content_length": True},
        {"max_bytes": 5000.5},
    ],
)
def test_settings_that_cannot_be_kept_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SlimSerializationConfig(**wrong)
