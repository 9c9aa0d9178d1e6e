"""What `doctor` says of what lies beside the events: blobs and snapshots."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.snapshot import FORMAT, SNAPSHOTS
from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead, Snapshot, StreamHead
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.cli.findings import Finding
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots, Unpacked, packed
from tests.harness.hands import change_by_hand
from tests.runner.kit import agent_of

LARGE = "It was a dark and stormy night. " * 2000


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store of two sessions, each with a large message and a snapshot."""
    path = tmp_path / "runs.db"
    store = open_store(f"sqlite:///{path}")
    for name in ("s1", "s2"):
        await Steptrail(Environment(store=store)).run(agent_of(["done"]).build(), LARGE, session=name)
        state, head = await fold_stream(AGENT, store, f"agent:{name}")
        await Snapshots(AGENT, store, f"agent:{name}").keep(state, head)
    await store.close()
    return path


def meddle(path: Path, statement: str, *parameters: object) -> None:
    change_by_hand(path, statement, *parameters)


async def findings(path: Path) -> list[Finding]:
    store = open_store(f"sqlite:///{path}", read_only=True)
    try:
        return (await examine(store)).findings
    finally:
        await store.close()


async def keep(path: Path, stream: str, snapshot: Snapshot) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.keep_snapshot(stream, snapshot)
    await store.close()


async def snapshot_of(path: Path, stream: str) -> Snapshot:
    store = open_store(f"sqlite:///{path}", read_only=True)
    try:
        found = await store.snapshot(stream)
        assert found is not None
        return found
    finally:
        await store.close()


async def test_given_blobs_and_snapshots_that_are_sound_then_nothing_is_found(path: Path) -> None:
    assert await findings(path) == []


def test_given_a_body_that_was_said_twice_then_it_is_stored_once(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM blobs").fetchone() == (1,)


async def test_given_a_blob_that_is_gone_then_every_record_that_refers_to_it_is_named(path: Path) -> None:
    meddle(path, "DELETE FROM blobs")
    found = await findings(path)
    assert [(each.check, each.stream, each.is_damage) for each in found] == [
        ("digest chain", "agent:s1", True),
        ("records", "agent:s1", True),
        ("digest chain", "agent:s2", True),
        ("records", "agent:s2", True),
    ]
    assert (found[1].position, found[1].type_name) == (2, "execution.started.v1")
    assert found[1].what.startswith("its blob ")
    assert found[1].what.endswith("(/input/parts/0/text) is missing")


async def test_given_a_damaged_blob_then_it_and_the_records_that_refer_to_it_are_named(path: Path) -> None:
    meddle(path, "UPDATE blobs SET body = CAST(REPLACE(CAST(body AS TEXT), 'dark', 'dull') AS BLOB)")
    checks = [(each.check, each.stream) for each in await findings(path)]
    assert checks.count(("blobs", "")) == 1
    assert ("records", "agent:s1") in checks
    assert ("records", "agent:s2") in checks


async def test_given_a_blob_that_nobody_refers_to_then_it_needs_attention(path: Path) -> None:
    body = b'"said by nobody"'
    meddle(path, "INSERT INTO blobs VALUES (?, ?)", sha256(body).digest(), body)
    (found,) = await findings(path)
    assert (found.check, found.is_damage) == ("blobs", False)
    assert found.what == f"blob {sha256(body).hexdigest()}: no event refers to it: it may be deleted"


@pytest.mark.parametrize("digest", [b"\xff", "text"])
async def test_given_a_blob_under_a_digest_that_is_not_its_own_then_it_is_damage(
    path: Path, digest: bytes | str
) -> None:
    meddle(path, "INSERT INTO blobs VALUES (?, 1)", digest)
    (found,) = await findings(path)
    name = digest.hex() if isinstance(digest, bytes) else digest
    assert (found.check, found.is_damage) == ("blobs", True)
    assert found.what == f"blob {name}: what is stored does not match its digest"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("state = CAST(state || x'00' AS BLOB)", "it is damaged: its content does not match its seal"),
        ("state = 'text'", "it is damaged: its content does not match its seal"),
        ("format = 'agent.0'", "it is damaged: its content does not match its seal"),
        ("seal = x''", "it is damaged: its content does not match its seal"),
        ("digest = 7", "it is damaged: it holds a value of the wrong type"),
        ("version = 'seven'", "it is damaged: it holds a value of the wrong type"),
        ("format = x'ff'", "it is damaged: it holds a value of the wrong type"),
        ("format = CAST(x'ff' AS TEXT)", "it is damaged: its content does not match its seal"),
    ],
)
async def test_given_a_damaged_snapshot_then_it_is_named(path: Path, damage: str, why: str) -> None:
    meddle(path, "UPDATE snapshots SET @damage WHERE stream = 'agent:s1'".replace("@damage", damage))
    (found,) = await findings(path)
    assert (found.check, found.stream, found.is_damage) == ("snapshots", "agent:s1", True)
    assert found.what == f"the snapshot is not used: {why}: delete it"


async def test_given_a_snapshot_beyond_what_is_stored_then_it_is_named(path: Path) -> None:
    snapshot = await snapshot_of(path, "agent:s1")
    await keep(path, "agent:s1", snapshot._replace(head=StreamHead(99, snapshot.head.digest)))
    (found,) = await findings(path)
    assert found.what.startswith("the snapshot is not used: it stands on a commit that ends at event 99")


async def test_given_a_forged_snapshot_then_the_events_show_it(path: Path) -> None:
    snapshot = await snapshot_of(path, "agent:s1")
    forged = [line.replace(b'"done"', b'"sold"') for line in Unpacked(snapshot.state)]
    await keep(path, "agent:s1", snapshot._replace(state=packed(forged)))
    (found,) = await findings(path)
    assert (found.check, found.stream, found.position) == ("snapshots", "agent:s1", snapshot.head.version)
    assert found.what == "the snapshot is not what the events fold to: delete it"
    assert found.is_damage


async def test_given_a_sealed_snapshot_that_is_no_state_then_it_is_named(path: Path) -> None:
    snapshot = await snapshot_of(path, "agent:s1")
    of_no_length, cut_off = snapshot.state.partition(b" ")[2], snapshot.state[:-1]
    for rubbish in (b"rubbish", of_no_length, cut_off, packed([b"rubbish"]), packed([*Unpacked(snapshot.state)][:-1])):
        await keep(path, "agent:s1", snapshot._replace(state=rubbish))
        (found,) = await findings(path)
        assert found.what.startswith("the snapshot cannot be read: ")
        assert found.is_damage


async def test_given_a_snapshot_of_another_version_then_it_needs_attention(path: Path) -> None:
    await keep(path, "agent:s1", (await snapshot_of(path, "agent:s1"))._replace(format="agent.0"))
    (found,) = await findings(path)
    assert found.what == "the snapshot is of another version of Steptrail (agent.0): it is not used"
    assert not found.is_damage
    assert FORMAT != "agent.0"


async def test_given_a_snapshot_in_the_middle_of_the_history_then_it_is_compared_there(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    records = (await store.read("agent:s1")).records
    ends = [a.version for a, b in pairwise(records) if a.head != b.head]
    assert ends
    state, _ = await fold_stream(AGENT._replace(snapshots=None), store, "agent:s1", at=ends[0])
    commit = store.recorder.select_commit("agent:s1", ends[0])
    assert commit is not None
    head = StreamHead(ends[0], commit[1])
    await store.keep_snapshot("agent:s1", Snapshot(head, FORMAT, packed(SNAPSHOTS.dump(state))))
    assert await store.snapshot("agent:s1") is not None
    await store.close()
    assert await findings(path) == []


async def test_given_a_snapshot_of_no_session_then_it_needs_attention(path: Path) -> None:
    meddle(path, "UPDATE snapshots SET stream = 'agent:gone' WHERE stream = 'agent:s1'")
    (found,) = await findings(path)
    assert (found.check, found.stream, found.is_damage) == ("snapshots", "agent:gone", False)
    assert found.what == "a snapshot of a session that is not there: it may be deleted"


async def test_given_an_event_of_a_newer_version_then_it_needs_attention_and_is_no_damage(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    at = CommitHead(commit_id="c1", actor="newer")
    (outcome,) = store.recorder.append(
        [PendingCommit("agent:s3", EMPTY_STREAM, at, [(1, "step.started.v9", 7, b'{"more":1}', None)])]
    )
    assert isinstance(outcome, StreamHead)
    await store.close()
    (found,) = await findings(path)
    assert (found.check, found.stream, found.position, found.type_name, found.is_damage) == (
        "versions",
        "agent:s3",
        1,
        "step.started.v9",
        False,
    )
    assert found.what.endswith("this one reads 'step.started' up to v1, update to read it")
