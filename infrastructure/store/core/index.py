"""The index of a store: one row for each stream, written in the transaction of the commit that changes its standing.

What is open, due, or waited for is asked here and nowhere else, so no list reads the log, and none is late. The two
databases differ in how a parameter is marked, in the schema before a table, and in how rows become JSON.
"""

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

import msgspec
from msgspec.structs import replace

from steptrail.domain.base import LARGEST
from steptrail.domain.kernel.by_prefix import id_of, prefix_of
from steptrail.domain.kernel.erasure import ERASED
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.standing import Wait
from steptrail.domain.prices import Cost
from steptrail.domain.readable import readable
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core import tables

IndexRow = tuple[object, ...]
"""Id, `COLUMNS`, damage, and the waits as JSON, as `select` asks for them."""

COLUMNS: tuple[LiteralString, ...] = tuple(
    name for name in tables.COLUMNS["streams"] if name not in {"number", "id", "damage"}
)
"""The columns of the table of streams that a row consists of."""

WAIT_COLUMNS: tuple[LiteralString, ...] = tuple(name for name in tables.COLUMNS["waits"] if name != "stream")

_KEPT = {"parent", "began_by", "status", "updated_at"}
FORGOTTEN: LiteralString = ", ".join([f"{column} = NULL" for column in COLUMNS if column not in _KEPT])
"""Sets the columns that say nothing of an erased stream any more."""

_MOST_MARKS = 500
"""So many values are parameters of their own. Of 65,535 PostgreSQL takes no more, and SQLite may of 32,766."""
_LONGEST = 500
"""Characters of a name; people give names, and a row is read with 99 others."""


class Dialect(NamedTuple):
    """The words of one database in a statement: its schema, the mark of a parameter, how to make and read JSON arrays.

    `array` makes an array of columns, and `all_of` one of all rows, as text; `each_of` asks for the texts of an array
    that is a parameter. `numbered` is the table of streams as `s`, of those alone whose numbers a question answers,
    each looked up; `last_of_them` is the order in which the one that began last comes first, which ends with a limit.
    """

    schema: LiteralString
    mark: LiteralString
    array: LiteralString
    all_of: LiteralString
    each_of: LiteralString
    numbered: LiteralString
    last_of_them: LiteralString


def columns(row: RunSummary) -> tuple[str | int | float | None, ...]:
    """Return the values of `COLUMNS`."""
    parent = row.parent
    return (
        row.version,
        _text(row.name),
        row.tenant,
        row.status.value,
        row.standing.value,
        row.stop_reason,
        _text(row.resolved_by),
        int(row.answered),
        row.due_at,
        _text(row.paused_by),
        row.recorded_errors,
        row.executions,
        row.steps,
        row.active_seconds,
        None if row.cost is None else msgspec.json.encode(row.cost).decode(),
        None if parent is None else parent.stream,
        None if parent is None else msgspec.json.encode(parent).decode(),
        row.fork_of,
        row.started_at,
        row.updated_at,
    )


def as_listed(row: RunSummary) -> RunSummary:
    """Return a row as a list shows it: long names are cut."""
    return replace(row, name=_text(row.name) or "", resolved_by=_text(row.resolved_by), paused_by=_text(row.paused_by))


def waits(row: RunSummary) -> list[tuple[str | int | None, ...]]:
    """Return the values of `WAIT_COLUMNS` for each wait."""
    return [
        (each.id, each.kind, each.since, each.due_at, each.asked_at_version, each.answered_at, each.on)
        for each in row.waits
    ]


def as_json(row: RunSummary) -> str:
    """Return the row as one JSON object, its waits as a list of objects under `waits`."""
    lines = [dict(zip(WAIT_COLUMNS, each, strict=True)) for each in waits(row)]
    return msgspec.json.encode({**dict(zip(COLUMNS, columns(row), strict=True)), "waits": lines}).decode()


def select(asked: IndexQuery, dialect: Dialect) -> tuple[LiteralString, list[str | int]]:
    """Return the statement that answers a query, and its parameters. The newest stream comes first."""
    found, order, parameters = _found(asked, dialect)
    listed = ", ".join(f"s.{column}" for column in COLUMNS)
    wait = f"{dialect.array}({', '.join(f'w.{column}' for column in WAIT_COLUMNS)})"
    awaited = dialect.all_of.format(wait)
    return (
        f"SELECT s.id, {listed}, s.damage, (SELECT {awaited} FROM {dialect.schema}waits w WHERE w.stream = s.number) "  # noqa: S608
        f"{found} ORDER BY {order} LIMIT {dialect.mark}"
    ), [*parameters, LARGEST if asked.limit is None else asked.limit]


def select_count(asked: IndexQuery, dialect: Dialect) -> tuple[LiteralString, list[str | int]]:
    """Return the statement that counts the rows of a query, whatever its limit, and its parameters."""
    found, _, parameters = _found(asked, dialect)
    return f"SELECT count(*) {found}", parameters


def _found(asked: IndexQuery, dialect: Dialect) -> tuple[LiteralString, LiteralString, list[str | int]]:
    """Return where the rows of a query are found, in which order they come, and the parameters."""
    schema, mark = dialect.schema, dialect.mark
    where: list[LiteralString] = [f"s.status = '{ERASED}'" if asked.erased else "s.version IS NOT NULL"]
    parameters: list[str | int] = []

    def demand(clause: LiteralString, *values: str | int) -> None:
        where.append(clause)
        parameters.extend(values)

    of_row: tuple[tuple[LiteralString, str | int | None], ...] = (
        ("status =", asked.status),
        ("stop_reason =", asked.stop_reason),
        ("name =", _text(asked.name)),
        ("tenant =", asked.tenant),
        ("standing =", asked.standing),
        ("started_at >=", asked.since),
        ("started_at <", asked.until),
    )
    for comparison, value in of_row:
        if value is not None:
            demand(f"s.{comparison} {mark}", value)
    among: tuple[tuple[LiteralString, Sequence[str] | None], ...] = (
        ("id", asked.streams),
        ("parent", asked.parents),
        ("fork_of", asked.forked_from),
    )
    for column, values in among:
        if values is not None and len(values) > _MOST_MARKS:
            demand(f"s.{column} IN ({dialect.each_of})", _array(values))
        elif values is not None:
            demand(f"s.{column} IN ({_marks(mark, len(values))})", *values)
    if asked.roots:
        demand("s.parent IS NULL")
    if asked.left_behind:
        demand("s.parent IS NOT NULL AND s.standing <> 'done' AND s.damage IS NULL")
        demand(f"'done' = (SELECT p.standing FROM {schema}streams p WHERE p.id = s.parent)")  # noqa: S608
    if asked.due_by is not None and asked.moved_by is None and asked.unless_leased is None:
        # Not as one of several: in the order of the index that has it.
        demand(f"s.due_at <= {mark}", asked.due_by)
    if any(cause is not None for cause in (asked.due_by, asked.moved_by, asked.unless_leased)):
        demand("s.damage IS NULL")
    if asked.due_after is not None:
        demand(f"(s.due_at, s.id) > ({mark}, {mark})", *asked.due_after)
    if asked.ended_before is not None:
        demand(f"s.standing = 'done' AND s.due_at IS NULL AND s.updated_at < {mark}", asked.ended_before)
    if asked.after is not None:
        demand(f"s.number < (SELECT number FROM {schema}streams WHERE id = {mark})", asked.after)  # noqa: S608
    if asked.waits_for is not None:
        kinds = _marks(mark, len(asked.waits_for))
        waiting: LiteralString = f"SELECT stream FROM {schema}waits WHERE answered_at IS NULL AND kind IN ({kinds})"  # noqa: S608
        still_open: LiteralString = f"(due_at IS NULL OR due_at > {mark})"
        demand(f"s.number IN ({waiting} AND {still_open})", *asked.waits_for, asked.waits_at)
    table: LiteralString = f"{schema}streams s"
    order: LiteralString = "s.number DESC" if asked.due_after is None else "s.due_at, s.id"
    numbers, of_numbers = _numbers(asked, dialect)
    if numbers is not None:
        table, order = dialect.numbered.format(numbers), dialect.last_of_them
    return f"FROM {table} WHERE {' AND '.join(where)}", order, [*of_numbers, *parameters]


def _numbers(asked: IndexQuery, dialect: Dialect) -> tuple[LiteralString | None, list[str | int]]:
    """Return the question for the numbers of what an owner may go on with, by its several causes; None for none."""
    schema, mark = dialect.schema, dialect.mark
    found: list[LiteralString] = []
    parameters: list[str | int] = []
    if asked.unless_leased is not None:
        found.append(
            f"SELECT number FROM {schema}streams WHERE standing = 'working' AND id NOT IN ({dialect.each_of})"  # noqa: S608
        )
        parameters.append(_array(sorted(asked.unless_leased)))
    if asked.moved_by is not None:
        found += (_MOVED.format(schema=schema, mark=mark), _AHEAD.format(schema=schema, mark=mark))
        parameters += (asked.moved_by, asked.moved_by)
    if found and asked.due_by is not None:
        found.append(f"SELECT number FROM {schema}streams WHERE due_at <= {mark}")  # noqa: S608 - texts of ours
        parameters.append(asked.due_by)
    return " UNION ALL ".join(found) or None, parameters


# From each stream that rests down to those that it waits for, which may wait for others. One that is not there has not
# begun, and one that has ended is awaited: in both cases the stream above goes on. Questions for one value keep a
# database from reading all streams to join them.
_MOVED: LiteralString = (
    "SELECT root AS number FROM (WITH RECURSIVE below (root, id) AS ("
    "SELECT w.stream, w.waits_on FROM {schema}waits w WHERE w.waits_on IS NOT NULL "
    "AND 'resting' = (SELECT p.standing FROM {schema}streams p WHERE p.number = w.stream) UNION "
    "SELECT b.root, w.waits_on FROM below b, {schema}waits w WHERE w.waits_on IS NOT NULL AND w.stream = "
    "(SELECT c.number FROM {schema}streams c WHERE c.id = b.id AND c.standing = 'resting')) "
    "SELECT b.root FROM below b WHERE coalesce((SELECT coalesce(c.standing, '') NOT IN ('resting', 'paused') "
    "OR coalesce((c.due_at <= {mark} OR c.due_at <= c.updated_at) AND c.damage IS NULL, false) "
    "FROM {schema}streams c WHERE c.id = b.id), true)) moved"
)

# What was due when it was stored is due, also where the clock of whoever stored it was ahead.
_AHEAD: LiteralString = "SELECT number FROM {schema}streams WHERE due_at <= updated_at AND updated_at > {mark}"


def _array(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()


def _marks(mark: LiteralString, number: int) -> LiteralString:
    marks: list[LiteralString] = [mark] * number
    return ", ".join(marks) or "NULL"


def summary_of(found: IndexRow) -> RunSummary:
    """Return a row as the value that was stored. One that a hand has spoilt says so in its `damage`."""
    stream, *values, damage, awaited = found
    said: dict[str, object] = dict(zip(COLUMNS, values, strict=True))
    kind, session_id = prefix_of(str(stream)).removesuffix(":"), id_of(str(stream))
    _, began_by, cost = said.pop("parent"), said.pop("began_by"), said.pop("cost")
    try:
        if said["status"] == ERASED:
            said = {"updated_at": said["updated_at"], "is_erased": True}
        return msgspec.convert(
            {
                **said,
                "kind": kind,
                "session_id": session_id,
                "answered": bool(said.get("answered")),
                "cost": None if cost is None else msgspec.json.decode(str(cost), type=readable(Cost)),
                "parent": None if began_by is None else msgspec.json.decode(str(began_by), type=readable(ParentRef)),
                "waits": _waits(awaited),
                "damage": damage,
            },
            readable(RunSummary),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        return RunSummary(kind=kind, session_id=session_id, damage=f"its row in the index cannot be read: {error}")


def _waits(awaited: object) -> list[Wait]:
    lines: Sequence[Sequence[object]] = [] if awaited is None else msgspec.json.decode(str(awaited))
    named = [dict(zip((*WAIT_COLUMNS[:-1], "on"), line, strict=True)) for line in lines]
    found = msgspec.convert(named, readable(list[Wait]))
    return sorted(found, key=lambda wait: (wait.asked_at_version, wait.id))


def _text(value: str | None) -> str | None:
    # A server takes no NUL in a text.
    return None if value is None else value[:_LONGEST].replace("\0", "\ufffd")
