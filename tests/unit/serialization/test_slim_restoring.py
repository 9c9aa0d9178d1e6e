"""What a slim document tells of a session comes back, and what it leaves out is what must have been."""

from dataclasses import asdict
from typing import Any

import pytest

from steptrail.domain.agent.state import AgentState
from steptrail.domain.usage import Usage
from steptrail.errors import InvalidStateData
from steptrail.messages import Message
from steptrail.serialization import FullAgentStateSerializer, SlimAgentStateSerializer, SlimSerializationConfig
from steptrail.testing.scenario import given
from tests.unit.agent.story import answered, done, finished, opened
from tests.unit.serialization.states import state_of

SLIM = SlimAgentStateSerializer()


def ended() -> AgentState:
    return given(*opened(), *answered(), done(1), finished()).state


def test_every_kind_of_token_comes_back() -> None:
    document = SLIM.serialize(ended())
    document["usage"] = {"input": 1, "output": 2, "cacheWrite": 3, "cacheRead": 4, "reasoning": 5}
    usage = SLIM.deserialize(document).usage
    assert (usage.input, usage.output, usage.cache_write, usage.cache_read, usage.reasoning) == (1, 2, 3, 4, 5)
    assert usage == Usage(input=1, output=2, cache_write=3, cache_read=4, reasoning=5)


@pytest.mark.parametrize(("status", "reason"), [("completed", "completed"), ("failed", "error")])
def test_a_run_that_has_ended_without_a_word_of_its_decision_has_stopped(status: str, reason: str) -> None:
    document: dict[str, Any] = dict(SLIM.serialize(ended()))
    document["status"] = status
    del document["last_continuation"]
    outcome = SLIM.deserialize(document).last_continuation_outcome
    assert outcome is not None
    assert (outcome.should_continue, outcome.stop_reason) == (False, reason)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def test_seconds_that_no_clock_has_and_a_status_that_is_no_word_are_named() -> None:
    for seconds in (10**400, float("inf"), float("nan"), -1):
        document: dict[str, Any] = dict(SLIM.serialize(ended()))
        document["execution"] = {**document["execution"], "cumulative_seconds": seconds}
        with pytest.raises(InvalidStateData, match=r"'execution\.cumulative_seconds' should hold a number of seconds"):
            SLIM.deserialize(document)
    statuses: list[Any] = [nested(5_000), {}, None, "asleep"]
    for status in statuses:
        with pytest.raises(InvalidStateData, match="'status' should hold one of "):
            SLIM.deserialize({**SLIM.serialize(ended()), "status": status})


def test_what_is_nested_too_deeply_is_no_whole_state() -> None:
    whole = FullAgentStateSerializer()
    with pytest.raises(InvalidStateData):
        whole.deserialize({**whole.serialize(ended()), "phase": nested(5_000)})


def test_a_session_that_has_decided_nothing_is_given_no_decision() -> None:
    document = SLIM.serialize(state_of([Message.user("Hello")]))
    assert SLIM.deserialize(document).last_continuation_outcome is None


def test_what_is_left_out_unless_somebody_says_otherwise() -> None:
    assert asdict(SlimSerializationConfig()) == {
        "max_messages": 50,
        "max_content_length": 1000,
        "include_tool_args": True,
        "include_tool_results": True,
        "include_metadata": True,
        "include_reasoning": False,
        "include_steps": True,
        "max_steps": 20,
        "include_all_steps": False,
        "include_continuation_trace": False,
        "max_bytes": 512 * 1024,
    }
