"""The whole state as a dictionary, from which the very same state is made again.

It holds what a snapshot holds. The keys of a session, its executions and its open step are spelt as front ends of the
earlier framework know them; what lies deeper is spelt as events store it.
"""

from collections.abc import Mapping

import msgspec

from steptrail.domain.agent.snapshot import FORMAT, SNAPSHOTS, lines_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.base import LARGEST, place_and_fault
from steptrail.domain.camel_case import camel
from steptrail.domain.errors import InvalidStateData
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of
from steptrail.projections.serialization.reader import Reader

_Object = dict[str, JsonValue]
_VIEW = ("format", "parentAgentId", "status")
"""Keys that are written for readers only: their values follow from the rest."""
_EXECUTION = {"id": "executionId", "finished_at": "completedAt"}
_TIMES = ("createdAt", "updatedAt", "startedAt", "completedAt")


class FullAgentStateSerializer:
    """Makes a dictionary of a state from which an equal state is read back, looked at when its last event happened.

    `format` names the fold: what another version of Steptrail wrote is refused, since events are what lasts.
    """

    def serialize(self, state: AgentState) -> dict[str, JsonValue]:
        """Return the state as JSON values. Raises `ConfigurationError` for anything else."""
        a_kind_of(AgentState, state, "what is serialized")
        head, fold, *lines = [msgspec.json.decode(line) for line in lines_of(state, whole=True)]
        whole = _spelt(fold, {})
        execution, step = whole["execution"], whole["step"]
        *_, ended, origins = head
        document: _Object = {
            "format": FORMAT,
            "parentAgentId": state.parent_agent_id,
            "status": state.status.value,
            **whole,
            "messages": [line for line in lines if isinstance(line, dict)],
            "endedAtVersion": ended,
            "origins": origins,
            "execution": None,
            "step": _spelt(step, {}) if isinstance(step, dict) else None,
        }
        if isinstance(execution, dict):
            steps: list[JsonValue] = [line[0] for line in lines if isinstance(line, list)]
            document["execution"] = {**_spelt(execution, _EXECUTION), "stepExecutions": steps}
        return document

    def deserialize(self, data: Mapping[str, JsonValue]) -> AgentState:
        """Return the state again. Raises `InvalidStateData`."""
        document = Reader.of(data)
        if document.text("format") != FORMAT:
            raise InvalidStateData("format", f"{FORMAT!r}: another version of Steptrail wrote this")
        messages = [dict(each.data) for each in document.objects("messages")]
        steps: list[list[_Object]] = []
        fold = _read(document, ("messages", "endedAtVersion", "origins", *_VIEW))
        if document.has("execution"):
            execution = document.object("execution")
            steps = [[dict(each.data)] for each in execution.objects("stepExecutions")]
            fold["execution"] = _read(execution, ("stepExecutions",))
        if document.has("step"):
            fold["step"] = _read(document.object("step"), ())
        head = [len(messages), len(steps), document.value("endedAtVersion"), document.value("origins")]
        try:
            lines = [msgspec.json.encode(each) for each in (head, fold, *messages, *steps)]
            state = SNAPSHOTS.load(lines)
            # Looked at now: a snapshot decodes them when somebody asks, and there the error would name nothing.
            for _ in (*state.messages, *state.message_origins, *state.steps):
                pass
            times = (
                state.elapsed_seconds,
                state.cumulative_execution_seconds,
                sum(s.duration_seconds for s in state.steps),
            )
            if any(abs(seconds) * 1e6 > LARGEST for seconds in times):
                raise OverflowError
        except OverflowError as error:
            raise InvalidStateData("execution", "times that fit 64 bits in microseconds") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidStateData(_place_of(error) or "(the document)", "what `serialize` writes there") from error
        return state


def _spelt(given: _Object, names: Mapping[str, str]) -> _Object:
    spelt: _Object = {}
    for name, value in given.items():
        key = names.get(name) or camel(name)
        spelt[key] = to_datetime(value).isoformat() if key in _TIMES and isinstance(value, int) else value
    return spelt


def _read(given: Reader, without: tuple[str, ...]) -> _Object:
    names = {key: name for name, key in _EXECUTION.items()}
    read: _Object = {}
    for key, value in given.data.items():
        if key not in without:
            at = given.instant(key) if key in _TIMES else None
            read[names.get(key) or _snake(key)] = value if at is None else at
    return read


def _place_of(error: Exception) -> str:
    place = place_and_fault(error)[0] if isinstance(error, msgspec.ValidationError) else ""
    place = place.removeprefix("[0].")  # of the line of a step
    return "" if place.startswith("[") else camel(place)


def _snake(key: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in key)
