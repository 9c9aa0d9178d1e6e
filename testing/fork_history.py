"""The past of a recorded fork, put into a store as it was, for the fork to go on from."""

from collections.abc import Sequence
from itertools import groupby

from msgspec import structs

from steptrail.domain.agent.events import AgentEvent, SessionForked
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded
from steptrail.interfaces.python.recording import Recording
from steptrail.runtime.kernel.ports import EventStore

_UNKNOWN = CommitHead(commit_id="past", actor="replay")


async def store_past(store: EventStore, recording: Recording) -> None:
    """Store the sessions that a fork was forked from, up to where it was. A session that is no fork has no past."""
    own: list[Recorded[AgentEvent]] = []
    for record in recording.records:
        if isinstance(fork := record.event, SessionForked) and own:
            digest = await _append(store, fork.source, own)
            own, record = [], structs.replace(record, event=structs.replace(fork, digest=digest))
        own.append(record)


async def _append(store: EventStore, session: str, records: Sequence[Recorded[AgentEvent]]) -> str:
    """Return the digest of what is stored. Of the commit in which a fork leaves, a recording has the first events."""
    head, stream = EMPTY_STREAM, stream_of(checked_session_id(session))
    for commit, together in groupby(records, key=lambda record: record.head or _UNKNOWN):
        events = tuple((record.at, record.event) for record in together)
        head = await store.append(stream, head, Commit(commit, events))
    return head.digest.hex()
