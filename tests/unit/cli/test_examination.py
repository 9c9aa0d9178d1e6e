"""The examination behind `doctor`, on what a command line cannot bring about."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import SessionForked, SessionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.errors import RecordTooNew
from steptrail.domain.flow.definition import definition_text
from steptrail.domain.flow.events import FlowStarted
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.cli.findings import Examination
from steptrail.testing.store_contract import Noted
from steptrail.testing.store_samples import commit_of
from steptrail.workflow import RunOptions, Workflow


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


async def seen(url: str, prepare: Callable[[RecorderEventStore], Awaitable[object]]) -> Examination:
    writing = open_store(url)
    await prepare(writing)
    reading = open_store(url, read_only=True)
    examined = await examine(reading)
    await reading.close()
    await writing.close()
    return examined


async def note(store: RecorderEventStore, stream: str) -> None:
    head = CommitHead(commit_id=f"c-{stream}", actor="test")
    await store.append(stream, EMPTY_STREAM, Commit(head, ((1, Noted(text="not an agent's")),)))


async def test_given_an_event_that_no_agent_knows_then_its_session_cannot_be_folded(url: str) -> None:
    (finding,) = (await seen(url, lambda store: note(store, "agent:s1"))).findings
    assert (finding.check, finding.stream, finding.position, finding.type_name) == ("fold", "agent:s1", 1, Noted.TYPE)
    assert finding.is_damage


async def test_given_a_stream_of_another_kind_then_it_is_read_and_not_folded(url: str) -> None:
    examined = await seen(url, lambda store: note(store, "other:f1"))
    assert (examined.streams, examined.events, examined.findings) == (1, 1, [])


async def test_given_a_lease_on_a_session_that_is_not_there_then_it_needs_attention(url: str) -> None:
    examined = await seen(url, lambda store: store.acquire("agent:s1", owner="worker-7"))
    (finding,) = examined.findings
    assert finding.what.startswith("held by worker-7 (pid ")
    assert finding.what.endswith("on a session that is not there: it is about to begin, or its events are lost")
    assert examined.is_healthy


@pytest.mark.parametrize("name", ["projector:runs", "follower:mails", "fleet:sweep"])
async def test_given_a_lease_of_a_process_at_work_that_is_on_no_session_then_nothing_is_found(
    url: str, name: str
) -> None:
    examined = await seen(url, lambda store: store.acquire(name, owner="worker-7"))
    assert examined.findings == []


async def test_given_a_lease_on_a_session_with_nothing_open_then_it_needs_attention(url: str) -> None:
    async def noted_and_leased(store: RecorderEventStore) -> None:
        await note(store, "other:f1")
        await store.acquire("other:f1", owner="worker-7")

    (finding,) = (await seen(url, noted_and_leased)).findings
    assert finding.what.endswith("on a session that has nothing open")
    assert not finding.is_damage


async def test_given_leases_that_cannot_be_read_then_it_says_so(url: str, tmp_path: Path) -> None:
    async def spoil(store: RecorderEventStore) -> None:
        await note(store, "other:f1")
        (tmp_path / "runs.db-leases").mkdir()
        (tmp_path / "runs.db-leases" / "guard").mkdir()

    (finding,) = (await seen(url, spoil)).findings
    assert (finding.check, finding.what) == ("leases", "the leases beside the store cannot be read")


@pytest.mark.parametrize(
    ("version", "digest", "said"),
    [
        (3, "", "it goes on from event 3 of agent:s1, which is not there"),
        (1, "00", "it goes on from event 1 of agent:s1, which has changed"),
    ],
)
async def test_given_a_fork_whose_past_is_not_what_it_was_then_it_is_damaged(
    url: str, version: int, digest: str, said: str
) -> None:
    async def fork(store: RecorderEventStore) -> None:
        opened = SessionStarted(name="desk")
        row = AGENT.control.summary(AGENT.evolve_all(AGENT.initial("s1"), [Recorded(1, 1, opened)]))
        first = Commit(CommitHead(commit_id="c1", actor="t"), ((1, opened),), row)
        await store.append("agent:s1", EMPTY_STREAM, first)
        forked = SessionForked(
            name="desk",
            source="s1",
            version=version,
            digest=digest,
            by="ana",
            status=ExecutionStatus.PENDING,
            executions=0,
            steps=0,
        )
        await store.append("agent:f1", EMPTY_STREAM, Commit(CommitHead(commit_id="c2", actor="t"), ((2, forked),)))

    (finding,) = (await seen(url, fork)).findings
    assert (finding.check, finding.stream, finding.what, finding.is_damage) == ("forks", "agent:f1", said, True)


async def test_given_a_workflow_that_a_newer_version_recorded_then_its_run_is_too_new_and_not_damaged(url: str) -> None:
    text = definition_text(Workflow("t").noop("a").build().definition)
    started = FlowStarted(
        execution_id="f:1",
        ordinal=1,
        segment=1,
        worker="w",
        library="9.0",
        flow="t",
        definition=text.replace('"nodes":', '"mood":"calm","nodes":', 1),
        digest="",
        options=RunOptions(),
        by="ana",
    )

    async def begin(store: RecorderEventStore) -> None:
        await store.append("flow:f", EMPTY_STREAM, commit_of("c", SessionStarted(name="t"), started))

    (finding,) = (await seen(url, begin)).findings
    assert (finding.check, finding.stream, finding.position, finding.type_name) == (
        "versions",
        "flow:f",
        2,
        FlowStarted.TYPE,
    )
    assert finding.what.startswith("its workflow cannot be read: Object contains unknown field `mood`")
    assert finding.what.endswith("a newer version of Steptrail recorded it")
    assert not finding.is_damage
    async with Steptrail.open(url) as trail:
        with pytest.raises(RecordTooNew, match="record 2 of stream 'flow:f'"):
            await trail.flow("f").state()
        with pytest.raises(RecordTooNew, match="record 2 of stream 'flow:f'"):
            await trail.flow("f").draw()
        why = await trail.flow("f").why()
    assert why.damage is not None
    assert why.damage.endswith(finding.what)
