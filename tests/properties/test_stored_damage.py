"""Whatever happens to what is stored, the damage is named, stays where it is, and is never taken for a state.

Three sessions lie in a file: `hurt` and what belongs to it is damaged, row by row and column by column; then the bytes
of the file itself are. The command line is called in this process, so anything it does not expect fails the test.
"""

import asyncio
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from steptrail import Agent, AgentBuilder, Steptrail, tool
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CorruptRecord, SteptrailError
from steptrail.infrastructure.store.core.digest import ChainFault
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.cli.main import main
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots
from steptrail.testing import ScriptedModel, call
from tests.harness.hands import by_hand, change_by_hand
from tests.profile import examples
from tests.runner.kit import agent_of

LARGE = "It was a dark and stormy night. " * 1200
HURT, GOOD, OTHER = "agent:hurt", "agent:good", "agent:other"
COLUMNS = {
    table: [(table, column) for column in columns.split()]
    for table, columns in {
        "stored_events": "type at state content commit_id actor causation segment key_id digest",
        "commits": "position size",
        "blobs": "body digest",
        "snapshots": "version digest format state seal",
    }.items()
}


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Template:
    """A sound store, and what is in it."""

    def __init__(self, path: Path, states: dict[str, AgentState]) -> None:
        self.path, self.states = path, states
        self.shown = steptrail(path, "show", "good", "--json").out
        self._numbers = count()

    def __repr__(self) -> str:
        return "the template"

    @property
    def events(self) -> int:
        return self.states[HURT].version

    def copied(self) -> Path:
        copy = self.path.with_name(f"copy-{next(self._numbers)}.db")
        shutil.copyfile(self.path, copy)
        return copy


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    path = tmp_path_factory.mktemp("damage") / "runs.db"

    async def fill() -> dict[str, AgentState]:
        store = open_store(f"sqlite:///{path}")
        states: dict[str, AgentState] = {}
        for stream in (OTHER, HURT, GOOD):
            name = stream.partition(":")[2]
            agent = agent_of([call("add", a=1, b=2), f"{name} is done"]).build()
            await Steptrail(Environment(store=store)).run(agent, name + LARGE, session=name)
            states[stream], head = await fold_stream(AGENT, store, stream)
            await Snapshots(AGENT, store, stream).keep(states[stream], head)
        await store.close()
        return states

    return Template(path, asyncio.run(fill()))


def steptrail(path: Path, *words: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["--store", f"sqlite:///{path}", *words])
    return Done(code, out.getvalue(), err.getvalue())


def asked(path: Path, question: Callable[[RecorderEventStore], Any]) -> Any:
    async def body() -> Any:
        store = open_store(f"sqlite:///{path}", read_only=True)
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(body())


def rows(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - a name of ours
            for table in ("stored_events", "events", "commits", "blobs", "snapshots")
        ]


Value = int | float | str | bytes | None
values = st.sampled_from(
    [0, 1, 2, 9, 40, -1, 2**62, 1.5, "", "text", "step.started.v9", "agent:x", b"", b"\xff\x00", None]
)
numbers = st.integers(0, 10**6)
bit_flips = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 7)), min_size=1, max_size=8)


def place_of(table: str, event: int) -> str:
    """Return which rows of a table are meant: an event of `hurt`, its commit, its snapshot or its blob."""
    of_hurt = f"stream = (SELECT number FROM streams WHERE id = '{HURT}')"  # noqa: S608 - a name of ours
    places = {
        "stored_events": f"stream = '{HURT}' AND version = {event}",
        "commits": f"{of_hurt} AND version = (SELECT max(version) FROM commits WHERE {of_hurt} AND version <= {event})",  # noqa: S608
        "snapshots": f"stream = '{HURT}'",
        "blobs": "rowid = 2",
    }
    return places[table]


def write(
    connection: sqlite3.Connection, table: str, event: int, column: str, value: Value, *, text: bool = False
) -> None:
    new = "CAST(? AS TEXT)" if text else "?"
    statement = f"UPDATE OR IGNORE {table} SET {column} = {new} WHERE {place_of(table, event)}"  # noqa: S608
    with suppress(sqlite3.IntegrityError):
        connection.execute(statement, (value,))


@dataclass(frozen=True)
class InAColumn:
    """One value is changed."""

    where: tuple[str, str]
    kind: str
    event: int
    number: int
    value: Value

    def __call__(self, connection: sqlite3.Connection, events: int) -> None:
        (table, column), event = self.where, self.event % events + 1
        held = connection.execute(f"SELECT {column} FROM {table} WHERE {place_of(table, event)}").fetchone()  # noqa: S608
        if held is None:
            return
        data = held[0].encode() if isinstance(held[0], str) else held[0]
        if self.kind == "replace" or not isinstance(data, bytes) or not data:
            write(connection, table, event, column, self.value)
        elif self.kind == "not text":
            write(connection, table, event, column, data + b"\xff", text=True)
        else:
            place = self.number % (len(data) * 8)
            flipped = bytes([data[place // 8] ^ 1 << place % 8])
            changed = data[: place // 8] + (flipped + data[place // 8 + 1 :] if self.kind == "flip" else b"")
            write(connection, table, event, column, changed, text=isinstance(held[0], str))


@dataclass(frozen=True)
class InTheOrder:
    """Events change places, are lost, or are put where no event belongs."""

    kind: str
    event: int
    further: int
    column: str
    value: Value

    def __call__(self, connection: sqlite3.Connection, events: int) -> None:
        first = self.event % events + 1
        second = (self.event + self.further % (events - 1) + 1) % events + 1
        if self.kind == "delete":
            connection.execute(f"DELETE FROM stored_events WHERE {place_of('stored_events', first)}")  # noqa: S608
        elif self.kind == "move":
            write(connection, "stored_events", first, self.column, self.value)
        elif self.kind == "swap":
            for before, after in ((first, -1), (second, first), (-1, second)):
                write(connection, "stored_events", before, "version", after)
        else:
            query = "SELECT type, state FROM stored_events WHERE stream = ? AND version = ?"
            pairs = [connection.execute(query, (HURT, event)).fetchone() for event in (first, second)]
            if None not in pairs:
                for event, (name, state) in zip((second, first), pairs, strict=True):
                    write(connection, "stored_events", event, "type", name)
                    write(connection, "stored_events", event, "state", state)


in_columns = st.builds(
    InAColumn,
    st.sampled_from(COLUMNS["stored_events"] * 2 + COLUMNS["commits"] * 4 + COLUMNS["blobs"] + COLUMNS["snapshots"]),
    st.sampled_from(["flip", "cut", "replace", "not text"]),
    numbers,
    numbers,
    values,
)
in_the_order = st.builds(
    InTheOrder,
    st.sampled_from(["swap", "delete", "move", "swap content"]),
    numbers,
    numbers,
    st.sampled_from(["version", "stream"]),
    values,
)
Damage = InAColumn | InTheOrder


def damaged(template: Template, *damages: Callable[[sqlite3.Connection, int], None]) -> Path:
    path = template.copied()
    with by_hand(path) as connection:
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        for damage in damages:
            damage(connection, template.events)
    return path


def check_that_the_others_are_as_they_were(template: Template, path: Path) -> None:
    assert steptrail(path, "show", "good", "--json").out == template.shown
    listed = steptrail(path, "runs", "--json")
    assert listed.code == 0
    assert {row["sessionId"]: row["damage"] for row in json.loads(listed.out)}.items() >= {
        "good": None,
        "other": None,
    }.items()
    followed = steptrail(path, "tail", "--json")
    assert followed.code == 0
    said = [json.loads(line) for line in followed.out.splitlines()]
    for stream in (GOOD, OTHER):
        version = template.states[stream].version
        assert [e["version"] for e in said if "agent:" + e.get("sessionId", "") == stream] == list(
            range(1, version + 1)
        )


def check_that_every_command_answers(path: Path) -> None:
    for words in (["show", "hurt"], ["show", "hurt", "--events"], ["why", "hurt"], ["tail", "hurt"], ["runs"]):
        done = steptrail(path, *words)
        assert done.code in {0, 2}
        assert (done.err == "") is (done.code == 0) or words == ["runs"]


async def read_and_folded(store: RecorderEventStore, stream: str) -> AgentState | CorruptRecord:
    try:
        records = (await store.read(stream)).records
        state, _ = await fold_stream(AGENT._replace(snapshots=None), store, stream)
        assert state.version == (records[-1].version if records else 0)
        return state
    except CorruptRecord as error:
        return error


@examples(60)
@given(st.lists(in_columns | in_the_order, min_size=1, max_size=2))
def test_damaged_rows_are_named_stay_where_they_are_and_are_never_taken_for_a_state(
    template: Template, damages: list[Damage]
) -> None:
    path = damaged(template, *damages)
    examined = steptrail(path, "doctor", "--json")
    assert examined.err == ""
    findings = json.loads(examined.out)["findings"]
    assert examined.code == (1 if any(finding["damage"] for finding in findings) else 0)
    assert {finding["stream"] for finding in findings}.isdisjoint({GOOD, OTHER})
    if rows(path) != rows(template.path):
        assert findings
    found = asked(path, lambda store: read_and_folded(store, HURT))
    if isinstance(found, CorruptRecord):
        assert (found.stream, found.version >= 1) == (HURT, True)
        assert f"record {found.version} of stream {HURT!r} (type {found.type_name!r}) cannot be read: " in str(found)
    elif found != template.states[HURT]:
        assert examined.code == 1
    check_that_the_others_are_as_they_were(template, path)
    check_that_every_command_answers(path)
    path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE commits SET position = 1, size = 1000 WHERE stream = :hurt AND version = :second",
        "UPDATE commits SET position = 1, size = 1000 WHERE stream = :hurt",
        "UPDATE commits SET size = size + 1 WHERE stream = :hurt AND version = :last",
        "UPDATE commits SET size = size - 0.5 WHERE stream = :hurt AND version = :second",
        "UPDATE events SET version = 0 WHERE stream = :hurt AND version = :end",
        "UPDATE events SET version = x'00' WHERE stream = :hurt AND version = 1",
    ],
)
def test_where_a_commit_and_its_events_disagree_every_command_ends_and_the_damage_is_named(
    template: Template, change: str
) -> None:
    path = template.copied()
    with by_hand(path) as connection:
        (hurt,) = connection.execute("SELECT number FROM streams WHERE id = ?", (HURT,)).fetchone()
        begins = [
            row[0] for row in connection.execute("SELECT version FROM commits WHERE stream = ? ORDER BY 1", (hurt,))
        ]
        places = {"hurt": hurt, "second": begins[1], "last": begins[-1], "end": template.events}
        connection.execute(change, places)
    examined = steptrail(path, "doctor", "--json")
    assert (examined.code, examined.err) == (1, "")
    assert {finding["stream"] for finding in json.loads(examined.out)["findings"] if finding["damage"]} >= {HURT}
    check_that_the_others_are_as_they_were(template, path)
    check_that_every_command_answers(path)
    path.unlink()


def test_an_event_that_lays_claim_to_another_stream_is_named_with_both_and_in_the_state_of_neither(
    template: Template,
) -> None:
    path = template.copied()
    with by_hand(path) as connection:
        numbers = dict(connection.execute("SELECT id, number FROM streams"))
        moved = "UPDATE events SET stream = ? WHERE stream = ? AND version = ?"
        connection.execute(moved, (numbers[OTHER], numbers[HURT], 2))
    examined = steptrail(path, "doctor", "--json")
    assert (examined.code, examined.err) == (1, "")
    named = {finding["stream"] for finding in json.loads(examined.out)["findings"] if finding["damage"]}
    assert (HURT in named, OTHER in named, GOOD in named) == (True, True, False)
    assert isinstance(asked(path, lambda store: read_and_folded(store, HURT)), CorruptRecord)
    assert asked(path, lambda store: read_and_folded(store, OTHER)) == template.states[OTHER]
    check_that_every_command_answers(path)
    path.unlink()


@examples(40)
@given(in_columns)
def test_a_damaged_snapshot_never_changes_a_state(template: Template, damage: Damage) -> None:
    def only_snapshots(connection: sqlite3.Connection, events: int) -> None:
        damage(connection, events)
        connection.execute("ATTACH DATABASE ? AS sound", (str(template.path),))
        for table in ("streams", "types", "commits", "events", "blobs"):
            connection.execute(f"DELETE FROM main.{table}")  # noqa: S608 - a name of ours
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM sound.{table}")  # noqa: S608 - a name of ours

    path = damaged(template, only_snapshots)
    state, _ = asked(path, lambda store: fold_stream(AGENT, store, HURT))
    assert state == template.states[HURT]
    path.unlink()


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 7)), min_size=1, max_size=8),
    st.none() | st.integers(0, 10**9),
)
def test_a_damaged_file_is_refused_or_named_and_never_taken_for_a_state(
    template: Template, flips: list[tuple[int, int]], cut: int | None
) -> None:
    path = template.copied()
    data = bytearray(path.read_bytes())
    for place, bit in flips:
        data[place % len(data)] ^= 1 << bit
    path.write_bytes(data if cut is None else data[: cut % len(data)])
    for words in (["doctor"], ["runs"], ["tail"], ["show", "hurt"], ["why", "good"]):
        assert steptrail(path, *words).code in {0, 1, 2}
    for stream, whole in template.states.items():
        try:
            state, fault = asked(path, partial(folded_and_verified, stream))
        except SteptrailError:
            continue
        # What a cut took off the very end leaves a whole stream behind.
        assert fault is not None or state == whole or state.version < whole.version
    path.unlink()


async def folded_and_verified(stream: str, store: RecorderEventStore) -> tuple[AgentState, ChainFault | None]:
    state, _ = await fold_stream(AGENT, store, stream)
    return state, await store.verify(stream)


@tool(approval=True)
def pay(cents: int, to: str) -> str:
    """Pay somebody."""
    paid.append((cents, to))
    return "paid"


paid: list[tuple[int, str]] = []


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return a store with a session whose call has been approved, and which nobody has gone on with."""
    path = tmp_path_factory.mktemp("approved") / "runs.db"
    states: dict[str, AgentState] = {}
    with Steptrail.open_sync(f"sqlite:///{path}") as trail:
        for stream in (HURT, GOOD):
            name = stream.partition(":")[2]
            asked = trail.run(payer(), name + LARGE, session=name)
            session = trail.session(name)
            session.approve(asked.state.open_approvals[0].id, by="ana")
            states[stream] = session.state()
    return Template(path, states)


def payer() -> Agent:
    model = ScriptedModel([call("pay", cents=100, to="ana"), "done"])
    return AgentBuilder("payer").with_model(model).with_tools(pay).build()


def gone_on_with(path: Path) -> tuple[list[tuple[int, str]], str | None, str]:
    """Resume; return what was paid, what came out, and the error."""
    paid.clear()
    with Steptrail.open_sync(f"sqlite:///{path}") as trail:
        try:
            ended = trail.session("hurt").resume(payer())
        except SteptrailError as error:
            return list(paid), None, str(error)
    return list(paid), ended.output, ""


def test_what_was_approved_and_changed_afterwards_is_not_run(approved: Template) -> None:
    path = approved.copied()
    assert gone_on_with(path) == ([(100, "ana")], "done", "")
    path = approved.copied()
    change_by_hand(
        path,
        "UPDATE stored_events SET content = "
        "CAST(replace(CAST(content AS TEXT), '\"cents\":100', '\"cents\":999') AS BLOB) "
        "WHERE stream = ? AND type LIKE 'inference.completed%'",
        HURT,
    )
    ran, _, error = gone_on_with(path)
    assert ran == []
    assert "its content does not match its digest" in error
    assert "nothing was done" in error


@examples(60)
@given(st.lists(in_columns | in_the_order, min_size=1, max_size=2))
def test_no_damage_leads_to_another_effect(approved: Template, damages: list[Damage]) -> None:
    path = damaged(approved, *damages)
    ran, output, error = gone_on_with(path)
    # A cut between two commits at the very end is no damage that can be seen, and takes an answer back at most.
    assert (ran, output, error) == ([(100, "ana")], "done", "") or not ran
    path.unlink()


positions = st.integers(1, 10**6)


@examples(40)
@given(st.booleans(), numbers, positions)
def test_a_changed_position_is_named(
    template: Template, approved: Template, is_open: bool, event: int, position: int
) -> None:
    template = approved if is_open else template
    path = template.copied()
    with by_hand(path) as connection:
        before = connection.execute("SELECT position, stream FROM stored_events ORDER BY 1").fetchall()
        place = place_of("stored_events", event % template.events + 1)
        connection.execute(f"UPDATE OR IGNORE stored_events SET position = ? WHERE {place}", (position,))  # noqa: S608
        after = connection.execute("SELECT position, stream FROM stored_events ORDER BY 1").fetchall()
    examined = json.loads(steptrail(path, "doctor", "--json").out)
    assert examined["healthy"] is (before == after)
    path.unlink()
