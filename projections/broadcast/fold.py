"""From what happens in one session to the messages about it: one fold a session, live and from the log alike."""

from collections.abc import Iterable
from copy import copy
from typing import Literal, cast

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import NodeDelta, NodeProgress, Place, ReplyDelta, TextDelta
from steptrail.domain.newest import Newest
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BEFORE_ALL, BroadcastEnvelope, StreamKind, enveloped, id_of
from steptrail.projections.broadcast.flow_payloads import (
    FLOW_CHUNK,
    FLOW_PROGRESS,
    FLOW_STATUS,
    flow_status_payload,
    node_chunk_payload,
    node_progress_payload,
)
from steptrail.projections.broadcast.payloads import CHUNK, CONTINUATION, STATUS, chunk_payload, said_of, status_payload
from steptrail.projections.lifecycle import RunEvent, lifecycle_events
from steptrail.projections.lifecycle.executions import AgentExecutionEnded
from steptrail.projections.lifecycle.flow_fold import flow_lifecycle_events
from steptrail.projections.lifecycle.flow_nodes import FlowAttemptEnded, FlowAttemptStarted
from steptrail.projections.lifecycle.flow_runs import FlowExecutionEnded, FlowRunEvent
from steptrail.projections.lifecycle.steps import AgentStepCompleted, AgentStepStarted

Moment = Literal["early", "now", "late"]
"""When a piece of a reply comes: before its step or try was told of, while it is open, or after it was."""

_MOST_ENDED = 4_096
"""Places of a run of a workflow of which it is known which try has ended there."""


class EnvelopeFold:
    """Tells what the lifecycle events of one stream mean to front ends, in the order in which they are given.

    It keeps the status, the id of the last message and a count of chunks. `is_whole=False` is for who begins in the
    middle of a session: what it says is not meant to be sent until `is_settled`.
    """

    def __init__(self, config: BroadcastConfig, *, is_whole: bool = True) -> None:
        self._config = config
        self._status = ExecutionStatus.PENDING if is_whole else None
        self.last_id: str | None = None
        """The id of the last message that is stored; None before the first."""
        self._is_whole = self._sees_whole_execution = is_whole
        self._chunks = 0
        self._execution_id, self._step, self._is_open, self._has_ended = "", 0, False, False
        self._open_tries: dict[Place, int] = {}
        self._ended_tries = Newest[Place, int](_MOST_ENDED)
        """The number of the newest try at a place of a workflow."""
        self.executions_ended = 0

    @property
    def is_settled(self) -> bool:
        """Whether the status and the message before the next one are known."""
        return self._is_whole or (self._status is not None and self.last_id is not None)

    def copied(self) -> "EnvelopeFold":
        """Return one that goes on from here by itself."""
        other = copy(self)
        other._open_tries, other._ended_tries = self._open_tries.copy(), Newest[Place, int](_MOST_ENDED)
        other._ended_tries.update(self._ended_tries)
        return other

    def apply(self, event: RunEvent) -> tuple[BroadcastEnvelope, ...]:
        """Return the messages that an event makes under this configuration, none for most."""
        config, told = self._config, list[BroadcastEnvelope]()
        # Places are given to what an event can say, said or not, and so mean the same under every configuration.
        place = 2 * event.index + 1
        before, after = self._status, event.session_status
        if after is not before:
            self._status = after
            if before is None:
                # Whether this was a change is not known, and so neither whether a message was made of it.
                self.last_id = None
            elif config.auto_status_tracking:
                told.append(self._envelope(event, place, *_status(after, before, event, config)))
        said = said_of(event, config)
        if said is not None and (said[0] != CONTINUATION or config.include_continuation_trace):
            told.append(self._envelope(event, place + 1, *said))
        self._note(event)
        return tuple(told)

    def delta(self, delta: TextDelta, *, at: int) -> tuple[BroadcastEnvelope, ...]:
        """Return the message of a piece of a reply, seen at `at` (microseconds of UTC).

        There is none for reasoning, for an empty piece that is not the last, and without `include_stream_chunks`.
        """
        made = chunk_of(delta, self._config, last=self.last_id, index=self._chunks, at=at)
        self._chunks += made is not None
        return () if made is None else (made,)

    def moment_of(self, delta: TextDelta) -> Moment:
        """Tell whether a piece of a reply belongs to a step or try that is open, or to one before or after it."""
        theirs, ours = _ordinal(delta.execution_id), _ordinal(self._execution_id)
        if isinstance(delta, NodeDelta):
            if theirs != ours:
                return "early" if theirs > ours else "late"
            if delta.attempt == self._open_tries.get(delta.place):
                return "now"
            newest = self._open_tries.get(delta.place) or self._ended_tries.get(delta.place, 0)
            if delta.attempt <= newest or self._has_ended:
                return "late"
            # What nothing was seen of has probably begun before this fold did.
            return "early" if newest or self._sees_whole_execution else "now"
        if (theirs, delta.step) == (ours, self._step):
            return "now" if self._is_open else "late"
        return "early" if (theirs, delta.step) > (ours, self._step) else "late"

    def _envelope(self, event: RunEvent, place: int, kind: str, payload: dict[str, JsonValue]) -> BroadcastEnvelope:
        made = enveloped(
            self._config.form,
            id=id_of((event.version, place)),
            previous=self.last_id,
            type=kind,
            session_id=event.session_id,
            execution_id=event.execution_id,
            at=event.at,
            payload=payload,
            kind="flow" if isinstance(event, FlowRunEvent) else "agent",
        )
        self.last_id = made.id
        return made

    def _note(self, event: RunEvent) -> None:
        if event.execution_id != self._execution_id:
            self._sees_whole_execution = self._is_whole or self._execution_id != ""
            self._execution_id, self._step, self._is_open, self._has_ended = event.execution_id, 0, False, False
            self._open_tries.clear()
            self._ended_tries.clear()
        if isinstance(event, AgentStepStarted):
            self._step, self._is_open = event.step, True
        elif isinstance(event, AgentStepCompleted):
            self._is_open = False
        elif isinstance(event, FlowAttemptStarted):
            self._open_tries[event.node, event.visit, event.item] = event.attempt
        elif isinstance(event, FlowAttemptEnded):
            place = event.node, event.visit, event.item
            self._open_tries.pop(place, None)
            self._ended_tries.keep(place, event.attempt)
        elif isinstance(event, AgentExecutionEnded | FlowExecutionEnded):
            self._is_open, self._chunks, self._has_ended = False, 0, True
            self.executions_ended += 1


def chunk_of(
    delta: TextDelta | NodeProgress, config: BroadcastConfig, *, last: str | None, index: int, at: int
) -> BroadcastEnvelope | None:
    """Return the message of a live update that comes after message `last`; `index` counts them.

    None for reasoning, for an empty piece that is not the last, and without `include_stream_chunks`.
    """
    if not config.include_stream_chunks:
        return None
    if not isinstance(delta, NodeProgress) and (delta.kind != "text" or not (delta.text or delta.is_final)):
        return None
    kind: StreamKind = "flow"
    match delta:
        case ReplyDelta():
            kind, said = "agent", (CHUNK, chunk_payload(delta, index))
        case NodeDelta():
            said = FLOW_CHUNK, node_chunk_payload(delta, index)
        case NodeProgress():
            said = FLOW_PROGRESS, node_progress_payload(delta, config)
    return enveloped(
        config.form,
        id=last or BEFORE_ALL,
        previous=last,
        type=said[0],
        session_id=delta.session_id,
        execution_id=delta.execution_id,
        at=at,
        payload=said[1],
        kind=kind,
        is_ephemeral=True,
    )


def envelopes_of(
    session_id: str,
    records: Iterable[Recorded[AgentEvent]] | Iterable[Recorded[FlowEvent]],
    config: BroadcastConfig | None = None,
) -> tuple[BroadcastEnvelope, ...]:
    """Return the messages of a whole session, such as of `session.history()`; no chunk is among them.

    `session_id` is the id of an agent's session, or `flow:order-7` for the runs of a workflow. Of a fork they are its
    own alone, like its lifecycle events.
    """
    fold = EnvelopeFold(config or BroadcastConfig())
    if session_id.startswith(FLOWS):
        of_flow = cast("Iterable[Recorded[FlowEvent]]", records)
        told = flow_lifecycle_events(session_id.removeprefix(FLOWS), of_flow)
    else:
        told = lifecycle_events(session_id, cast("Iterable[Recorded[AgentEvent]]", records))
    return tuple(made for event in told for made in fold.apply(event))


def _status(
    status: ExecutionStatus, previous: ExecutionStatus, event: RunEvent, config: BroadcastConfig
) -> tuple[str, dict[str, JsonValue]]:
    if isinstance(event, FlowRunEvent):
        return FLOW_STATUS, flow_status_payload(status, previous, event, config)
    return STATUS, status_payload(status, previous, event, config)


def _ordinal(execution_id: str) -> int:
    """Return which execution of its session one is: the ids of a session's executions end with their number."""
    return int(execution_id.rpartition(":")[2] or 0)
