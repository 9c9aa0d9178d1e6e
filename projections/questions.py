"""The open questions of a run to people: whether a call may run, and what a call did whose outcome is unknown."""

from collections.abc import Mapping
from dataclasses import dataclass

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue

__all__ = ["ASKS_PEOPLE", "Question", "questions"]

ASKS_PEOPLE = ("approval", "unknown_outcome")
"""The kinds of waits that a person ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person that nobody has answered, about one call of a tool.

    `kind` is `approval` (may it run with exactly these arguments?) or `unknown_outcome` (what did it do?). `stream` is
    the id of the session with its prefix, and `id` what an answer names: the approval, or the call's effect id.
    `arguments` is None when the model's text was no JSON object. A yes to the `digest` holds for these arguments only.
    `expires_at` is None for a question that does not expire.
    """

    kind: str
    stream: str
    agent: str
    id: str
    tool: str
    arguments: Mapping[str, JsonValue] | None
    digest: str
    asked_at: Datetime
    expires_at: Datetime | None = None
    asked_by: str | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "stream": self.stream,
            "agent": self.agent,
            "id": self.id,
            "tool": self.tool,
            "arguments": None if self.arguments is None else dict(self.arguments),
            "digest": self.digest,
            "askedAt": self.asked_at.isoformat(),
            "expiresAt": None if self.expires_at is None else self.expires_at.isoformat(),
            "askedBy": self.asked_by,
            "reason": self.reason,
        }


def questions(stream: str, state: AgentState) -> tuple[Question, ...]:
    """Return the open questions of a session, in the order of the calls."""
    waits = state.execution.waits if state.execution is not None else ()
    since = {wait.id: wait.since for wait in waits}
    return tuple(
        found for call in state.tool_executions if (found := _question(stream, state, call, since)) is not None
    )


def _question(stream: str, state: AgentState, call: ToolExecution, since: Mapping[str, int]) -> Question | None:
    if (asked := call.open_approval) is not None:
        return Question(
            kind="approval",
            stream=stream,
            agent=state.name,
            id=asked.id,
            tool=call.name,
            arguments=call.arguments,
            digest=asked.digest,
            asked_at=to_datetime(asked.asked_at),
            expires_at=to_datetime(asked.expires_at),
            asked_by=asked.asked_by,
            reason=asked.reason,
        )
    if call.phase is CallPhase.PARKED and call.effect_id is not None:
        return Question(
            kind="unknown_outcome",
            stream=stream,
            agent=state.name,
            id=call.effect_id,
            tool=call.name,
            arguments=call.arguments,
            digest=call.arguments_digest,
            asked_at=to_datetime(since.get(call.effect_id, state.fold.updated_at)),
            reason=str(call.error) if call.error is not None else None,
        )
    return None
