"""Collects what a batch of events changes in the tables of a projection, each row once."""

from collections.abc import Mapping

from steptrail.projections.kernel.table import Key, Row, Table

__all__ = ["Changes"]


class Changes:
    """The rows to write after a batch. What was put or dropped last under a key holds; amounts are added up."""

    def __init__(self) -> None:
        self.rows: dict[Table, dict[Key, Row | None]] = {}
        """Table -> key -> the whole row; None for a row to delete."""
        self.sums: dict[Table, dict[Key, dict[str, int]]] = {}
        """Table of sums -> key -> column -> the amount to add."""

    def put(self, table: Table, row: Row) -> None:
        """Write a whole row, in place of the one with the same key."""
        self.rows.setdefault(table, {})[table.key_of(row)] = row

    def drop(self, table: Table, key: Key) -> None:
        """Delete the row with this key, if there is one."""
        self.rows.setdefault(table, {})[key] = None

    def add(self, table: Table, key: Key, amounts: Mapping[str, int]) -> None:
        """Add amounts to the row with this key in a table of sums. A row that is missing begins with zeros."""
        row = self.sums.setdefault(table, {}).setdefault(key, {})
        for name, amount in amounts.items():
            row[name] = row.get(name, 0) + amount
