"""A store that a service has written itself and that is none: said when the trail is made, or when it answers."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ConfigurationError, StoreUnavailable
from steptrail.stores import Commit, EventStore, StoredStream, StreamHead, open_store
from steptrail.telemetry import Telemetry
from steptrail.testing import ManualClock, ScriptedModel


class InFront:
    """Stands in front of another store and changes nothing."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class ForgetsToReturn(InFront):
    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> None:
        await self._store.append(stream, expected, commit)


class KeepsRows(InFront):
    """Keeps the row of each stream as it comes with a commit, as a store with an index of its own does."""

    def __init__(self, store: EventStore) -> None:
        super().__init__(store)
        self.rows: dict[str, str] = {}

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        if commit.summary is not None:
            self.rows[stream] = commit.summary.stream
        return await self._store.append(stream, expected, commit)


class WithoutLog:
    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> None: ...

    async def close(self) -> None: ...


class Derived(EventStore):
    """Derives from the protocol, as a type checker likes it: nothing seems to be missing, or is handed on."""

    def __init__(self, inner: EventStore) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        return await self.inner.read(stream, after=after, limit=limit)


UNTYPED: Any = Derived


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "NoneType is no store, .*: give an address such as 'sqlite:///runs.db', or what has the methods"),
        (InFront, "InFront is a class, and a store is an object of it"),
        (WithoutLog(), "WithoutLog is no store, because it has no `file`, `read`, `proven`, …"),
        (UNTYPED(WithoutLog()), "Derived is no store, because it has no `append`, `file`, `proven`, … of its own"),
    ],
)
def test_given_what_is_no_store_then_the_trail_is_refused_when_it_is_made(given: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Steptrail.open(given)


async def test_given_a_store_whose_append_returns_no_head_then_the_run_says_so() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["It is late."])).build()
    given: Any = ForgetsToReturn(open_store("sqlite:///:memory:"))
    async with asyncio.timeout(60), Steptrail.open(given) as trail:
        says = (
            "`append` of the store ForgetsToReturn returned NoneType, and has to return the StreamHead after the commit"
        )
        with pytest.raises(ConfigurationError, match=says):
            await trail.run(agent, "Late?", session="s")


async def test_given_a_store_in_front_of_another_one_then_it_is_taken() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["It is late."])).build()
    given: Any = InFront(open_store("sqlite:///:memory:"))
    async with asyncio.timeout(60), Steptrail.open(given) as trail:
        assert (await trail.run(agent, "Late?", session="s")).output == "It is late."


async def test_given_a_store_that_keeps_rows_then_each_names_the_stream_that_it_came_with() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["It is late."])).build()
    store = KeepsRows(open_store("sqlite:///:memory:"))
    given: Any = store
    async with asyncio.timeout(60), Steptrail.open(given) as trail:
        await trail.run(agent, "Late?", session="s")
        await trail.session("s").fork(session="fork")
    assert store.rows == {"agent:s": "agent:s", "agent:fork": "agent:fork"}


async def test_given_a_store_then_a_trail_has_all_that_one_at_an_address_has() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["It is late."])).build()
    given: Any = InFront(open_store("sqlite:///:memory:"))
    spans, clock = InMemorySpanExporter(), ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    telemetry = Telemetry(processor=SimpleSpanProcessor(spans))
    async with asyncio.timeout(60), Steptrail.open(given, clock=clock, telemetry=telemetry, live=True) as trail:
        await trail.run(agent, "Late?", session="s")
        assert [each.updated_at for each in await trail.runs()] == [clock.utc()]
    assert "invoke_agent clerk" in [span.name for span in spans.get_finished_spans()]
    with pytest.raises(StoreUnavailable, match="closed"):
        await given.version("agent:s")


def test_given_a_store_then_a_blocking_trail_runs_on_it() -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["It is late."])).build()
    given: Any = InFront(open_store("sqlite:///:memory:"))
    with Steptrail.open_sync(given) as trail:
        assert trail.run(agent, "Late?", session="s").output == "It is late."
        assert [each.stream for each in trail.runs()] == ["agent:s"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"durability": "normal", "read_only": True}, "`durability`, `read_only` belong to an address, and this store"),
        ({"busy_timeout": 1}, "`busy_timeout` belong"),
        ({"create": False}, "`create` belong"),
        ({"engine": "procrastinate"}, "procrastinate needs PostgreSQL, and the store is elsewhere"),
    ],
)
async def test_given_a_store_then_what_belongs_to_an_address_is_refused(settings: dict[str, Any], says: str) -> None:
    given: Any = InFront(open_store("sqlite:///:memory:"))
    with pytest.raises(ConfigurationError, match=says):
        Steptrail.open(given, **settings)
    assert await given.version("agent:s") == 0, "who opened the store closes it"
    await given.close()
