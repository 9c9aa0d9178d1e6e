"""Is the store sound? Every stream is read whole; what is wrong with one says nothing about the others.

Damage is what must not be. What needs somebody's attention, such as a run that no process runs any more, is no damage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.errors import CorruptRecord, StoreError
from steptrail.domain.event import Event
from steptrail.domain.record import Recorded
from steptrail.infrastructure.store.event_store import RecorderEventStore
from steptrail.projections.agent_state import project_agent_state
from steptrail.runtime.agent_journal import agent_records

__all__ = ["CHECKS", "Examination", "Finding", "examine"]

CHECKS = ("digest chain", "versions", "records", "fold", "open effects", "leases")
"""What is looked at, in this order."""

_AGENT = "agent:"


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


async def examine(store: RecorderEventStore) -> Examination:
    """Look at every stream and every lease. Raises `StoreError` only when the store cannot be listed."""
    seen = Examination()
    open_streams: set[str] = set()
    for stream in await store.all_streams():
        seen.streams += 1
        try:
            records = await _examine_records(store, stream, seen)
            state = _folded(stream, records, seen) if records is not None else None
            if state is not None and state.is_open:
                open_streams.add(stream)
                await _examine_open(store, stream, state, seen)
        except StoreError as error:
            seen.findings.append(Finding(check="records", stream=stream, what=str(error)))
    await _examine_leases(store, open_streams, seen)
    return seen


async def _examine_records(
    store: RecorderEventStore, stream: str, seen: Examination
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


def _examine_versions(stream: str, records: Sequence[Recorded[Event]], seen: Examination) -> None:
    expected = 1
    for record in records:
        if record.version != expected:
            what = f"event {expected} is missing: {record.version} stands in its place"
            seen.findings.append(Finding(check="versions", stream=stream, position=expected, what=what))
        expected = record.version + 1


def _folded(stream: str, records: Sequence[Recorded[AgentEvent]], seen: Examination) -> AgentState | None:
    if not stream.startswith(_AGENT):
        return None
    session, at = stream.removeprefix(_AGENT), 0

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


async def _examine_open(store: RecorderEventStore, stream: str, state: AgentState, seen: Examination) -> None:
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


async def _examine_leases(store: RecorderEventStore, open_streams: set[str], seen: Examination) -> None:
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
