"""The whole state as a dictionary, of every golden stream."""

import json
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.errors import InvalidStateData
from steptrail.serialization import FullAgentStateSerializer
from tests.golden.streams import FOLDER, read

STREAMS = sorted(FOLDER.glob("*.jsonl"))
FULL = FullAgentStateSerializer()


def state_of(stream: Path) -> AgentState:
    return evolve_all(initial(stream.stem), read(stream))


def written(name: str = "completed") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(FULL.serialize(state_of(FOLDER / f"agent-v1-{name}.jsonl"))))
    return document


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.stem)
def test_an_equal_state_is_read_back_also_when_the_keys_were_sorted(stream: Path) -> None:
    state = state_of(stream)
    for sort_keys in (False, True):
        text = json.dumps(FULL.serialize(state), sort_keys=sort_keys)
        read_back = FULL.deserialize(json.loads(text))
        assert read_back == state
        assert read_back.as_of == state.as_of


def test_the_keys_are_those_that_front_ends_know() -> None:
    document = written()
    assert {
        "agentId",
        "parentAgentId",
        "createdAt",
        "updatedAt",
        "metadata",
        "messages",
        "execution",
    } <= document.keys()
    assert {"executionId", "startedAt", "completedAt", "stepExecutions"} <= document["execution"].keys()
    assert document["status"] == "completed"
    assert len(document["execution"]["stepExecutions"]) == 2


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"format": "agent.0"}, "format"),
        ({"format": None}, "format"),
        ({"agentId": 7}, "agentId"),
        ({"createdAt": "yesterday"}, "createdAt"),
        ({"messages": [*written()["messages"][1:], {"role": "user", "parts": [{"kind": "smell"}]}]}, "parts[0].kind"),
        ({"messages": written()["messages"][1:]}, "(the document)"),
        ({"origins": [[1, 1]] * 4 + ["nonsense"]}, "(the document)"),
        ({"messages": {}}, "messages"),
        ({"messages": [{"number": 1, "role": "user"}]}, "(the document)"),
        ({"metadata": {"k": object()}}, "(the document)"),
    ],
)
def test_what_it_did_not_write_is_refused(change: dict[str, Any], key: str) -> None:
    with pytest.raises(InvalidStateData) as refused:
        FULL.deserialize({**written(), **change})
    assert refused.value.key == key


def test_a_step_that_is_none_is_refused() -> None:
    document = written()
    document["execution"]["stepExecutions"][0]["reply"] = "Hello"
    with pytest.raises(InvalidStateData) as refused:
        FULL.deserialize(document)
    assert refused.value.key == "reply"


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**63], ids=["huge", "negative", "64 bits"])
@pytest.mark.parametrize("key", ["activeUs", "wall"])
def test_a_time_that_nothing_can_count_is_refused(key: str, value: int) -> None:
    document = written()
    document["execution"][key] = {"counted_us": value} if key == "wall" else value
    with pytest.raises(InvalidStateData, match=r"execution.*64 bits in microseconds"):
        FULL.deserialize(document)


def test_a_step_of_more_seconds_than_there_are_is_refused() -> None:
    document = written()
    document["execution"]["stepExecutions"][0]["duration_seconds"] = 1e308
    with pytest.raises(InvalidStateData, match=r"execution.*64 bits in microseconds"):
        FULL.deserialize(document)
