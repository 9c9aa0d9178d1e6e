"""Is the store sound? Every stream is read whole; what is wrong with one says nothing about the others.

Damage is what must not be. What needs somebody's attention, such as a run that no process runs any more, is no damage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from steptrail.domain.agent.events import AgentEvent, SessionForked
from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.ids import STREAM_PREFIX, SessionId, session_of, stream_of
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.errors import CorruptRecord, StoreError
from steptrail.domain.event import Event
from steptrail.domain.record import Recorded
from steptrail.infrastructure.store.sqlite_store import SqliteEventStore
from steptrail.projections.agent_state import project_agent_state
from steptrail.runtime.agent_journal import agent_records, load_history

__all__ = ["CHECKS", "Examination", "Finding", "examine"]

CHECKS = ("digest chain", "versions", "records", "fold", "open effects", "leases")
"""What is looked at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that was found. `position` is the event's version in its stream."""

    check: str
    stream: str
    what: str
    position: int | None = None
    type_name: str | None = None
    is_damage: bool = True


@dataclass(slots=True)
class Examination:
    """What was looked at and found."""

    streams: int = 0
    events: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def is_healthy(self) -> bool:
        """Tell whether there is no damage."""
        return not any(finding.is_damage for finding in self.findings)


async def examine(store: SqliteEventStore) -> Examination:
    """Look at every stream and every lease. Raises `StoreError` only when the store cannot be listed."""
    seen = Examination()
    open_streams: set[str] = set()
    for stream in await store.all_streams():
        seen.streams += 1
        try:
            records = await _examine_records(store, stream, seen)
            state = None
            if records is not None and await _examine_past(store, stream, records, seen):
                state = _folded(stream, await load_history(store, session_of(stream)), seen)
            if state is not None and state.is_open:
                open_streams.add(stream)
                await _examine_open(store, stream, state, seen)
        except StoreError as error:
            seen.findings.append(Finding(check="records", stream=stream, what=str(error)))
    await _examine_leases(store, open_streams, seen)
    return seen


async def _examine_records(
    store: SqliteEventStore, stream: str, seen: Examination
) -> Sequence[Recorded[AgentEvent]] | None:
    """Return the records of the stream; nothing when one of them cannot be read."""
    if (fault := await store.verify(stream)) is not None:
        what = f"commit {fault.commit_id}: {fault.why}"
        seen.findings.append(Finding(check="digest chain", stream=stream, position=fault.version, what=what))
    newest, after, is_readable = await store.version(stream), 0, True
    seen.events += newest
    records: Sequence[Recorded[Event]] = ()
    while after < newest:
        try:
            records = (await store.read(stream, after=after)).records
            break
        except CorruptRecord as error:
            is_readable, after = False, error.version
            seen.findings.append(
                Finding(
                    check="records", stream=stream, position=error.version, type_name=error.type_name, what=error.why
                )
            )
    if not is_readable:
        return None
    _examine_versions(stream, records, seen)
    return agent_records(records)


async def _examine_past(
    store: SqliteEventStore, stream: str, records: Sequence[Recorded[AgentEvent]], seen: Examination
) -> bool:
    """Tell whether the past of a fork is the one that it was forked from; what is no fork has none."""
    forked = records[0].event if records else None
    if not isinstance(forked, SessionForked):
        return True
    past = stream_of(SessionId(forked.source))
    there = await store.version(past)
    digest = await store.digest(past, forked.version) if there >= forked.version else b""
    if digest and digest.hex() == forked.digest:
        return True
    at = f"event {forked.version} of {past}"
    what = f"it goes on from {at}, which is not there" if not digest else f"it goes on from {at}, which has changed"
    seen.findings.append(Finding(check="forks", stream=stream, position=1, type_name=forked.TYPE, what=what))
    return False


def _examine_versions(stream: str, records: Sequence[Recorded[Event]], seen: Examination) -> None:
    expected = 1
    for record in records:
        if record.version != expected:
            what = f"event {expected} is missing: {record.version} stands in its place"
            seen.findings.append(Finding(check="versions", stream=stream, position=expected, what=what))
        expected = record.version + 1


def _folded(stream: str, records: Sequence[Recorded[AgentEvent]], seen: Examination) -> AgentState | None:
    if not stream.startswith(STREAM_PREFIX):
        return None
    session, at = session_of(stream), 0

    def watched() -> Iterator[Recorded[AgentEvent]]:
        nonlocal at
        for record in records:
            at = record.version
            yield record

    try:
        return project_agent_state(session, watched())
    except Exception as error:
        what = f"it cannot be folded: {type(error).__name__}: {error}"
        kind = next((record.event.TYPE for record in records if record.version == at), None)
        seen.findings.append(Finding(check="fold", stream=stream, position=at, type_name=kind, what=what))
        return None


async def _examine_open(store: SqliteEventStore, stream: str, state: AgentState, seen: Examination) -> None:
    # What is paused, or waits for a person, needs no process.
    if state.status is not ExecutionStatus.IN_PROGRESS or await store.is_leased(stream) is not False:
        return
    doubts = [
        f"{call.name} ({call.effect_id}) was started and has not ended"
        for call in state.tool_executions
        if call.status is CallStatus.RUNNING
    ]
    if state.phase is Phase.INFERRING:
        doubts.append(f"the model call of step {state.open_step} was started and has not ended")
    for doubt in doubts or [f"it is in {state.phase.value}"]:
        what = f"{doubt}, and no process runs the session: `steptrail resume` goes on"
        finding = Finding(check="open effects", stream=stream, position=state.version, what=what, is_damage=False)
        seen.findings.append(finding)


async def _examine_leases(store: SqliteEventStore, open_streams: set[str], seen: Examination) -> None:
    leases = await store.leases()
    if leases is None:
        what = "the leases beside the store cannot be read"
        seen.findings.append(Finding(check="leases", stream="", what=what, is_damage=False))
        return
    for lease in leases:
        stream, owner = lease.stream or "", lease.owner or "an unknown process"
        if not lease.is_live:
            what = f"left behind by {owner}, which has died: the next run removes it"
        elif stream not in open_streams:
            what = f"held by {owner} on a session that has nothing open"
        else:
            continue
        seen.findings.append(Finding(check="leases", stream=stream, what=what, is_damage=False))
