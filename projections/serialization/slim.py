"""A state as a small dictionary for front ends: recent messages and steps, and why the last decision was taken.

It is a view: a part that is left out is gone when the dictionary is read back. A session is resumed from its events.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep
from steptrail.domain.compact_json import compact_json
from steptrail.domain.continuation.names import short_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of
from steptrail.projections.serialization.config import SlimSerializationConfig
from steptrail.projections.serialization.cutting import cut
from steptrail.projections.serialization.messages import Entry, newest_entries, without_orphans
from steptrail.projections.serialization.restoring import restored

_LONGEST_NAME = 200
"""Characters that are kept of the name of a criterion, which may be anything."""


@dataclass(frozen=True, slots=True)
class SlimAgentStateSerializer:
    """Makes the slim document of a state, and a state of such a document.

    Keys, in order: `agent_id`, `parent_agent_id`, `status`, `step_count`, `usage`, `execution` (`started_at`,
    `updated_at`, `cumulative_seconds`), `messages`, `steps`, `last_continuation`, `metadata`. Counts, usage, seconds
    and steps are those of the open execution, or of the last one; the times are the session's.
    """

    config: SlimSerializationConfig = field(default_factory=SlimSerializationConfig)

    def __post_init__(self) -> None:
        a_kind_of(SlimSerializationConfig, self.config, "the configuration of a serializer")

    def serialize(self, state: AgentState) -> dict[str, JsonValue]:
        """Return the document. Each of its parts is at most as large as the configuration says.

        Raises `ConfigurationError` for anything but a state.
        """
        a_kind_of(AgentState, state, "what is serialized")
        most = self.config.max_bytes
        document: Entry = {}
        for config in _ever_slimmer(self.config):
            document = _document(state, config)
            if most is None or _size(document) <= most:
                return document
        return _fitted(document, cast("int", most))

    def deserialize(self, data: Mapping[str, JsonValue]) -> AgentState:
        """Return a state with the identity, status, usage, metadata, times and messages of the document.

        Keys that are missing are taken as empty, but for `agent_id` and `status`. Steps are counted and not restored:
        the last one stands for the time of all. A tool call whose arguments were left out has none. Raises
        `InvalidStateData`.
        """
        return restored(data)


def _ever_slimmer(config: SlimSerializationConfig) -> Iterator[SlimSerializationConfig]:
    """Yield the configuration, and then what is tried where a document does not fit: first what has no bound."""
    yield config
    without_args = replace(config, include_tool_args=False, include_reasoning=False)
    yield without_args
    yield replace(without_args, include_metadata=False, include_continuation_trace=False)


def _document(state: AgentState, config: SlimSerializationConfig) -> Entry:
    kept = config.steps_kept
    steps = state.steps[-kept:] if kept else (state.steps if kept is None else ())
    return {
        "agent_id": state.agent_id,
        "parent_agent_id": state.parent_agent_id,
        "status": state.status.value,
        "step_count": state.step_count,
        "usage": {**state.usage.to_dict(), "total": state.usage.total},
        "execution": {
            "started_at": state.started_at.isoformat(),
            "updated_at": state.updated_at.isoformat(),
            "cumulative_seconds": state.cumulative_execution_seconds,
        },
        "messages": list[JsonValue](newest_entries(state.messages, state.message_origins, config)),
        "steps": [_step(step) for step in steps],
        "last_continuation": _continuation(state, config),
        "metadata": dict(state.metadata) if config.include_metadata else {},
    }


def _step(step: AgentStep) -> Entry:
    worked = "tool_execution" if step.has_tool_calls else "final_response"
    return {
        "step_number": step.number,
        "type": "error" if step.has_errors else worked,
        "has_tool_calls": step.has_tool_calls,
        "finish_reason": step.finish_reason and step.finish_reason.value,
        "errors": len(step.errors),
        "usage": {"total": step.usage.total},
        "duration_ms": round(step.duration_seconds * 1000),
        "tool_calls": [{"id": call.call.id, "name": call.name} for call in step.tool_executions],
    }


def _continuation(state: AgentState, config: SlimSerializationConfig) -> Entry | None:
    outcome = state.last_continuation_outcome
    if outcome is None:
        return None
    said: Entry = {
        "should_continue": outcome.should_continue,
        "stop_reason": outcome.stop_reason.value,
        "answered": state.answered,
        "resolved_by": cut(short_name(outcome.resolved_by), _LONGEST_NAME),
    }
    if config.include_continuation_trace:
        # Not their contexts: they may hold whatever a criterion looked at.
        said["evaluations"] = [
            {"criterion": short_name(vote.criterion_class), "decision": vote.decision.value, "reason": vote.reason}
            for vote in outcome.evaluations
        ]
    return said


def _fitted(document: Entry, most: int) -> Entry:
    """Return the document without the oldest steps, and then the oldest messages, that do not fit."""
    steps, messages = cast("list[Entry]", document["steps"]), cast("list[Entry]", document["messages"])
    left = most - _size({**document, "steps": [], "messages": []})
    messages = without_orphans(_newest_within(messages, left))
    steps = _newest_within(steps, left - sum(_size(each) + 1 for each in messages))
    return {**document, "messages": list[JsonValue](messages), "steps": list[JsonValue](steps)}


def _newest_within(entries: list[Entry], most: int) -> list[Entry]:
    kept = len(entries)
    for entry in reversed(entries):
        most -= _size(entry) + 1
        if most < 0:
            break
        kept -= 1
    return entries[kept:]


def _size(document: Entry) -> int:
    return len(compact_json(document))
