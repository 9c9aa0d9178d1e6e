"""The same command twice at once: whoever comes second finds what the first one did, whatever that was."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import Commit, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.run import StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore, Lease, StoredStream
from steptrail.testing import ScriptedModel, call

ran: list[str] = []


class ComesSecond:
    """A store on which somebody else does something between our first look and our lease."""

    def __init__(self, store: EventStore, first: Callable[[], Awaitable[object]]) -> None:
        self._store, self._first = store, [first]

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> Lease:
        if self._first:
            await self._first.pop()()
        return await self._store.acquire(stream, owner=owner, take_over=take_over)

    async def digest(self, stream: str, version: int) -> bytes:
        return await self._store.digest(stream, version)

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        return await self._store.append(stream, expected, commit)

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        return await self._store.read(stream, after=after, limit=limit)

    async def proven(
        self, stream: str, upto: StreamHead, types: Mapping[str, bytes]
    ) -> Sequence[Recorded[Event]] | None:
        return await self._store.proven(stream, upto, types)

    async def newest_of(self, stream: str, upto: StreamHead, types: Mapping[str, bytes]) -> Sequence[Recorded[Event]]:
        return await self._store.newest_of(stream, upto, types)

    async def head(self, stream: str) -> StreamHead:
        return await self._store.head(stream)

    async def version(self, stream: str) -> int:
        return await self._store.version(stream)

    async def snapshot(self, stream: str) -> Snapshot | None:
        return await self._store.snapshot(stream)

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        await self._store.keep_snapshot(stream, snapshot)

    async def place(self, follower: str) -> int:
        return await self._store.place(follower)

    async def keep_place(self, follower: str, position: int) -> None:
        await self._store.keep_place(follower, position)

    async def streams(self, prefix: str) -> Sequence[str]:
        return await self._store.streams(prefix)

    def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[tuple[int, str, Recorded[Event]]]:
        return self._store.log(after=after, types=types, stream=stream, limit=limit, on_corrupt=on_corrupt)

    async def last_position(self) -> int:
        return await self._store.last_position()

    async def grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        return await self._store.grown(after)

    async def wait_past(self, position: int, *, timeout: float) -> None:
        await self._store.wait_past(position, timeout=timeout)

    async def is_leased(self, stream: str) -> bool | None:
        return await self._store.is_leased(stream)

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        return await self._store.index(asked)

    async def count(self, asked: IndexQuery) -> int:
        return await self._store.count(asked)

    async def erase(self, streams: Mapping[str, int], *, at: int, by: str, reason: str) -> Sequence[Erasure]:
        return await self._store.erase(streams, at=at, by=by, reason=reason)

    async def erasure(self, stream: str) -> Erasure | None:
        return await self._store.erasure(stream)

    async def scrub(self, *, thoroughly: bool = False) -> str | None:
        return await self._store.scrub(thoroughly=thoroughly)

    async def leased(self) -> frozenset[str] | None:
        return await self._store.leased()

    async def close(self) -> None:
        await self._store.close()


class Died(BaseException):
    pass


def dies_before_the_tool(point: str) -> None:
    if point == "before-tool":
        raise Died


@tool
def charge() -> str:
    """Charge the card; not to be repeated blindly."""
    ran.append("charge")
    return "charged"


def biller() -> Agent:
    return AgentBuilder("biller").with_model(ScriptedModel([call("charge"), "paid"])).with_tools(charge).build()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def test_given_another_process_answered_the_key_meanwhile_then_its_result_is_returned() -> None:
    store = open_store("sqlite:///:memory:")
    first = Steptrail(Environment(store=store))
    second = ComesSecond(store, lambda: first.run(biller(), "pay", session="s1", key="k"))
    result = await Steptrail(Environment(store=second)).run(biller(), "pay", session="s1", key="k")
    assert result.output == "paid"
    assert ran == ["charge"]
    assert result.state.fold.executions == 1
    await store.close()


async def test_given_another_process_crashed_on_the_key_meanwhile_then_its_run_is_recovered() -> None:
    store = open_store("sqlite:///:memory:")

    async def crash() -> None:
        first = Steptrail(Environment(store=store, reach=dies_before_the_tool))
        with pytest.raises(Died):
            await first.run(biller(), "pay", session="s1", key="k")

    second = Steptrail(Environment(store=ComesSecond(store, crash)))
    result = await second.run(biller(), "pay", session="s1", key="k")
    events = [record.event.TYPE for record in await second.session("s1").events()]
    assert "execution.resumed.v1" in events
    assert "tool.execution.interrupted.v1" in events
    assert result.output == "paid"
    assert ran == []
    await store.close()


async def test_given_another_process_finished_the_run_meanwhile_then_a_resume_returns_the_result() -> None:
    store = open_store("sqlite:///:memory:")
    dying = Steptrail(Environment(store=store, reach=dies_before_the_tool))
    with pytest.raises(Died):
        await dying.run(biller(), "pay", session="s1")
    first = Steptrail(Environment(store=store)).session("s1")
    second = Steptrail(Environment(store=ComesSecond(store, lambda: first.resume(biller())))).session("s1")
    assert (await second.resume(biller())).output == "paid"
    await store.close()


async def test_given_another_process_carried_the_stop_out_meanwhile_then_who_asked_again_finds_it_done() -> None:
    store = open_store("sqlite:///:memory:")
    first = Steptrail(Environment(store=store, reach=dies_before_the_tool))
    with pytest.raises(Died):
        await first.run(biller(), "pay", session="s1")
    lease = await store.acquire("agent:s1", owner="an owner who does not look")
    await first.session("s1").stop(by="ops")
    await lease.release()
    second = ComesSecond(store, lambda: first.session("s1").stop(by="ops"))
    result = await Steptrail(Environment(store=second)).session("s1").stop(by="me")
    assert result.stop_reason is StopReason.USER_REQUESTED
    await store.close()
