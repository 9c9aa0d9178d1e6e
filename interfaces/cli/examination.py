"""Is the store sound? Every stream is read whole, a page at a time.

A fault in one stream proves no fault in the others.
"""

from collections.abc import Sequence

from steptrail.domain.errors import (
    CorruptRecord,
    MissingRecord,
    SessionErased,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from steptrail.domain.kernel.by_prefix import prefix_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.machine import FoldedState
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.index import as_listed
from steptrail.interfaces.cli.findings import Examination, Finding
from steptrail.interfaces.cli.refolding import Refolding
from steptrail.runtime.kernel.history import pages
from steptrail.runtime.kernel.kinds import KINDS, Kind
from steptrail.runtime.kernel.lists import is_abandoned

_PAGE, _PAGE_OF_DAMAGE = 1_000, 20


async def examine(store: RecorderEventStore) -> Examination:
    """Look at every stream, and at what lies beside them. Raises `StoreUnavailable` where nobody can look."""
    seen = Examination()
    streams = await store.all_streams()
    open_streams: set[str] = set()
    for stream in streams:
        try:
            if await store.erasure(stream) is not None:
                if (fault := await store.verify(stream)) is not None:
                    seen.add(Finding("erasures", stream, f"what is left of it: {fault.why}", position=fault.version))
                continue
            seen.streams += 1
            kind = KINDS.of(stream)
            listed = await store.index(IndexQuery(streams=[stream]))
            state = await _examine_stream(store, stream, kind, seen)
            if kind is not None and state is not None:
                await _examine_row(store, stream, kind.machine.control.summary(state), listed, seen)
            if kind is not None and state is not None and kind.machine.control.standing(state).is_open:
                open_streams.add(stream)
                await _examine_open(store, stream, kind, state, seen)
        except SessionErased:  # since it was looked at
            continue
        except StoreError as error:
            if isinstance(error, StoreUnavailable) and not isinstance(error, StoreDamaged):
                raise  # a right that is missing, or a server that is away: nothing was seen of the session
            seen.add(Finding("records", stream, str(error)))
    await _examine_leases(store, set(streams), open_streams, seen)
    await _examine_orphans(store, set(streams), seen)
    return seen


async def _examine_stream(
    store: RecorderEventStore, stream: str, kind: Kind | None, seen: Examination
) -> FoldedState | None:
    """Return the state of a stream; None when it cannot be read or folded, or is of no kind that is known here."""
    if (fault := await store.verify(stream)) is not None:
        seen.add(Finding("digest chain", stream, f"commit {fault.commit_id}: {fault.why}", position=fault.version))

    def unused(why: str) -> None:
        seen.add(Finding("snapshots", stream, f"the snapshot is not used: {why}: delete it"))

    snapshot = None if kind is None else await store.snapshot(stream, on_damage=unused)
    refolding = Refolding(None if kind is None else kind.machine, stream, snapshot, seen)
    after, newest = 0, await store.version(stream)
    seen.events += newest
    if not newest:
        seen.add(Finding("records", stream, "its events cannot be looked up by its id"))
    while after < newest:
        try:
            # Where one record cannot be read, more cannot, and each makes its page be read again.
            limit = _PAGE_OF_DAMAGE if kind is not None and refolding.state is None else _PAGE
            records = (await store.read(stream, after=after, limit=limit)).records
        except CorruptRecord as error:
            seen.add_unreadable(error)
            refolding.give_up()
            after = (
                max(error.found, error.version) - 1
                if isinstance(error, MissingRecord)
                else max(error.version, after + 1)
            )
        else:
            if not records:
                what = f"the events after {after} cannot be found, up to {newest} should be there"
                seen.add(Finding("records", stream, what))
                refolding.give_up()
                break
            if kind is not None and after == 0:
                await _examine_past(store, stream, kind, records[0].event, refolding, seen)
            refolding.go_on(records)
            after = records[-1].version
    return refolding.state


async def _examine_past(
    store: RecorderEventStore, stream: str, kind: Kind, first: Event, refolding: Refolding, seen: Examination
) -> None:
    """Fold the past that a fork goes on from, if it is still the one that it was forked from."""
    past = kind.machine.forked_from(first)
    if past is None:
        return
    digest = await store.digest(past.stream, past.version) if await store.version(past.stream) >= past.version else b""
    if digest and digest.hex() == past.digest:
        async for records, _ in pages(kind.machine, store, past.stream, at=past.version):
            refolding.fold(records)
        return
    if await store.erasure(stream) is not None:
        return  # with its past, since it was looked at
    ending = "has changed" if digest else "is not there"
    what = f"it goes on from event {past.version} of {past.stream}, which {ending}"
    seen.add(Finding("forks", stream, what, position=1, type_name=first.TYPE))
    refolding.give_up()


async def _examine_open(
    store: RecorderEventStore, stream: str, kind: Kind, state: FoldedState, seen: Examination
) -> None:
    # What is paused, or waits for a person, has nothing in flight and needs no process.
    doubts = kind.in_flight(state)
    if not doubts or not await is_abandoned(store, stream, state.version):
        return
    for doubt in doubts:
        what = f"{doubt}, and no process runs the session: `steptrail resume` goes on"
        seen.add(Finding("open effects", stream, what, position=state.version, is_damage=False))


async def _examine_row(
    store: RecorderEventStore, stream: str, row: RunSummary, listed: Sequence[RunSummary], seen: Examination
) -> None:
    """Compare the row of a stream in the index, as it was before the stream was read, with what the events say."""
    wrong = listed[0].differences(as_listed(row)) if listed else []
    is_right = not wrong if listed else row.standing is StandingState.ABSENT
    # Somebody may have appended meanwhile: then the row has been written anew.
    if is_right or listed != await store.index(IndexQuery(streams=[stream])):
        return
    seen.unlisted.append(row)
    said = f"show another {', '.join(wrong)} of it than its events say" if listed else "do not show it"
    seen.add(Finding("index", stream, f"lists {said}: `steptrail doctor --reindex`", position=row.version))


async def _examine_leases(
    store: RecorderEventStore, streams: set[str], open_streams: set[str], seen: Examination
) -> None:
    leases = await store.leases()
    if leases is None:
        seen.add(Finding("leases", "", "the leases beside the store cannot be read", is_damage=False))
        return
    for lease in leases:
        stream, owner = lease.stream or "", lease.owner or "an unknown process"
        if not lease.is_live:
            what = f"left behind by {owner}, which has died: the next run removes it"
        elif stream not in streams and prefix_of(stream) not in KINDS:
            continue  # of what counts a read model, follows the log or sweeps: it is held on no session
        elif stream not in streams:
            what = f"held by {owner} on a session that is not there: it is about to begin, or its events are lost"
        elif stream not in open_streams:
            what = f"held by {owner} on a session that has nothing open"
        else:
            continue
        seen.add(Finding("leases", stream, what, is_damage=False))


async def _examine_orphans(store: RecorderEventStore, streams: set[str], seen: Examination) -> None:
    for stream, version in await store.strays():
        seen.add(Finding("digest chain", stream, f"event {version} belongs to no commit", position=version))
    for stream in await store.streams_with_snapshots():
        if stream not in streams:
            what = "a snapshot of a session that is not there: it may be deleted"
            seen.add(Finding("snapshots", stream, what, is_damage=False))
    for fault in await store.blob_faults():
        seen.add(Finding("blobs", "", f"blob {fault.digest}: {fault.why}", is_damage=fault.is_damage))
