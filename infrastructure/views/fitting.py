"""Checks what a projection writes before a database is asked: it has to be of the kinds that its tables say.

Databases differ in what they take for another kind. SQLite keeps a text in a column of numbers, a server rounds a
part of one; and what a server says of a row that it refuses holds the row, which is of the log. So each value is looked
at here, and named by its type alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.ddl import Values, cleaned, names_of
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Key, Row, Table, taker

__all__ = ["check_tables", "keys_to_drop", "rows_to_put", "sums_to_add"]

_KINDS: Mapping[ColumnKind, tuple[type, str]] = {
    ColumnKind.INTEGER: (int, "whole numbers"),
    ColumnKind.TEXT: (str, "texts"),
    ColumnKind.BOOLEAN: (bool, "booleans"),
}


def check_tables(projection: Projection[Any], changes: Changes) -> None:
    """Raise `Unfit` for a table that the projection does not list, and for one of sums that is none, or the reverse."""
    if strange := (changes.rows.keys() | changes.sums.keys()) - set(projection.tables):
        names = ", ".join(sorted(table.name for table in strange))
        raise Unfit(f"{projection.name} wrote to {names}, which it does not list")
    for table, rows in changes.rows.items():
        if table.is_sums and rows:
            raise Unfit(f"{table.name} is a table of sums: `add` to it")
    for table in changes.sums:
        if not table.is_sums:
            raise Unfit(f"{table.name} is no table of sums: `put` rows into it")


def keys_to_drop(table: Table, keys: Sequence[Key]) -> Sequence[Values]:
    """Return the values with which rows are deleted. Raises `Unfit` for what is no key of the table."""
    return _fitting(table, [_whole_key(table, key) for key in keys])


def rows_to_put(table: Table, rows: Sequence[Row]) -> Sequence[Values]:
    """Return the values of rows. Raises `Unfit` for one that the table does not take."""
    names = names_of(table.columns)
    try:
        found = [*map(taker(names), rows)]
    except KeyError as error:
        raise Unfit(f"a row of {table.name} lacks the column {error}") from None
    if (odd := next((row for row in rows if len(row) != len(names)), None)) is not None:
        strange = sorted(odd.keys() - set(names))
        raise Unfit(f"a row of {table.name} has {strange}, and the table has no such column")
    return _fitting(table, found)


def sums_to_add(table: Table, sums: Mapping[Key, Mapping[str, int]]) -> Sequence[Values]:
    """Return the values of keys with what is added to them. Raises `Unfit` for what the table does not take."""
    names = names_of(table.amounts)
    for amounts in sums.values():
        if strange := amounts.keys() - set(names):
            raise Unfit(f"{sorted(strange)} is added to {table.name}, which has no such column")
    return _fitting(
        table, [(*_whole_key(table, key), *[added.get(name, 0) for name in names]) for key, added in sums.items()]
    )


def _whole_key(table: Table, key: Key) -> Key:
    if not isinstance(key, tuple) or len(key) != len(table.key):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Unfit(f"a key of {table.name} is a tuple of {len(table.key)}: ({', '.join(table.key)})")
    return key


def _fitting(table: Table, rows: Sequence[Values]) -> Sequence[Values]:
    """Return the values of the first columns of a table, or of all, without the characters that no database takes.

    Raises `Unfit` where one is not of the kind of its column. It goes by columns: which types are in one is enough.
    """
    for column, values in zip(table.columns, zip(*rows, strict=True), strict=False):
        for found in set(map(type, values)):
            _look(table, column, found)
    return cleaned(table.columns, rows)


def _look(table: Table, column: Column, found: type) -> None:
    wanted, said = _KINDS[column.kind]
    place = f"{table.name}.{column.name}"
    if found is type(None):
        if not column.is_optional:
            raise Unfit(f"{place} is None, and the column is not optional")
    elif not issubclass(found, wanted) or (found is bool and wanted is int):
        raise Unfit(f"{place} is a value of the type {found.__name__}, and the column holds {said}")
