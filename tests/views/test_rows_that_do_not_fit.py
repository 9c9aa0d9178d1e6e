"""What a projection of a service writes is of the kinds that its tables say, or it stops with a reason that says so."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ConfigurationError
from steptrail.events import ExecutionStarted, LogEntry
from steptrail.infrastructure.views.database import Statements, Unfit
from steptrail.infrastructure.views.generation import Generation
from steptrail.infrastructure.views.sqlite import SqliteViews
from steptrail.projections import INSTANT, Changes, Column, ColumnKind, Index, Projection, Table
from steptrail.testing import ScriptedModel

_I, _T, _B = ColumnKind.INTEGER, ColumnKind.TEXT, ColumnKind.BOOLEAN
ROWS = Table(
    name="v1_odd",
    says="rows",
    columns=(Column("place", _I, "where"), Column("number", _I, "a number"), Column("text", _T, "a text", "", True)),
    key=("place",),
)
FLAGS = Table(
    name="v1_odd_flags", says="flags", columns=(Column("name", _T, "which"), Column("is_so", _B, "so")), key=("name",)
)
SUMS = Table(
    name="v1_odd_sums",
    says="sums",
    columns=(Column("name", _T, "of what"), Column("amount", _I, "how much")),
    key=("name",),
    is_sums=True,
)
Write = Callable[[Any], None]


class Odd(Projection[int]):
    name, prefixes, types = "odd", ("agent:",), (ExecutionStarted.TYPE,)
    tables: Sequence[Table] = (ROWS, FLAGS, SUMS)

    def __init__(self, write: Write) -> None:
        self._write = write

    def begin(self, stream: str) -> int:
        return 0

    def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int:
        self._write(changes)
        return fold


def row(**given: Any) -> Mapping[str, Any]:
    return {"place": 1, "number": 7, "text": "x", **given}


WRONG: Mapping[str, tuple[Write, str]] = {
    "a text for a number": (lambda c: c.put(ROWS, row(number="7")), "number is a value of the type str"),
    "a part of a number": (lambda c: c.put(ROWS, row(number=1.5)), "number is a value of the type float"),
    "a boolean for a number": (lambda c: c.put(ROWS, row(number=True)), "number is a value of the type bool"),
    "a number for a text": (lambda c: c.put(ROWS, row(text=7)), "text is a value of the type int"),
    "bytes for a text": (lambda c: c.put(ROWS, row(text=b"x")), "text is a value of the type bytes"),
    "a list for a text": (lambda c: c.put(ROWS, row(text=["x"])), "text is a value of the type list"),
    "a number for a boolean": (lambda c: c.put(FLAGS, {"name": "a", "is_so": 1}), "is_so is a value of the type int"),
    "None for a number": (lambda c: c.put(ROWS, row(number=None)), "number is None, and the column is not optional"),
    "a column too many": (lambda c: c.put(ROWS, row(more=1)), "the table has no such column"),
    "a column too few": (lambda c: c.put(ROWS, {"place": 1, "number": 7}), "lacks the column 'text'"),
    "a text for a table": (lambda c: c.put("v1_odd", row()), "a str is no Table"),
    "None for a table": (lambda c: c.add(None, ("a",), {"amount": 1}), "a NoneType is no Table"),
    "a text in a sum": (lambda c: c.add(SUMS, ("a",), {"amount": "7"}), "amount is a value of the type str"),
    "a part in a sum": (lambda c: c.add(SUMS, ("a",), {"amount": 1.5}), "amount is a value of the type float"),
    "another column in a sum": (lambda c: c.add(SUMS, ("a",), {"amuont": 1}), "which has no such column"),
    "a text for a key": (lambda c: c.add(SUMS, "a", {"amount": 1}), "a key of v1_odd_sums is a tuple of 1"),
    "a number in a key": (lambda c: c.add(SUMS, (3,), {"amount": 1}), "name is a value of the type int"),
    "a key that is too long": (lambda c: c.drop(ROWS, (1, 2)), "a key of v1_odd is a tuple of 1"),
    "a row in sums": (lambda c: c.put(SUMS, {"name": "a", "amount": 1}), "is a table of sums: `add` to it"),
    "a sum in rows": (lambda c: c.add(ROWS, (1,), {"number": 1}), "is no table of sums: `put` rows into it"),
}


async def stopped_at(trail: Steptrail) -> str:
    """Return why the projection has stopped, in its last line, after a run."""
    await trail.run(AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).build(), "Hi", session="a")
    assert (await trail.views.sql("SELECT count(*) FROM executions")).rows == [(1,)]
    status = {each.name: each for each in await trail.views.status()}
    assert status["runs"].error is None
    return (status["odd"].error or "").strip().rpartition("\n")[2]


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused_with_a_reason_and_not_ours(tmp_path: Path, what: str) -> None:
    write, reason = WRONG[what]
    (path := tmp_path / "views.db").touch()
    odd, generation = Odd(write), Generation(1, SqliteViews(path, patience=60.0))

    def work(statements: Statements) -> None:
        changes = Changes()
        write(changes)
        generation.apply(statements, odd, changes)

    with closing(generation.database) as database:
        database.write(lambda statements: generation.prepare(statements, [odd]))
        with pytest.raises((Unfit, TypeError), match=re.escape(reason)):
            database.write(work)
        written = database.read(lambda statements: [[*generation.rows(statements, each)] for each in odd.tables])
        assert written == [[], [], []]


# SQLite would keep the first, and a server round the second; the others are refused elsewhere.
@pytest.mark.parametrize("what", ["a text for a number", "a part of a number", "a row in sums", "a text for a table"])
async def test_what_does_not_fit_stops_the_projection(store_url: str, what: str) -> None:
    write, reason = WRONG[what]
    async with Steptrail.open(store_url, projections=[Odd(write)]) as trail:
        assert reason in await stopped_at(trail)
        for view in ("odd", "odd_flags", "odd_sums"):
            assert (await trail.views.sql(f"SELECT * FROM {view}")).rows == []  # noqa: S608 - names of ours


async def test_a_sum_that_a_column_has_no_room_for_stops_the_projection(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Odd(lambda c: c.add(SUMS, ("a",), {"amount": 2**62}))]) as trail:
        for session in ("a", "b"):
            await trail.run(AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).build(), "Hi", session=session)
            assert (await trail.views.sql("SELECT amount FROM odd_sums")).rows == [(2**62,)]
        status = {each.name: each for each in await trail.views.status()}
        assert re.search("no room for a sum|bigint out of range", status["odd"].error or "")


async def test_the_reason_does_not_repeat_what_was_said(store_url: str) -> None:
    def write(changes: Any) -> None:
        changes.put(ROWS, row(number=None, text="the card is 4111"))

    async with Steptrail.open(store_url, projections=[Odd(write)]) as trail:
        await stopped_at(trail)
        status = {each.name: each for each in await trail.views.status()}
        assert "4111" not in (status["odd"].error or "")


async def test_what_fits_is_taken(store_url: str) -> None:
    def write(changes: Changes) -> None:
        changes.put(ROWS, row(text=None))
        changes.put(FLAGS, {"name": ColumnKind.TEXT, "is_so": True})
        changes.add(SUMS, ("a",), {"amount": 2})
        changes.drop(ROWS, (5,))

    async with Steptrail.open(store_url, projections=[Odd(write)]) as trail:
        assert await stopped_at(trail) == ""
        assert (await trail.views.sql("SELECT * FROM odd")).rows == [(1, 7, None)]
        assert (await trail.views.sql("SELECT name FROM odd_flags WHERE is_so")).rows == [("text",)]
        assert (await trail.views.sql("SELECT * FROM odd_sums")).rows == [("a", 2)]
        assert await trail.views.verify() == []


async def test_what_becomes_none_is_none(store_url: str) -> None:
    texts = ["x", None, "y", None]

    def write(changes: Changes) -> None:
        changes.put(ROWS, row(text=texts.pop(0)))
        changes.put(ROWS, row(place=2, text=texts.pop(0)))
        texts.reverse()

    async with Steptrail.open(store_url, projections=[Odd(write)]) as trail:
        for session, found in (("a", [(1, 7, "x"), (2, 7, None)]), ("b", [(1, 7, None), (2, 7, "y")])):
            await trail.run(AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).build(), "Hi", session=session)
            assert (await trail.views.sql("SELECT * FROM odd ORDER BY place")).rows == found


def table(*columns: Any, **others: Any) -> Table:
    return Table(name="v1_odd", says="s", columns=columns, key=(columns[0].name,), **others)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("tables", ("v1_odd",), "'v1_odd' in `tables` is no `Table`"),
        ("tables", ROWS, "`tables` is a tuple of `Table`"),
        ("tables", None, "`tables` is a tuple of `Table`"),
        ("tables", (table(Column("a", "float", "x")),), "the kind of a in v1_odd is one of `ColumnKind`"),  # type: ignore[arg-type]
        ("tables", (table(Column("a", _I, None)),), "are texts, not None"),  # type: ignore[arg-type]
        ("tables", (table(Column("a", _T, "x", INSTANT)),), '"a" in v1_odd has the unit of a number and is no integer'),
        ("tables", (table(Column("at", _I, "x", INSTANT), Column("at_us", _I, "y")),), "two columns 'at_us'"),
        ("types", (ExecutionStarted,), "`types` are texts, such as `ToolExecutionCompleted.TYPE`"),
        ("prefixes", (1,), "`prefixes` are texts, such as `agent:`, not 1"),
    ],
)
def test_what_is_no_projection_is_refused_before_the_store_is_opened(
    tmp_path: Path, attribute: str, value: Any, reason: str
) -> None:
    projection = Odd(lambda changes: None)
    setattr(projection, attribute, value)
    with pytest.raises(ConfigurationError) as refused:
        Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}", projections=[projection])
    assert reason in str(refused.value)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("part", "value"), [("columns", ("a",)), ("indexes", (("a",),)), ("belongs_to", "v1_other"), ("indexes", (Column,))]
)
def test_a_table_of_something_else_is_refused(part: str, value: Any) -> None:
    given: dict[str, Any] = {"name": "v1_odd", "says": "s", "columns": (Column("a", _I, "x"),), "key": ("a",)}
    assert Table(**given, indexes=(Index(("a",)),)).key == ("a",)
    with pytest.raises(ValueError, match=f"in `{part}` is no `"):
        Table(**{**given, part: value})
