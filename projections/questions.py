"""The open questions of a run to people, of whatever kind of machine; and those of the session of an agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.projections.camel_form import camel_fields

ASKS_PEOPLE = ("approval", "external", "unknown_outcome", "human", "step")
"""The kinds of waits that a person ends."""


OnExpiry = Literal["deny", "default", "fail", "fail_call", "fail_run", "skip"]
"""The end of a question that nobody answers: it is denied, answered with the default, its node, its call or the run
fails, or it goes on without an answer."""
_THEN: Final[Mapping[OnExpiry, str]] = {
    "deny": "it is denied, and the call does not run",
    "default": "the default is taken as the answer",
    "fail": "the node fails",
    "fail_call": "the call fails",
    "skip": "the run goes on without an answer",
    "fail_run": "the run fails",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person that nobody has answered.

    `kind` is `approval` (may this call run with exactly these arguments?), `external` (what is the result of this
    call?), `unknown_outcome` (what did it do?), `human` (the question of a node of a workflow) or `step` (how does a
    visit go on that is held?). `stream` is the id of the stream with its prefix, `agent` the name of the agent or
    workflow, and `id` what an answer names: the approval, the effect id of the call, the request of the node, or the
    node that is held.

    `tool` is the tool that is called, if one is, and `arguments` are None when they are no JSON object. `node` is the
    node of a workflow that asks. Of a human node, `type` says what kind of answer it takes, `prompt` is its text,
    `data` what it shows, `options` are the choices, and `schema` is that of the data of the answer. Of a held step,
    `type` says whether it is held `before` or `after`, and `options` are the nodes of which one that chooses is told
    the next, when it is skipped. Of an external call, `schema` is that of its result; None when any JSON does.

    An answer to the `digest` is to this question as it stands here. `expires_at` is None for a question that does not
    expire, and so is `on_expiry`, which says what becomes of it when nobody answers.
    """

    kind: str
    stream: str
    agent: str
    id: str
    tool: str | None = None
    arguments: Mapping[str, JsonValue] | None = None
    node: str | None = None
    type: str | None = None
    prompt: str | None = None
    data: Mapping[str, JsonValue] | None = None
    options: tuple[str, ...] = ()
    schema: Mapping[str, JsonValue] | None = None
    digest: str | None = None
    asked_at: Datetime
    expires_at: Datetime | None = None
    on_expiry: OnExpiry | None = None
    asked_by: str | None = None
    reason: str | None = None

    @property
    def then(self) -> str | None:
        """The end of the question when nobody answers in time, in words; None for one that does not expire."""
        return None if self.on_expiry is None else _THEN[self.on_expiry]

    def is_open_at(self, now: int) -> bool:
        """Tell whether an answer is taken at `now`, in microseconds of UTC: the question has not expired by then."""
        return self.expires_at is None or self.expires_at > to_datetime(now)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return camel_fields(self)


def questions(stream: str, state: AgentState) -> tuple[Question, ...]:
    """Return the open questions of a session, in the order of the calls."""
    waits = state.execution.waits if state.execution is not None else ()
    since = {wait.id: wait.since for wait in waits}
    return tuple(
        found for call in state.tool_executions if (found := _question(stream, state, call, since)) is not None
    )


def _question(stream: str, state: AgentState, call: ToolExecution, since: Mapping[str, int]) -> Question | None:
    ask = partial(Question, stream=stream, agent=state.name, tool=call.name, arguments=call.arguments)
    if (asked := call.open_approval) is not None:
        return ask(
            kind="approval",
            id=asked.id,
            digest=asked.digest,
            asked_at=to_datetime(asked.asked_at),
            expires_at=to_datetime(asked.expires_at),
            on_expiry="deny",
            asked_by=asked.asked_by,
            reason=asked.reason,
        )
    if (deferred := call.open_deferral) is not None and call.effect_id is not None:
        return ask(
            kind="external",
            id=call.effect_id,
            schema=state.agent.result_schema(call.name) if state.agent is not None else None,
            asked_at=to_datetime(deferred.asked_at),
            expires_at=to_datetime(deferred.expires_at),
            on_expiry="fail_call",
        )
    if call.phase is CallPhase.PARKED and call.effect_id is not None:
        return ask(
            kind="unknown_outcome",
            id=call.effect_id,
            digest=call.arguments_digest,
            asked_at=to_datetime(since.get(call.effect_id, state.fold.updated_at)),
            reason=str(call.error) if call.error is not None else None,
        )
    return None
