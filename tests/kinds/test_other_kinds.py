"""A machine that is no agent is seen by everything that looks at a store."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import ExecutionFinished, ExecutionPaused, SessionStarted, WaitEnded, WaitStarted
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import AmbiguousId, ConfigurationError, SessionNotFound
from steptrail.infrastructure.broadcast.envelope_reader import EnvelopeReader
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python.lifecycle_reader import LifecycleReader
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.kinds import PROJECTIONS
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.kinds import KINDS
from tests.kinds.bell import BELL, KIND, Bell, BellEvent, BellHung, BellRang, BellTold, put
from tests.runner.kit import agent_of

STARTED, HUNG = SessionStarted(name="bell"), BellHung(worker="w")
FOR_A_PERSON, PRESSED = WaitStarted(kind="approval"), WaitEnded(reason="approved", by="ana")
DONE = ExecutionFinished(status=ExecutionStatus.COMPLETED, stop_reason=StopReason.COMPLETED, resolved_by="Bell")
PATIENCE = 30.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def bells() -> None:
    """Make bells known, by the name of their module, as the kinds of the library are."""
    if "bell:" not in KINDS:
        KINDS.add("bell:", "tests.kinds.bell:KIND")
        PROJECTIONS.add("bell:", "tests.kinds.bell:PROJECTIONS_OF_BELLS")


async def with_both(trail: Steptrail) -> None:
    await trail.run(agent_of(["hello"]).build(), "hi", session="b1")
    await put(trail.store, "bell:b1", STARTED, HUNG, BellRang(tokens=3), FOR_A_PERSON)


async def test_runs_lists_it_beside_a_session_that_has_the_same_id() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await with_both(trail)
        rows = {row.stream: row for row in await trail.runs()}
        assert rows.keys() == {"agent:b1", "bell:b1"}
        bell = rows["bell:b1"]
        assert (bell.kind, bell.session_id, bell.name, bell.waits_for) == ("bell", "b1", "bell", "approval")
        assert (rows["agent:b1"].status, bell.status) == (ExecutionStatus.COMPLETED, ExecutionStatus.WAITING)


async def test_a_stream_of_a_kind_that_is_not_known_is_listed_by_what_all_kinds_share() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await put(trail.store, "stranger:x", STARTED, FOR_A_PERSON)
        (row,) = await trail.runs()
        assert (row.stream, row.status) == ("stranger:x", ExecutionStatus.WAITING)
        with pytest.raises(ConfigurationError, match="session id"):
            trail.handle("stranger:x")


async def test_it_is_due_when_its_wait_was_answered_and_when_its_owner_has_died() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await put(trail.store, "bell:b", STARTED, HUNG, FOR_A_PERSON)
        assert await trail.due() == []
        await put(trail.store, "bell:b", PRESSED)
        assert [row.stream for row in await trail.due()] == ["bell:b"]
        lease = await trail.store.acquire("bell:b", owner="a worker")
        await put(trail.store, "bell:b", HUNG)
        assert await trail.due() == []
        await lease.release()
        assert [row.stream for row in await trail.due()] == ["bell:b"]
        await put(trail.store, "bell:b", ExecutionPaused(by="ana", step_seconds=0.0))
        assert await trail.due() == []
        await put(trail.store, "bell:b", HUNG, DONE)
        assert await trail.due() == []


async def test_it_is_found_by_its_name_and_a_name_that_both_begin_with_is_ambiguous() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await with_both(trail)
        assert (await trail.find("b")).stream_id == "agent:b1"
        found = await trail.find_any("bell:b")
        assert (found.stream_id, found.id) == ("bell:b1", "b1")
        assert isinstance(await found.state(), Bell)
        assert [record.event for record in await found.events(after=2)] == [BellRang(tokens=3), FOR_A_PERSON]
        with pytest.raises(AmbiguousId, match="bell:b1"):
            await trail.find_any("b1")
        with pytest.raises(SessionNotFound):
            await trail.find_any("bell:c")
        with pytest.raises(SessionNotFound):
            await trail.handle("bell:c").state()


async def test_the_tree_of_a_session_holds_what_was_begun_for_it_and_its_bill() -> None:
    above = ParentRef(kind="agent", session="s", execution="s:1", effect="s:1:1:0")
    below = ParentRef(kind="bell", session="b", execution="", effect="b:1", root="agent:s", depth=2)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent_of(["hello"]).build(), "hi", session="s")
        await put(trail.store, "bell:b", SessionStarted(name="bell", parent=above), HUNG, BellRang(tokens=3))
        await trail.run(agent_of(["hello"]).build(), "hi", session="c", parent=below)
        tree = await trail.tree("s")
        assert [(depth, each.run.stream) for depth, each in tree.walk()] == [
            (0, "agent:s"),
            (1, "bell:b"),
            (2, "agent:c"),
        ]
        bell = tree.children[0]
        assert (bell.own_usage.total, bell.usage.total - bell.own_usage.total) == (3, bell.children[0].usage.total)
        assert (await trail.tree("bell:b")).run.stream == "bell:b"


async def test_a_subscription_to_one_stream_takes_its_name() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await with_both(trail)
        entries = [entry async for entry in trail.subscribe(session="bell:b1", follow=False)]
        assert {entry.stream for entry in entries} == {"bell:b1"}
        assert [entry.record.version for entry in entries] == [1, 2, 3, 4]


async def test_who_owns_it_looks_again_when_it_has_grown_since_the_look() -> None:
    store = open_store("sqlite:///:memory:")
    await put(store, "bell:b", STARTED, HUNG)
    control = KIND.control(Environment(store=store), "bell:b")
    journal = await control.existing()
    await put(store, "bell:b", FOR_A_PERSON)
    assert await control.own_as_seen(journal, lambda state, took_over: (), lambda segment: never()) is None
    now = await journal.reloaded()
    assert await control.own_as_seen(now, lambda state, took_over: (), lambda segment: never()) == now.committed
    await store.close()


def never() -> NoReturn:
    raise AssertionError("nothing is to be performed")


async def test_following_it_ends_with_its_run_and_not_with_a_wait() -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        await put(trail.store, "bell:b", STARTED, HUNG, FOR_A_PERSON)
        seen: list[Event] = []
        async with trail.handle("bell:b").follow() as following:
            async for each in following:
                assert isinstance(each, Recorded)
                seen.append(each.event)
                if each.event == FOR_A_PERSON:
                    await put(trail.store, "bell:b", PRESSED, HUNG, DONE)
        assert seen == [STARTED, HUNG, FOR_A_PERSON, PRESSED, HUNG, DONE]


async def test_why_explains_it_in_its_own_words_and_says_whether_a_process_runs_it() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await put(trail.store, "bell:b", STARTED, HUNG)
        crashed = await trail.handle("bell:b").why()
        assert (crashed.verdict, crashed.is_crashed) == ("bell b: working", True)
        lease = await trail.store.acquire("bell:b", owner="a worker")
        assert not (await trail.handle("bell:b").why()).is_crashed
        await lease.release()
        await put(trail.store, "bell:b", FOR_A_PERSON)
        assert (await trail.handle("bell:b").why()).waits_for == "approval"


async def test_listeners_and_front_ends_hear_of_it(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path}/s.db") as trail:
        heard: list[BellTold] = []
        trail.on(BellTold, heard.append)
        environment = Environment(store=trail.store, worker="w", observer=trail.listeners)
        journal = await Journal[Bell, BellEvent].open(BELL, environment, "bell:b")
        journal.record(STARTED, HUNG, BellRang(tokens=1))
        assert await journal.flush()
        assert [(told.session_id, told.version, told.type) for told in heard] == [
            ("b", 2, "bell.hung.v1"),
            ("b", 3, "bell.rang.v1"),
        ]
        await put(trail.store, "stranger:x", STARTED)
        lifecycle, front = LifecycleReader(trail.store), EnvelopeReader(trail.store, BroadcastConfig())
        entries = [entry async for entry in trail.subscribe(follow=False)]
        assert [told for entry in entries for told in await lifecycle.events(entry)] == heard
        late = LifecycleReader(trail.store)
        assert list(await late.events(entries[2])) == heard[1:]
        statuses = [made for entry in entries for made in await front.envelopes(entry)]
        assert [(made.session_id, made.version) for made in statuses] == [("b", 2)]


async def write_a_bell(url: str) -> None:
    async with Steptrail.open(url) as trail:
        await put(trail.store, "bell:b", STARTED, HUNG)


def doctor(url: str, *, named: bool) -> subprocess.CompletedProcess[str]:
    """Let a process of its own examine the store; it imports no bell before it reads one."""
    naming = "KINDS.add('bell:', 'tests.kinds.bell:KIND')" if named else ""
    code = f"""
import sys
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.runtime.kernel.kinds import KINDS
{naming}
assert "tests.kinds.bell" not in sys.modules
sys.exit(main(["doctor", "--store", {url!r}]))
"""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow("starts a process")
def test_a_process_that_has_not_met_a_kind_reads_its_records_once_the_kind_has_a_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with Steptrail.open_sync(url) as trail:
        trail.run(agent_of(["hello"]).build(), "hi", session="s")
    asyncio.run(write_a_bell(url))
    told = doctor(url, named=False)
    assert told.returncode == 0  # it is no damage: another process has a module for it
    assert "the event type 'bell.hung.v1' is not known here" in told.stdout
    assert "it rings" not in told.stdout
    told = doctor(url, named=True)
    assert told.returncode == 0
    assert "it rings" in told.stdout
    assert "2 sessions" in told.stdout


def test_the_command_line_shows_it_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    asyncio.run(write_a_bell(url))

    def said(*argv: str) -> str:
        assert main([*argv, "--store", url]) == 0
        return capsys.readouterr().out

    assert "bell:b" in said("runs")
    assert said("why", "bell:b").splitlines()[0] == "bell b: working"
    assert json.loads(said("why", "b", "--json"))["verdict"] == "bell b: working"
    assert "bell:b  bell.hung.v1" in said("tail", "bell:b")
    assert json.loads(said("tail", "--json").splitlines()[-1])["stream"] == "bell:b"
    assert "bell:b" in said("show", "bell:b", "--tree")
