"""The contract of the index of a store, as a pytest class: one row for each stream, written with the commits."""

import pytest
from msgspec import structs

from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.index_query import DUE_FIRST, IndexQuery
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, StreamHead
from steptrail.domain.kernel.standing import StandingState, Wait
from steptrail.domain.prices import Cost, Usd
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import AT, Noted, commit_of, on_a_store

_WORKING = RunSummary(
    kind="agent",
    session_id="a",
    name="desk",
    status=ExecutionStatus.IN_PROGRESS,
    standing=StandingState.WORKING,
    executions=1,
    started_at=AT,
    updated_at=AT,
    version=1,
)
_ASKING = structs.replace(
    _WORKING,
    status=ExecutionStatus.WAITING,
    standing=StandingState.RESTING,
    due_at=AT + 60,
    waits=(
        Wait(id="a:1:1:0", kind="approval", since=AT, asked_at_version=2, due_at=AT + 60),
        Wait(id="a:1:1:1", kind="child", since=AT, asked_at_version=2, answered_at=AT + 1, on="agent:below"),
    ),
    steps=3,
    active_seconds=1.25,
    cost=Cost(usd=Usd("0.0125"), unpriced=("m",)),
    version=2,
)
_DONE = structs.replace(
    _WORKING,
    status=ExecutionStatus.COMPLETED,
    standing=StandingState.DONE,
    stop_reason="completed",
    resolved_by="Steps",
    answered=True,
    recorded_errors=2,
    version=2,
)


_BELOW = ("never", "later", "paused", "due", "done", "working", "nobody", "on-due", "on-never", "ahead")


async def _put(store: EventStore, row: RunSummary, *, after: StreamHead = EMPTY_STREAM) -> StreamHead:
    commit = commit_of(f"c-{row.session_id}-{row.version}", Noted())
    return await store.append(row.stream, after, Commit(commit.head, commit.events, row))


async def _ids(store: EventStore, asked: IndexQuery) -> list[str]:
    return [row.session_id for row in await store.index(asked)]


def _named(session_id: str, row: RunSummary = _WORKING) -> RunSummary:
    return structs.replace(row, session_id=session_id)


def _on(session_id: str) -> Wait:
    return Wait(id=f"w-{session_id}", kind="child", since=AT, asked_at_version=2, on=f"agent:{session_id}")


class IndexContract:
    """The questions of lists to a store."""

    @on_a_store
    async def test_the_row_that_came_with_a_commit_replaces_the_one_before(self, store: EventStore) -> None:
        head = await _put(store, _WORKING)
        assert list(await store.index(IndexQuery())) == [_WORKING]
        head = await _put(store, _ASKING, after=head)
        assert list(await store.index(IndexQuery())) == [_ASKING]
        done = structs.replace(_DONE, version=3)
        await _put(store, done, after=head)
        assert list(await store.index(IndexQuery())) == [done]

    @on_a_store
    async def test_a_commit_without_a_row_leaves_it_as_it_is(self, store: EventStore) -> None:
        await store.append("agent:other", EMPTY_STREAM, commit_of("c0", Noted()))
        head = await _put(store, _WORKING)
        await store.append("agent:a", head, commit_of("c2", Noted()))
        assert list(await store.index(IndexQuery())) == [_WORKING]

    @on_a_store
    async def test_a_commit_that_conflicts_leaves_no_row_and_one_that_is_sent_again_changes_none(
        self, store: EventStore
    ) -> None:
        head = await _put(store, _WORKING)
        with pytest.raises(ConcurrencyConflict):
            await _put(store, structs.replace(_DONE, version=9))
        assert list(await store.index(IndexQuery())) == [_WORKING]
        await _put(store, _ASKING, after=head)
        await _put(store, _WORKING)  # its reply was lost
        assert list(await store.index(IndexQuery())) == [_ASKING]

    @on_a_store
    async def test_pages_go_from_the_stream_that_began_last_to_the_first(self, store: EventStore) -> None:
        for number in range(7):
            head = await _put(store, _named(str(number)))
            if number == 3:
                await _put(store, structs.replace(_named("3", _DONE), version=2), after=head)
        assert await _ids(store, IndexQuery(limit=3)) == ["6", "5", "4"]
        assert await _ids(store, IndexQuery(limit=3, after="agent:4")) == ["3", "2", "1"]
        assert (await store.count(IndexQuery(limit=3)), await store.count(IndexQuery(after="agent:4"))) == (7, 4)
        assert await _ids(store, IndexQuery(limit=3, after="agent:0")) == []
        assert await _ids(store, IndexQuery(limit=3, after="agent:nobody")) == []

    @on_a_store
    async def test_a_query_leaves_out_what_it_does_not_ask_for(self, store: EventStore) -> None:
        parent = ParentRef(kind="agent", session="done", execution="done:1", effect="done:1:1:0", call="c")
        rows = [
            _named("working"),
            _named("asking", _ASKING),
            _named("done", _DONE),
            structs.replace(_named("below"), name="other", tenant="acme", parent=parent, started_at=AT + 7),
        ]
        for row in rows:
            await _put(store, row)
        for asked, found in (
            (IndexQuery(), ["below", "done", "asking", "working"]),
            (IndexQuery(ended_before=AT + 1), ["done"]),
            (IndexQuery(ended_before=AT), []),
            (IndexQuery(forked_from=["agent:done"]), []),
            (IndexQuery(erased=True), []),
            (IndexQuery(status="in_progress"), ["below", "working"]),
            (IndexQuery(status="in_progress", name="desk"), ["working"]),
            (IndexQuery(stop_reason="completed"), ["done"]),
            (IndexQuery(waits_for=["retry", "approval"]), ["asking"]),
            (IndexQuery(waits_for=["child"]), []),
            (IndexQuery(waits_for=["approval"], waits_at=AT + 59), ["asking"]),
            (IndexQuery(waits_for=["approval"], waits_at=AT + 60), []),
            (IndexQuery(streams=["agent:done", "agent:nobody", "agent:asking"]), ["done", "asking"]),
            (IndexQuery(streams=[]), []),
            (IndexQuery(standing="resting"), ["asking"]),
            (IndexQuery(since=AT + 7), ["below"]),
            (IndexQuery(since=AT, until=AT + 7, status="in_progress"), ["working"]),
            (IndexQuery(until=AT), []),
            (IndexQuery(parents=["agent:done"]), ["below"]),
            (IndexQuery(tenant="acme"), ["below"]),
            (IndexQuery(name="'; DROP TABLE streams; --"), []),
        ):
            assert await _ids(store, asked) == found, asked
            assert await store.count(asked) == len(found), asked
        assert (await store.index(IndexQuery(parents=["agent:done"])))[0].parent == parent
        await _put(store, structs.replace(_named("fork"), fork_of="agent:done"))
        assert await _ids(store, IndexQuery(forked_from=["agent:done", "agent:nobody"])) == ["fork"]

    @on_a_store
    async def test_what_is_due_is_due_by_itself_or_has_lost_its_owner_or_waits_for_a_stream_that_has_moved(
        self, store: EventStore
    ) -> None:
        resting = structs.replace(_ASKING, due_at=None, waits=())
        for row in (
            _named("due", structs.replace(resting, due_at=AT + 60)),
            _named("later", structs.replace(resting, due_at=AT + 61)),
            _named("ahead", structs.replace(resting, due_at=AT + 62, updated_at=AT + 62)),
            _named("never", resting),
            _named("done", _DONE),
            _named("working"),
            _named("owned"),
            _named("paused", structs.replace(resting, standing=StandingState.PAUSED)),
            *(_named(f"on-{below}", structs.replace(resting, waits=(_on(below),))) for below in _BELOW),
            _named("on-both", structs.replace(resting, waits=(_on("never"), _on("done")))),
            _named("paused-on-done", structs.replace(resting, standing=StandingState.PAUSED, waits=(_on("done"),))),
            _named("on-itself", structs.replace(resting, waits=(_on("on-itself"),))),
        ):
            await _put(store, row)
        unowned = ["agent:owned"]
        moved = ["on-both", "on-ahead", "on-on-due", "on-nobody", "on-working", "on-done", "on-due"]
        assert await _ids(store, IndexQuery(due_by=AT + 60)) == ["due"]
        assert await _ids(store, IndexQuery(unless_leased=unowned)) == ["working"]
        assert await _ids(store, IndexQuery(unless_leased=[])) == ["owned", "working"]
        assert await _ids(store, IndexQuery(moved_by=AT + 60)) == [*moved, "ahead"]
        every = IndexQuery(due_by=AT + 60, unless_leased=unowned, moved_by=AT + 60)
        assert await _ids(store, every) == [*moved, "working", "ahead", "due"]
        assert await store.count(every) == len(moved) + 3
        assert await _ids(store, structs.replace(every, limit=2, after="agent:on-nobody")) == [
            "on-working",
            "on-done",
        ]

    @on_a_store
    async def test_what_is_due_first_comes_first_page_by_page_without_what_others_began(
        self, store: EventStore
    ) -> None:
        parent = ParentRef(kind="agent", session="s0", execution="s0:1", effect="s0:1:1:0", call="c")
        for number, due in enumerate((50, 20, 20, None, 61, 20, 10)):
            row = _named(f"s{number}", structs.replace(_ASKING, due_at=due, waits=()))
            await _put(store, row if number != 5 else structs.replace(row, parent=parent))
        asked, found = IndexQuery(due_by=60, due_after=DUE_FIRST, roots=True, limit=2), list[str]()
        while (rows := await store.index(asked)) and len(found) <= 4:
            found += [row.session_id for row in rows]
            asked = structs.replace(asked, due_after=(rows[-1].due_at or 0, rows[-1].stream))
        assert found == ["s6", "s1", "s2", "s0"]

    @on_a_store
    async def test_what_is_open_below_a_stream_that_has_ended_was_left_behind(self, store: EventStore) -> None:
        await _put(store, _named("done", _DONE))
        await _put(store, _named("working"))
        paused = structs.replace(_ASKING, standing=StandingState.PAUSED)
        for name, row in (("asks", _ASKING), ("paused", paused), ("ended", _DONE)):
            for above in ("done", "working", "nobody"):
                parent = ParentRef(kind="agent", session=above, execution="1", effect="1:1:0")
                await _put(store, structs.replace(_named(f"{name}-{above}", row), parent=parent))
        assert await _ids(store, IndexQuery(left_behind=True)) == ["paused-done", "asks-done"]

    @on_a_store
    async def test_any_number_of_streams_can_be_asked_for(self, store: EventStore) -> None:
        above = ParentRef(kind="agent", session="a", execution="1", effect="1:1:0")
        await _put(store, _WORKING)
        await _put(store, structs.replace(_named("below"), parent=above))
        many = ["agent:a", *(f"agent:{number}" for number in range(70_000))]
        assert await _ids(store, IndexQuery(streams=many)) == ["a"]
        assert await _ids(store, IndexQuery(parents=many)) == ["below"]
        assert await _ids(store, IndexQuery(forked_from=many)) == []

    @on_a_store
    async def test_names_that_people_give_are_stored_whatever_is_in_them(self, store: EventStore) -> None:
        for number, name in enumerate(("\"\\'; --", "a\0b", "\U0001f514" * 9, "", "x" * 100_000)):
            await _put(store, structs.replace(_named(str(number)), name=name))
        names = [row.name for row in await store.index(IndexQuery())]
        assert names == ["x" * 500, "", "\U0001f514" * 9, "a\ufffdb", "\"\\'; --"]

    @on_a_store
    async def test_streams_whose_lease_is_held_are_named(self, store: EventStore) -> None:
        assert await store.leased() == frozenset()
        lease = await store.acquire("agent:a", owner="w")
        assert await store.leased() == frozenset({"agent:a"})
        await lease.release()
        assert await store.leased() == frozenset()
