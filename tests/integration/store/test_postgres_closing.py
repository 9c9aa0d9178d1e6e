"""Closing a store, a trail and a worker while the server is silent: connections are open, and nothing is answered.

The server would be waited for a quarter of an hour. What is under way ends within seconds, and says what is true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.errors import AppendOutcomeUnknown, StoreAway, StoreUnavailable
from steptrail.domain.kernel.record import EMPTY_STREAM, Recorded
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.telemetry.live import LiveSpans
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.projections.telemetry.span import Span
from steptrail.testing import ScriptedModel
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.integration.store.proxy import Proxy, proxy_to

PATIENT = "?answer_timeout=1000&connect_timeout=1000"
LONGEST_SECONDS = 60
"""Whatever takes this long hangs; no assertion is about time."""


@pytest.fixture(autouse=True)
def _closing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.infrastructure.store.postgres.connections._FAREWELL_SECONDS", 0.2)
    monkeypatch.setattr("steptrail.infrastructure.store.core.store_threads._FREEING_SECONDS", 0.2)


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with proxy_to(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: Proxy, postgres_database: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/{postgres_database}{PATIENT}"


Begin = Callable[[RecorderEventStore], Awaitable[object]]
UNDER_WAY: dict[str, tuple[Begin, type[Exception]]] = {
    "an append": (lambda store: store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted())), AppendOutcomeUnknown),
    "a question": (lambda store: store.version("agent:a"), StoreAway),
    "a lease": (lambda store: store.acquire("agent:b", owner="worker-7"), StoreAway),
    "a wait for the log": (lambda store: store.wait_past(1, timeout=1000), StoreUnavailable),
}


@pytest.mark.parametrize("what", UNDER_WAY)
@pytest.mark.parametrize("is_connected", [True, False], ids=["asked", "connecting"])
async def test_what_waits_for_a_silent_server_when_the_store_is_closed_ends_and_so_does_the_closing(
    url: str, proxy: Proxy, what: str, is_connected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    begin, error = UNDER_WAY[what]
    store = open_store(url)
    lease = await store.acquire("agent:a", owner="worker-7")
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.keep_place("somebody", 0)  # behind the answer to the announcement
    if not is_connected:
        proxy.cut()
    proxy.hold()
    waiting = asyncio.ensure_future(begin(store))
    await asyncio.sleep(0)  # it is with its thread, which has begun or will
    async with asyncio.timeout(LONGEST_SECONDS):
        await store.close()
        with pytest.raises(
            error if is_connected else StoreUnavailable, match=r"may or may not|not answer|reach|closed"
        ):
            await waiting
        await lease.release()
    assert caplog.text == ""


async def test_read_models_that_are_asked_when_the_server_falls_silent_are_closed_with_their_trail(
    url: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Done."])).build()
    async with asyncio.timeout(LONGEST_SECONDS):
        async with Steptrail.open(url) as trail, trail.views.kept_going():
            await trail.run(agent, "hi")
            await trail.views.wait()
            proxy.hold()
            asking = asyncio.ensure_future(trail.views.status())
            await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await asking
    assert "rollback" not in caplog.text


async def test_a_follower_lets_go_while_the_server_is_silent_and_its_lease_is_free_when_that_answers(
    url: str, proxy: Proxy
) -> None:
    async with asyncio.timeout(LONGEST_SECONDS), Steptrail.open(url) as trail:
        async with trail.follower("billing"):
            proxy.hold()
        proxy.release()
        async with trail.follower("billing"):
            pass
        assert await trail.store.is_leased("follower:billing") is False


async def test_spans_whose_beginning_a_silent_server_would_have_to_say_hold_up_no_closing(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.telemetry.live._LAST_SECONDS", 0.2)
    told: list[Span] = []
    async with Steptrail.open(url) as trail:
        agent = AgentBuilder("clerk").with_model(ScriptedModel(["done", "done"])).build()
        live, last = LiveSpans(SpanFolds(trail.store), told.append), list[Recorded[AgentEvent]]()
        for session in ("a", "b"):
            await trail.run(agent, "go", session=session)
            last += (await trail.session(session).history())[-1:]
        proxy.hold()
        for session, record in zip(("a", "b"), last, strict=True):
            live.committed(f"agent:{session}", [record])
        async with asyncio.timeout(LONGEST_SECONDS):
            await live.aclose()
    assert told == []
    assert "spans of 2 commits could not be told" in caplog.text
