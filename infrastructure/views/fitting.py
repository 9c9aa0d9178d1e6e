"""Checks what a projection writes before a database is asked: it has to be of the kinds that its tables say.

Databases differ in what they take for another kind. SQLite keeps a text in a column of numbers, a server rounds a
part of one; and what a server says of a row that it refuses holds the row, which is of the log. So each value is looked
at here, and named by its type alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.ddl import cleaner, values_of
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Key, Row, Scalar, Table

__all__ = ["check_tables", "keys_to_drop", "rows_to_put", "sums_to_add"]

_Values = tuple[Scalar, ...]
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


def keys_to_drop(table: Table, keys: Sequence[Key]) -> list[_Values]:
    """Return the values with which rows are deleted. Raises `Unfit` for what is no key of the table."""
    clean, fits = cleaner(_key_columns(table)), _Fit(table, _key_columns(table))
    return [clean(fits(_whole_key(table, key))) for key in keys]


def rows_to_put(table: Table, rows: Sequence[Row]) -> list[_Values]:
    """Return the values of rows. Raises `Unfit` for one that the table does not take."""
    (of_row, _), fits, many = values_of(table), _Fit(table, table.columns), len(table.columns)
    made: list[_Values] = []
    for row in rows:
        try:
            made.append(fits(of_row(row)))
        except KeyError as error:
            raise Unfit(f"a row of {table.name} lacks the column {error}") from None
        if len(row) != many:
            strange = sorted(row.keys() - {column.name for column in table.columns})
            raise Unfit(f"a row of {table.name} has {strange}, and the table has no such column")
    return made


def sums_to_add(table: Table, sums: Mapping[Key, Mapping[str, int]]) -> list[_Values]:
    """Return the values of keys with what is added to them. Raises `Unfit` for what the table does not take."""
    (_, of_sum), fits = values_of(table), _Fit(table, table.columns)
    names = {column.name for column in table.amounts}
    made: list[_Values] = []
    for key, amounts in sums.items():
        if not amounts.keys() <= names:
            raise Unfit(f"{sorted(amounts.keys() - names)} is added to {table.name}, which has no such column")
        made.append(fits(of_sum(_whole_key(table, key), amounts)))
    return made


def _key_columns(table: Table) -> Sequence[Column]:
    return table.columns[: len(table.key)]


def _whole_key(table: Table, key: Key) -> Key:
    if not isinstance(key, tuple) or len(key) != len(table.key):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Unfit(f"a key of {table.name} is a tuple of {len(table.key)}: ({', '.join(table.key)})")
    return key


class _Fit:
    """Returns values as they are, and raises `Unfit` where one is not of the kind of its column.

    What types a row has is looked at once, so that many rows cost little.
    """

    def __init__(self, table: Table, columns: Sequence[Column]) -> None:
        self._table, self._columns = table, columns
        self._known = set[tuple[type, ...]]()

    def __call__(self, values: _Values) -> _Values:
        types = tuple(map(type, values))
        if types not in self._known:
            for column, each in zip(self._columns, types, strict=True):
                self._look(column, each)
            self._known.add(types)
        return values

    def _look(self, column: Column, found: type) -> None:
        wanted, said = _KINDS[column.kind]
        place = f"{self._table.name}.{column.name}"
        if found is type(None):
            if not column.is_optional:
                raise Unfit(f"{place} is None, and the column is not optional")
        elif not issubclass(found, wanted) or (found is bool and wanted is int):
            raise Unfit(f"{place} is a value of the type {found.__name__}, and the column holds {said}")
