"""Is the store sound? Every stream is read whole, a page at a time.

What is wrong with one says nothing about the others.
"""

from steptrail.domain.agent.events import AgentEvent, SessionForked
from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.errors import CorruptRecord, MissingRecord, RecordTooNew, StoreError
from steptrail.domain.kernel.record import Snapshot
from steptrail.interfaces.cli.findings import Examination, ExaminedStore
from steptrail.interfaces.cli.refolding import Refolding
from steptrail.runtime.agent.agent_journal import agent_records
from steptrail.runtime.kernel.history import pages
from steptrail.runtime.kernel.left_alone import is_left_alone

__all__ = ["examine"]

_PAGE, _PAGE_OF_DAMAGE = 1_000, 20


async def examine(store: ExaminedStore) -> Examination:
    """Look at every stream, and at what lies beside them. Raises `StoreError` only when the store cannot be listed."""
    seen = Examination()
    streams = await store.all_streams()
    open_streams: set[str] = set()
    for stream in streams:
        seen.streams += 1
        try:
            state = await _examine_stream(store, stream, seen)
            if state is not None and state.is_open:
                open_streams.add(stream)
                await _examine_open(store, stream, state, seen)
        except StoreError as error:
            seen.add("records", stream, str(error))
    await _examine_leases(store, set(streams), open_streams, seen)
    await _examine_orphans(store, set(streams), seen)
    return seen


async def _examine_stream(store: ExaminedStore, stream: str, seen: Examination) -> AgentState | None:
    """Return the state of an agent's session; None when it cannot be read or folded."""
    if (fault := await store.verify(stream)) is not None:
        seen.add("digest chain", stream, f"commit {fault.commit_id}: {fault.why}", position=fault.version)
    is_agents = stream.startswith(STREAM_PREFIX)
    refolding = Refolding(stream, await _snapshot(store, stream, seen) if is_agents else None, seen)
    after, newest = 0, await store.version(stream)
    seen.events += newest
    if not newest:
        seen.add("records", stream, "its events cannot be looked up by its id")
    while after < newest:
        try:
            # Where one record cannot be read, more cannot, and each makes its page be read again.
            limit = _PAGE if refolding.state is not None else _PAGE_OF_DAMAGE
            records = (await store.read(stream, after=after, limit=limit)).records
        except CorruptRecord as error:
            _add_unreadable(error, seen)
            refolding.give_up()
            after = error.found - 1 if isinstance(error, MissingRecord) else max(error.version, after + 1)
        else:
            if not records:
                seen.add("records", stream, f"the events after {after} cannot be found, up to {newest} should be there")
                refolding.give_up()
                break
            if is_agents:
                typed = agent_records(records)
                if after == 0:
                    await _examine_past(store, stream, typed[0].event, refolding, seen)
                refolding.go_on(typed)
            after = records[-1].version
    return refolding.state if is_agents else None


async def _examine_past(
    store: ExaminedStore, stream: str, first: AgentEvent, refolding: Refolding, seen: Examination
) -> None:
    """Fold the past that a fork goes on from, if it is still the one that it was forked from."""
    past = AGENT.forked_from(first)
    if past is None or not isinstance(first, SessionForked):
        return
    digest = await store.digest(past.stream, past.version) if await store.version(past.stream) >= past.version else b""
    if digest and digest.hex() == first.digest:
        async for records, _ in pages(AGENT, store, past.stream, at=past.version):
            refolding.has_past(records)
        return
    ending = "has changed" if digest else "is not there"
    what = f"it goes on from event {past.version} of {past.stream}, which {ending}"
    seen.add("forks", stream, what, position=1, type_name=first.TYPE)
    refolding.give_up()


def _add_unreadable(error: CorruptRecord, seen: Examination) -> None:
    if isinstance(error, MissingRecord):
        seen.add("gaps", error.stream, error.why, position=error.version)
    elif isinstance(error, RecordTooNew):
        seen.add(
            "versions", error.stream, error.why, position=error.version, type_name=error.type_name, is_damage=False
        )
    else:
        seen.add("records", error.stream, error.why, position=error.version, type_name=error.type_name)


async def _snapshot(store: ExaminedStore, stream: str, seen: Examination) -> Snapshot | None:
    def add(why: str) -> None:
        seen.add("snapshots", stream, f"the snapshot is not used: {why}: delete it")

    return await store.snapshot(stream, on_damage=add)


async def _examine_open(store: ExaminedStore, stream: str, state: AgentState, seen: Examination) -> None:
    # What is paused, or waits for a person, needs no process.
    if state.status is not ExecutionStatus.IN_PROGRESS or not await is_left_alone(store, stream, state.version):
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
        seen.add("open effects", stream, what, position=state.version, is_damage=False)


async def _examine_leases(store: ExaminedStore, streams: set[str], open_streams: set[str], seen: Examination) -> None:
    leases = await store.leases()
    if leases is None:
        seen.add("leases", "", "the leases beside the store cannot be read", is_damage=False)
        return
    for lease in leases:
        stream, owner = lease.stream or "", lease.owner or "an unknown process"
        if not lease.is_live:
            what = f"left behind by {owner}, which has died: the next run removes it"
        elif stream not in streams:
            what = f"held by {owner} on a session that is not there: it is about to begin, or its events are lost"
        elif stream not in open_streams:
            what = f"held by {owner} on a session that has nothing open"
        else:
            continue
        seen.add("leases", stream, what, is_damage=False)


async def _examine_orphans(store: ExaminedStore, streams: set[str], seen: Examination) -> None:
    for stream in await store.streams_with_snapshots():
        if stream not in streams:
            seen.add(
                "snapshots", stream, "a snapshot of a session that is not there: it may be deleted", is_damage=False
            )
    for fault in await store.blob_faults():
        seen.add("blobs", "", f"blob {fault.digest}: {fault.why}", is_damage=fault.is_damage)
