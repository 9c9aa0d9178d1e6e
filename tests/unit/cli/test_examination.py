"""The examination behind `doctor`, on what a command line cannot bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steptrail.domain.record import EMPTY_STREAM, Commit, CommitHead
from steptrail.infrastructure.store.event_store import RecorderEventStore
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.examination import Examination, examine
from steptrail.testing.store_contract import Noted


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def seen(url: str, prepare: Callable[[RecorderEventStore], Awaitable[object]]) -> Examination:
    async def scenario() -> Examination:
        writing = open_store(url)
        await prepare(writing)
        reading = open_store(url, read_only=True)
        examined = await examine(reading)
        await reading.close()
        await writing.close()
        return examined

    return asyncio.run(scenario())


async def note(store: RecorderEventStore, stream: str) -> None:
    head = CommitHead(commit_id=f"c-{stream}", actor="test")
    await store.append(stream, EMPTY_STREAM, Commit(head, ((1, Noted(text="not an agent's")),)))


def test_given_an_event_that_no_agent_knows_then_its_session_cannot_be_folded(url: str) -> None:
    (finding,) = seen(url, lambda store: note(store, "agent:s1")).findings
    assert (finding.check, finding.stream, finding.position, finding.type_name) == ("fold", "agent:s1", 1, Noted.TYPE)
    assert finding.is_damage


def test_given_a_stream_of_another_kind_then_it_is_read_and_not_folded(url: str) -> None:
    examined = seen(url, lambda store: note(store, "flow:f1"))
    assert (examined.streams, examined.events, examined.findings) == (1, 1, [])


def test_given_a_lease_on_nothing_open_then_it_needs_attention(url: str) -> None:
    examined = seen(url, lambda store: store.acquire("agent:s1", owner="worker-7"))
    (finding,) = examined.findings
    assert finding.what.startswith("held by worker-7 (pid ")
    assert finding.what.endswith("on a session that has nothing open")
    assert examined.is_healthy


def test_given_leases_that_cannot_be_read_then_it_says_so(url: str, tmp_path: Path) -> None:
    async def spoil(store: RecorderEventStore) -> None:
        await note(store, "flow:f1")
        (tmp_path / "runs.db-leases").mkdir()
        (tmp_path / "runs.db-leases" / "guard").mkdir()

    (finding,) = seen(url, spoil).findings
    assert (finding.check, finding.what) == ("leases", "the leases beside the store cannot be read")
