"""Answers a what-if for each execution of a recorded session."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.evolve import extend, initial
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.other_settings import Parts, WhatIfQuestion
from steptrail.projections.what_if import Used, WhatIfAnswer, WhatIfRow
from steptrail.projections.what_if_decisions import OtherRun

_BRING_AGENTS = (stored.ExecutionStarted, stored.ExecutionResumed, stored.ModelSwitched, stored.SessionForked)
_ALWAYS: frozenset[type[stored.AgentEvent]] = frozenset({*_BRING_AGENTS, stored.ExecutionFinished})
"""The events before which it is looked at the runs, whether they have parted or not. Most others are only folded."""


class WhatIfFold:
    """Answers for each execution of a session, from its events in order."""

    def __init__(self, session_id: str, question: WhatIfQuestion) -> None:
        self._state = initial(session_id)
        self._run = OtherRun(self._state, question)
        self._begun: stored.ExecutionStarted | None = None
        self._parts: Parts | None = None
        self._before: str | None = None
        self._fork_at: int | None = None
        self._rows: list[WhatIfRow] = []

    def add(self, records: Sequence[Recorded[stored.AgentEvent]]) -> None:
        """Take the events that come next."""
        plain: list[Recorded[stored.AgentEvent]] = []
        for record in records:
            kind = type(record.event)
            if kind in _ALWAYS or (self._run.judges is not None and (kind in self._run.looks_at or self._run.refused)):
                if plain:
                    extend(self._state, plain)
                    plain.clear()
                self._take(record)
            else:
                plain.append(record)
        extend(self._state, plain)

    def rows(self, damage: str | None = None) -> Sequence[WhatIfRow]:
        """Return the answers, that about the newest execution first. `damage` says why it was not given all events."""
        state = self._state
        if self._begun is not None:
            why = damage or f"it is {state.status.value}, and what comes is not recorded"
            self._parts = self._parts or Parts(why, state.version + 1)
            self._end(self._begun)
        elif damage or not self._rows:
            why = damage or "nothing was started in it"
            row = WhatIfRow(session_id=state.agent_id, answer=WhatIfAnswer.UNKNOWN, why=why, version=state.version + 1)
            self._rows.append(row)
        newest, *before = reversed(self._rows)
        newest = replace(newest, can_be_retried=newest.can_be_retried and can_be_retried(state))
        return [newest, *(replace(row, can_be_retried=False) for row in before)]

    def _take(self, record: Recorded[stored.AgentEvent]) -> None:
        event = record.event
        taken: stored.AgentEvent | None = event
        if self._run.judges is not None:
            try:
                taken = self._run.asked(event, record.at, record.version)
            except Parts as parts:
                self._part(parts)
        if isinstance(event, _BRING_AGENTS):
            self._bring_agent(record, event)
        elif isinstance(event, stored.ExecutionFinished):
            extend(self._state, (record,))
            if self._begun is not None:
                self._end(self._begun, taken if isinstance(taken, stored.ExecutionFinished) else event)
        elif taken is not None:
            extend(self._state, (record if taken is event else structs.replace(record, event=taken),))
        if isinstance(event, stored.StepCompleted):
            self._fork_at = record.version
            self._run.refused.clear()

    def _bring_agent(self, record: Recorded[stored.AgentEvent], event: stored.AgentEvent) -> None:
        """Fold an event by which the run goes on with another agent, and put the other settings into that one."""
        self._run.take_out()
        extend(self._state, (record,))
        if isinstance(event, stored.SessionForked):
            self._rows.clear()  # they are those of the session that it comes from, and so are the versions
            if self._parts is not None:
                self._parts.at, self._parts.fork_at = record.version, None
        if isinstance(event, stored.ExecutionStarted):
            self._begun = event
        if isinstance(event, stored.SessionForked | stored.ExecutionStarted):
            self._fork_at = record.version
        if self._begun is None or self._parts is not None:
            return
        if isinstance(event, stored.ExecutionStarted) and self._before is not None:
            self._part(Parts(self._before, record.version, is_unasked=True))
            return
        try:
            self._run.put_in()
        except ConfigurationError as error:
            self._part(Parts(str(error), record.version, is_unasked=True))

    def _part(self, parts: Parts) -> None:
        """Note where the runs part. From here on the recorded one is folded, for what it has used."""
        # The recorded prices are those by which both parts of it are billed.
        self._run.take_out(*(() if parts.ended is None else (parts.ended,)))
        parts.used, parts.fork_at = _used(parts.ended or self._state), self._fork_at
        self._parts = parts
        self._run.refused.clear()

    def _end(self, begun: stored.ExecutionStarted, other: stored.ExecutionFinished | None = None) -> None:
        """Add the row of an execution that has ended, or of which nothing more is known."""
        state, parts = self._state, self._parts
        row = WhatIfRow(
            session_id=state.agent_id,
            execution_id=state.execution_id,
            agent=begun.agent.name,
            status=state.status,
            stop_reason=state.stop_reason,
            answered=state.answered,
            answer=WhatIfAnswer.UNKNOWN if parts is not None and parts.ended is None else WhatIfAnswer.STOPS_EARLIER,
        )
        if parts is None:
            assert other is not None  # noqa: S101 - without an end nothing more is known
            row = replace(row, answer=WhatIfAnswer.SAME, would_stop=other.stop_reason, why=_otherwise(row, other))
        elif parts.ended is None:
            fork_at = None if parts.is_unasked else parts.fork_at
            row = replace(row, why=parts.why, version=parts.at, fork_at=fork_at, can_be_retried=parts.is_the_end)
        else:
            row = _stopped(row, parts, parts.ended, _used(state))
        if parts is not None and (self._before is not None or not parts.is_unasked):
            self._before = f"it goes on from execution {state.execution_id}, which need not have been the same"
        self._rows.append(row)
        self._begun = self._parts = None
        self._run.take_out()


def _used(state: AgentState) -> Used:
    """Return what an execution has used. A step that is open counts, because it is closed at the end."""
    cost = state.cost
    return Used(
        steps=state.step_count + (state.open_step is not None),
        tokens=state.usage.total,
        active_seconds=state.cumulative_execution_seconds,
        cost=None if cost is None else cost.usd,
    )


def _otherwise(row: WhatIfRow, other: stored.ExecutionFinished) -> str:
    """Return in words in which way the same end is another one; an empty text where it is not."""
    if (other.status, other.stop_reason) == (row.status, row.stop_reason):
        return ""
    was = row.stop_reason.value if row.stop_reason is not None else None
    return f"it ends there {other.status.value} ({other.stop_reason.value}), and not {row.status} ({was})"


def _stopped(row: WhatIfRow, parts: Parts, ended: AgentState, whole: Used) -> WhatIfRow:
    """Return the row of an execution that would have ended in this state."""
    outcome, decision = ended.last_continuation_outcome, ended.execution.decision if ended.execution else None
    vote = outcome.deciding_vote if outcome is not None else None
    return replace(
        row,
        why=f"{vote.criterion_class}: {vote.reason}" if vote is not None else "no criterion asked for another step",
        version=parts.at,
        step=parts.used.steps,
        would_stop=outcome.stop_reason if outcome is not None else None,
        vote=vote,
        saved=whole.beyond(parts.used),
        is_wrong=row.answered and not (decision is not None and decision.answered),
    )
