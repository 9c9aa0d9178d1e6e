"""A snapshot is never anything but a shorter way to the same state."""

import msgspec
from hypothesis import given, strategies as st

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.snapshot import FORMAT, SNAPSHOTS
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Snapshot
from steptrail.domain.messages import Message
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import packed
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(25)


@some
@given(lives())
def test_a_state_that_is_written_and_read_back_is_the_same_and_goes_on_to_the_same(life: Life) -> None:
    whole = evolve_all(initial(SESSION), life.committed)
    state = initial(SESSION)
    for cut, record in enumerate(life.committed, 1):
        state = evolve_all(state, [record])
        read = SNAPSHOTS.load(SNAPSHOTS.dump(state))
        # A request's digest is made of them, and must not tell who folded the events from who read a snapshot.
        assert [*read.fold.messages.encoded(0, _json)] == [_json(message) for message in state.messages]
        assert read == state
        assert read.as_of == state.as_of
        assert evolve_all(SNAPSHOTS.load(SNAPSHOTS.dump(state)), life.committed[cut:]) == whole


@some
@given(lives(), st.data())
async def test_a_fold_by_way_of_any_snapshot_is_the_fold_of_the_whole(life: Life, data: st.DataObject) -> None:
    await through_the_store(life, at=data.draw(st.integers(0, len(life.committed))))


def _json(message: Message) -> bytes:
    return msgspec.json.encode(message)


async def through_the_store(life: Life, at: int) -> None:
    store, stream = open_store("sqlite:///:memory:"), stream_of(checked_session_id(SESSION))
    head, state = EMPTY_STREAM, initial(SESSION)
    snapshots: list[Snapshot] = []
    heads = [head]
    for record in life.committed:
        commit = Commit(CommitHead(commit_id=f"c{record.version}", actor="me"), ((record.at, record.event),))
        head = await store.append(stream, head, commit)
        heads.append(head)
        state = evolve_all(state, [record])
        snapshots.append(Snapshot(head, FORMAT, packed(SNAPSHOTS.dump(state))))
    before = evolve_all(initial(SESSION), life.committed[:at])
    for snapshot in snapshots:
        await store.keep_snapshot(stream, snapshot)
        assert await fold_stream(AGENT, store, stream) == (state, head)
        assert await fold_stream(AGENT, store, stream, at=at) == (before, heads[at])
    await store.close()
