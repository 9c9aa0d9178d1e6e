"""What the log says became of the tool calls of a session, in the order in which they were started."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from steptrail.events import (
    AgentEvent,
    InferenceCompleted,
    Recorded,
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)

__all__ = ["Call", "calls_of"]


@dataclass
class Call:
    """One tool call. `started` counts its attempts; `results` holds what was recorded as its result."""

    effect_id: str
    tool: str
    effect: str
    arguments: dict[str, JsonValue]
    started: int = 0
    results: list[JsonValue] = field(default_factory=list[JsonValue])
    interrupted: int = 0

    @property
    def is_finished(self) -> bool:
        """Tell whether a result was recorded."""
        return bool(self.results)


def calls_of(records: Sequence[Recorded[AgentEvent]]) -> list[Call]:
    """Read the calls off the events."""
    calls: dict[str, Call] = {}
    open_step: dict[int, Call] = {}
    arguments: list[dict[str, JsonValue]] = []
    for record in records:
        match record.event:
            case InferenceCompleted(reply=reply):
                arguments = [asked.arguments or {} for asked in reply.tool_calls]
                open_step = {}
            case ToolExecutionStarted() as started:
                at = started.position
                call = Call(started.effect_id, started.tool, started.effect.value, arguments[at])
                open_step[at] = calls.setdefault(started.effect_id, call)
                open_step[at].started += 1
            case ToolExecutionCompleted(position=at, result=result):
                open_step[at].results.append(result)
            case ToolExecutionInterrupted(position=at):
                open_step[at].interrupted += 1
            case _:
                pass
    return list(calls.values())
