"""Deletes rows that are old, of runs that ended long ago, and rows of erased streams, with all that belongs to them.

An instant is remembered with the place of a projection, and every row that is older is gone, or goes. So what a batch
writes of a run that was pruned before is deleted in its transaction, and a rebuild that is told the instant ends with
the same rows. Sums are not touched.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.ddl import cleaned, quoted
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Key, Row, Scalar, Table, fitting

T = TypeVar("T")
_AT_ONCE = 100
"""How many rows or streams one statement names."""


class Aging:
    """The tables of a projection of which rows are deleted. `prefix` stands before their names."""

    def __init__(self, projection: Projection[Any], prefix: str) -> None:
        self._prefix = prefix
        self._below: Mapping[Table, Sequence[Table]] = {
            owner: [table for table in projection.tables if table.belongs_to is owner]
            for owner in projection.tables
            if owner.aged_by
        }

    def old_keys(self, statements: Statements, before: int) -> Mapping[Table, frozenset[Key]]:
        """Return the keys of the rows that are older and still there."""
        return {
            owner: frozenset(self._keys(statements, owner, f"{quoted(owner.aged_by)} < $1", before))
            for owner in self._below
        }

    def sweep(self, statements: Statements, before: int, most: int) -> int:
        """Delete at most so many older rows, with all that belongs to them, and return how many there were."""
        swept = 0
        for owner in self._below:
            at = quoted(owner.aged_by)
            found = self._keys(statements, owner, f"{at} < $1 ORDER BY {at} LIMIT {most - swept}", before)
            self._delete(statements, owner, found)
            swept += len(found)
        return swept

    def after(self, statements: Statements, changes: Changes, before: int) -> None:
        """Delete what a batch has written of rows that are older, or gone."""
        for owner, below in self._below.items():
            written = _put(changes, owner)
            ages = {key: row[owner.aged_by] for key, row in written.items()}
            kept = {key for key, at in ages.items() if not (isinstance(at, int) and at < before)}
            touched = {owner.key_of(row) for table in below for row in _put(changes, table).values()} | written.keys()
            for keys in cut(cleaned(owner.columns, [*(touched - kept)])):
                at = quoted(owner.aged_by)
                is_there = f"({any_of(owner.key, len(keys), 2)}) AND ({at} IS NULL OR {at} >= $1)"
                there = self._keys(statements, owner, is_there, before, *(value for key in keys for value in key))
                self._delete(statements, owner, sorted({*keys} - {*there}))

    def erase(self, statements: Statements, owner: Table, streams: Sequence[str]) -> None:
        """Delete the rows of some streams in a table that says of which they are, with all that belongs to them."""
        is_theirs = any_of([owner.of_stream], len(streams), 1)
        self._delete(statements, owner, self._keys(statements, owner, is_theirs, *map(fitting, streams)))

    def _keys(self, statements: Statements, owner: Table, where: str, *values: Scalar) -> list[Key]:
        key = ", ".join(map(quoted, owner.key))
        rows = statements.ask(f"SELECT {key} FROM {self._place(owner)} WHERE {where}", *values)  # noqa: S608
        return [tuple(row) for row in rows]

    def _delete(self, statements: Statements, owner: Table, keys: Sequence[Key]) -> None:
        for some in cut(keys):
            values = [value for key in some for value in key]
            for table in (*self._below.get(owner, ()), owner):
                statements.change(
                    f"DELETE FROM {self._place(table)} WHERE {any_of(owner.key, len(some), 1)}",  # noqa: S608
                    *values,
                )

    def _place(self, table: Table) -> str:
        return self._prefix + quoted(table.name)


def _put(changes: Changes, table: Table) -> Mapping[Key, Row]:
    return {key: row for key, row in changes.rows.get(table, {}).items() if row is not None}


def cut(values: Iterable[T]) -> Iterator[Sequence[T]]:
    """Yield values in pieces, of which each is for one statement."""
    left = iter(values)
    while some := list(islice(left, _AT_ONCE)):
        yield some


def any_of(names: Sequence[str], many: int, first: int) -> str:
    """Return the condition that the columns hold one of many keys, whose values begin with the parameter `first`."""
    if len(names) == 1:
        return f"{quoted(names[0])} IN ({', '.join(f'${first + number}' for number in range(many))})"
    marks = iter(range(first, first + many * len(names)))
    each = (" AND ".join(f"{quoted(name)} = ${next(marks)}" for name in names) for _ in range(many))
    return " OR ".join(f"({one})" for one in each)
