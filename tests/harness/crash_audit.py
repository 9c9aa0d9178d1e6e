"""What a crash may not do, counted: the log of a killed run, held against its ledger and an undisturbed run."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    InferenceStarted,
    ToolCallDeferred,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.messages import FilePart, Message
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.request import recorded_requests
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.crash import LedgerEntry, repeated
from steptrail.testing.normalise import normalise
from tests.harness.crash_workload import Ending, Variant, Workload, perform
from tests.harness.store_urls import opened
from tests.harness.stored_events import stored_events

_LOOK_SECONDS = 0.01
_LONGEST_LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Log:
    """A session as a process reads it that had no part in it.

    `is_whole`: no gap, every digest verifies, the index says of the standing what the events say, and the store has the
    files that its messages name.
    """

    records: Sequence[Recorded[AgentEvent]]
    messages: Sequence[Message]
    metadata: dict[str, object]
    is_whole: bool


class Whole(NamedTuple):
    """A run that nobody killed."""

    workload: Workload
    log: Log
    ending: Ending


@dataclass(frozen=True, slots=True)
class Finding:
    """What one run that was killed and resumed shows; the first four are zero unless a promise is broken.

    `events_lost`: events that a process was told are stored, or that were there after the kill, and are gone or
    changed. `tools_repeated`: tool calls that ran again after the log knew their end, and external ones that were asked
    for again. `keyed_without_id`: effects of
    `keyed` tools under an id that the log does not know. `unsafe_repeated`: `unsafe` effects that happened twice.
    `same_outcome`: it ended as the undisturbed run did, and unless an unsafe call stayed unknown, its log is the same
    but for what `normalise` takes away.
    """

    events_lost: int
    tools_repeated: int
    keyed_without_id: int
    unsafe_repeated: int
    log_is_whole: bool
    same_outcome: bool

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        harm = self.events_lost + self.tools_repeated + self.keyed_without_id + self.unsafe_repeated
        return not harm and self.log_is_whole and self.same_outcome


async def undisturbed(url: str, folder: Path, variant: Variant, reach: Reach = no_faults) -> Whole:
    """Run a workload in this process, and kill nobody."""
    workload = Workload.new(url, folder, variant)
    ending = await perform(workload, reach)
    return Whole(workload, await read_log(url, workload.session), ending)


async def read_log(url: str, session: str) -> Log:
    """Read a session as soon as nobody holds it; one that is not there is empty.

    What a killed process held is free at once where the kernel frees it, else when its lease has run out. Raises
    `TimeoutError` when somebody holds it for ever.
    """
    store = opened(url)
    stream = stream_of(checked_session_id(session))
    async with Steptrail(Environment(store=store)) as trail:
        async with asyncio.timeout(_LONGEST_LEASE_SECONDS):
            while await store.is_leased(stream):
                await asyncio.sleep(_LOOK_SECONDS)
        fault = await store.verify(stream)
        records = await stored_events(trail.session(session))
        state = await trail.session(session).state(at=len(records))
        listed = await store.index(IndexQuery(streams=[stream]))
        has_files = all([await _has(store, part) for message in state.messages for part in message.files])
    row = AGENT.control.summary(state)
    is_listed = not listed[0].differences(row) if listed else row.standing is StandingState.ABSENT
    versions = [record.version for record in records]
    is_whole = fault is None and is_listed and has_files and versions == list(range(1, len(records) + 1))
    return Log(records, list(state.messages), dict(state.metadata), is_whole)


async def _has(store: EventStore, part: FilePart) -> bool:
    return sha256(await store.file(part.digest) or b"").hexdigest() == part.digest


async def faults_of_blobs(url: str) -> Sequence[object]:
    """Return the bodies and files of a store that are damaged, or that no event names."""
    store = opened(url)
    async with Steptrail(Environment(store=store)):
        return await store.blob_faults()


def audit(workload: Workload, killed: Sequence[Log], after: Log, ending: Ending, whole: Whole) -> Finding:
    """Judge a run by its log after each kill and at its end, its ledger, and the run `whole` that nobody killed."""
    entries = workload.ledger.entries()
    done = Counter(entry.effect for entry in entries if entry.what == "done")
    effects = {record.event.effect_id for record in after.records if isinstance(record.event, ToolExecutionStarted)}
    is_keyed, is_unsafe = (workload.variant.effect is effect for effect in (ToolEffect.KEYED, ToolEffect.UNSAFE))
    again, asked = repeated(entries, after.records), Counter[str]()
    asked.update(record.event.effect_id for record in after.records if isinstance(record.event, ToolCallDeferred))
    return Finding(
        events_lost=lost([log.records for log in killed], after.records) + untrue(entries, after.records),
        # A person may have a parked call run again: that is a second start, and it is theirs.
        tools_repeated=len(again) + asked.total() - len(asked),
        keyed_without_id=sum(times for effect, times in done.items() if effect not in effects) if is_keyed else 0,
        unsafe_repeated=repeats(entries, workload.variant.on_unknown) if is_unsafe else 0,
        log_is_whole=after.is_whole,
        same_outcome=_is_same(workload, after, ending, whole),
    )


def lost(killed: Sequence[Sequence[Recorded[Any]]], after: Sequence[Recorded[Any]]) -> int:
    """Count the records that stood in the log after a kill, and are gone or changed."""
    return sum(record not in after[i : i + 1] for records in killed for i, record in enumerate(records))


def untrue(entries: Sequence[LedgerEntry], after: Sequence[Recorded[Any]]) -> int:
    """Count the commits that a process was told are stored, and that are not there."""
    there = {f"{record.version} {record.event.TYPE}" for record in after}
    return sum(entry.what == "stored" and entry.effect not in there for entry in entries)


def repeats(entries: Sequence[LedgerEntry], on_unknown: OnUnknown) -> int:
    """Count what happened twice of effects that may not."""
    # Who waits for a person has a call begin once more when that person knows that it did nothing.
    counted = {"done"} if on_unknown is OnUnknown.PARK else {"begun", "done"}
    times = Counter((entry.what, entry.effect) for entry in entries if entry.what in counted)
    return sum(count - 1 for count in times.values())


def _is_same(workload: Workload, after: Log, ending: Ending, whole: Whole) -> bool:
    expected = whole.log
    if ending != whole.ending:
        return False
    has_the_same_messages = _messages(workload, after) == _messages(whole.workload, expected)
    if workload.variant.effect is ToolEffect.UNSAFE and any(
        isinstance(record.event, ToolExecutionInterrupted) for record in after.records
    ):
        return workload.variant.on_unknown is not OnUnknown.PARK or has_the_same_messages
    same = has_the_same_messages and after.metadata == expected.metadata
    return same and _events(workload, after) == _events(whole.workload, expected)


def _messages(workload: Workload, log: Log) -> str:
    return workload.nameless(msgspec.json.encode(log.messages).decode())


def _events(workload: Workload, log: Log) -> list[str]:
    """Return what stays of the events, with the names of the session taken out.

    A request holds the digests of files, and so each session has other requests. They have to be what the log makes.
    """
    built = {digest for _, _, digest in recorded_requests(workload.session, log.records)}
    texts = list[str]()
    for event in normalise(record.event for record in log.records):
        if isinstance(event, InferenceStarted) and event.request_digest in built:
            event = structs.replace(event, request_digest="")
        texts.append(workload.nameless(f"{event.TYPE} {msgspec.json.encode(event).decode()}"))
    return texts
