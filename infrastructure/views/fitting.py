"""Checks what a projection writes before a database is asked: it has to be of the kinds that its tables say.

Databases differ in what they take for another kind. SQLite keeps a text in a column of numbers, a server rounds a
part of one; and what a server says of a row that it refuses holds the row, which is of the log. So each value is looked
at here, and named by its type alone.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any

from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.ddl import Values, cleaned
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Key, Row, Table, taker

Columns = tuple[Column, ...]
_KINDS: Mapping[ColumnKind, tuple[type, str]] = {
    ColumnKind.INTEGER: (int, "whole numbers"),
    ColumnKind.TEXT: (str, "texts"),
    ColumnKind.BOOLEAN: (bool, "booleans"),
}


def check_tables(
    projection: Projection[Any], rows: Mapping[Table, Mapping[Key, object]], sums: Mapping[Table, object]
) -> None:
    """Raise `Unfit` for a table that the projection does not list, and for one of sums that is none, or the reverse."""
    if strange := (rows.keys() | sums.keys()) - set(projection.tables):
        names = ", ".join(sorted(table.name for table in strange))
        raise Unfit(f"{projection.name} wrote to {names}, which it does not list")
    for table, put in rows.items():
        if table.is_sums and put:
            raise Unfit(f"{table.name} is a table of sums: `add` to it")
    for table in sums:
        if not table.is_sums:
            raise Unfit(f"{table.name} is no table of sums: `put` rows into it")


def keys_to_drop(table: Table, keys: Sequence[Key]) -> Sequence[Values]:
    """Return the values with which rows are deleted. Raises `Unfit` for what is no key of the table."""
    found = [_whole_key(table, key) for key in keys]
    for types in set(map(_types, found)):
        _look(table, types)
    return cleaned(table.columns, found)


def rows_to_put(table: Table, rows: Sequence[Row], *, with_none: bool) -> Mapping[Columns, Sequence[Values]]:
    """Return the values of rows by the columns that they are of: all, or without None those in which a row has any.

    Raises `Unfit` for a row that the table does not take.
    """
    found: dict[Columns, list[Values]] = {}
    alike: dict[tuple[type, ...], list[Values]] = {}
    take, many = taker([column.name for column in table.columns]), len(table.columns)
    for row in rows:
        try:
            types = _types(values := take(row))
        except KeyError as error:
            raise Unfit(f"a row of {table.name} lacks the column {error}") from None
        if len(row) != many:
            strange = sorted(row.keys() - {column.name for column in table.columns})
            raise Unfit(f"a row of {table.name} has {strange}, and the table has no such column")
        if (those := alike.get(types)) is None:
            # What types a row has is looked at once, so that many rows cost little.
            _look(table, types)
            of = zip(table.columns, types, strict=True)
            columns = tuple([column for column, kind in of if with_none or kind is not NoneType])
            those = alike[types] = found.setdefault(columns, [])
        those.append(values)
    return {columns: cleaned(columns, _only(table, columns, those)) for columns, those in found.items()}


def _only(table: Table, columns: Columns, rows: Sequence[Values]) -> Sequence[Values]:
    """Return what rows, given as the values of all columns, have in some of them."""
    if len(columns) == len(table.columns):
        return rows
    places = [table.columns.index(column) for column in columns]
    return [*map(itemgetter(*places), rows)] if len(places) > 1 else [(row[places[0]],) for row in rows]


def sums_to_add(table: Table, sums: Mapping[Key, Mapping[str, int]]) -> Sequence[Values]:
    """Return the values of keys with what is added to them. Raises `Unfit` for what the table does not take."""
    names = [column.name for column in table.amounts]
    found: list[Values] = []
    for key, amounts in sums.items():
        if strange := amounts.keys() - set(names):
            raise Unfit(f"{sorted(strange)} is added to {table.name}, which has no such column")
        found.append((*_whole_key(table, key), *[amounts.get(name, 0) for name in names]))
    for types in set(map(_types, found)):
        _look(table, types)
    return cleaned(table.columns, found)


def _whole_key(table: Table, key: Key) -> Key:
    if not isinstance(key, tuple) or len(key) != len(table.key):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Unfit(f"a key of {table.name} is a tuple of {len(table.key)}: ({', '.join(table.key)})")
    return key


def _types(values: Values) -> tuple[type, ...]:
    return tuple(map(type, values))


def _look(table: Table, types: tuple[type, ...]) -> None:
    """Raise `Unfit` where a value of such a type is not of the kind of its column. `types` are of the first columns."""
    for column, found in zip(table.columns, types, strict=False):
        wanted, said = _KINDS[column.kind]
        place = f"{table.name}.{column.name}"
        if found is NoneType:
            if not column.is_optional:
                raise Unfit(f"{place} is None, and the column is not optional")
        elif not issubclass(found, wanted) or (found is bool and wanted is int):
            raise Unfit(f"{place} is a value of the type {found.__name__}, and the column holds {said}")
