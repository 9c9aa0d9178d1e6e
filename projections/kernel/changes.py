"""Collects what a batch of events changes in the tables of a projection, each row once."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

from steptrail.projections.kernel.table import Key, Row, Table

V = TypeVar("V")


class _ByTable(defaultdict[Table, dict[Key, V]]):
    """Keeps the changes of each table. Raises `TypeError` for what is none, where it is written to first."""

    def __init__(self) -> None:
        super().__init__(dict)

    def __missing__(self, table: Table) -> dict[Key, V]:
        if not isinstance(table, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a {type(table).__name__} is no Table: changes name one of the tables of the projection")
        return super().__missing__(table)


class Changes:
    """The rows to write after a batch. What was put or dropped last under a key holds; amounts are added up."""

    def __init__(self) -> None:
        self.rows: Mapping[Table, dict[Key, Row | None]] = _ByTable[Row | None]()
        """Table -> key -> the whole row; None for a row to delete."""
        self._sums: Mapping[Table, dict[Key, dict[str, int]]] = _ByTable[dict[str, int]]()

    @property
    def sums(self) -> Mapping[Table, Mapping[Key, Mapping[str, int]]]:
        """Table of sums -> key -> column -> the amount to add; with the totals, which are made of the others here."""
        found: dict[Table, dict[Key, dict[str, int]]] = dict(self._sums)
        for table, sums in self._sums.items():
            if (totals := table.totals) is not None:
                places = [table.key.index(name) for name in totals.key]
                total = {key: dict(amounts) for key, amounts in found.get(totals, {}).items()}
                for key, amounts in sums.items():
                    # A key that is none is refused when it is written, as that of the table itself.
                    if isinstance(key, tuple) and len(key) == len(table.key):  # pyright: ignore[reportUnnecessaryIsInstance]
                        _add(total, tuple([key[place] for place in places]), amounts)
                found[totals] = total
        return found

    def put(self, table: Table, row: Row) -> None:
        """Write a whole row, in place of the one with the same key. Raises `KeyError` where its key is missing.

        It is written as it is when the batch ends. So it may be a dictionary that a fold keeps and changes: every entry
        that changes it has to put it again, and none may change its key.
        """
        self.rows[table][table.key_of(row)] = row

    def drop(self, table: Table, key: Key) -> None:
        """Delete the row with this key, if there is one."""
        self.rows[table][key] = None

    def add(self, table: Table, key: Key, amounts: Mapping[str, int]) -> None:
        """Add amounts to the row with this key in a table of sums, and to its totals.

        A row that is missing begins with zeros.
        """
        _add(self._sums[table], key, amounts)


def _add(sums: dict[Key, dict[str, int]], key: Key, amounts: Mapping[str, int]) -> None:
    row = sums.get(key)
    if row is None:
        sums[key] = dict(amounts)
        return
    for name, amount in amounts.items():
        row[name] = row.get(name, 0) + amount
