"""The statements for a table of a read model, made from its description, for SQLite and PostgreSQL.

A statement that changes many rows has the marks of the database's driver in it, and takes the values in the order of
the columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from steptrail.projections.kernel.table import Column, ColumnKind, Scalar, Table, fitting

Values = tuple[Scalar, ...]


class Sql(NamedTuple):
    """The words that are the own ones of one database: its types, and the mark of a parameter."""

    types: Mapping[ColumnKind, str]
    mark: str
    has_comments: bool
    """Whether a comment on a column is a statement; otherwise it stands in the text of the table."""
    takes_none: bool
    """Whether a row is given with its None: SQLite's driver takes as long for one as for some values, and a server lays
    rows down in the order in which they come."""
    values_at_once: int
    """How many values a statement that puts rows is given at most: to run one costs SQLite's driver as much as to give
    it seven values. With 0 it puts one row."""

    def puts(
        self, table: Table, rows: Sequence[Values], prefix: str = "", columns: Sequence[Column] = ()
    ) -> Iterator[tuple[str, Sequence[Values]]]:
        """Yield what writes whole rows, given as the values of some columns or of all: a statement with its values.

        The other columns are None, in a row that is there too: that is what `excluded` holds of them.
        """
        columns = columns or table.columns
        behind = [quoted(column.name) for column in table.amounts]
        change = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in behind)}" if behind else "NOTHING"
        many, singly = self.values_at_once // len(columns), 0
        if many > 1 and len(rows) >= many:
            singly = len(rows) - len(rows) % many
            together = [tuple(chain.from_iterable(rows[first : first + many])) for first in range(0, singly, many)]
            yield f"{self._insert(table, prefix, columns, many)} DO {change}", together
        yield f"{self._insert(table, prefix, columns)} DO {change}", rows[singly:]

    def add(self, table: Table, prefix: str = "") -> str:
        """Return the statement that adds amounts to rows, given as the values of all columns."""
        place = prefix + quoted(table.name)
        sums = [f"{name} = there.{name} + excluded.{name}" for name in map(quoted, _names(table.amounts))]
        inserted = self._insert(table, prefix, table.columns).replace(f"INTO {place} ", f"INTO {place} AS there ", 1)
        return f"{inserted} DO UPDATE SET {', '.join(sums)}"

    def drop(self, table: Table, prefix: str = "") -> str:
        """Return the statement that deletes rows, given as the values of their keys."""
        found = " AND ".join(f"{quoted(name)} = {self.mark}" for name in table.key)
        return f"DELETE FROM {prefix}{quoted(table.name)} WHERE {found}"  # noqa: S608 - names of ours

    def in_order(self, table: Table, prefix: str = "") -> str:
        """Return the statement that reads all rows in the order of the key."""
        columns = ", ".join(map(quoted, _names(table.columns)))
        order = ", ".join(map(quoted, table.key))
        return f"SELECT {columns} FROM {prefix}{quoted(table.name)} ORDER BY {order}"  # noqa: S608 - names of ours

    def _insert(self, table: Table, prefix: str, columns: Sequence[Column], rows: int = 1) -> str:
        names = ", ".join(map(quoted, _names(columns)))
        marks = ", ".join([f"({', '.join([self.mark] * len(columns))})"] * rows)
        key = ", ".join(map(quoted, table.key))
        return f"INSERT INTO {prefix}{quoted(table.name)} ({names}) VALUES {marks} ON CONFLICT ({key})"  # noqa: S608


SQLITE = Sql(
    types={ColumnKind.INTEGER: "INTEGER", ColumnKind.TEXT: "TEXT", ColumnKind.BOOLEAN: "INTEGER"},
    mark="?",
    has_comments=False,
    takes_none=False,
    values_at_once=500,
)
POSTGRES = Sql(
    # By bytes, whatever the language of the database, so that both databases have one order.
    types={ColumnKind.INTEGER: "bigint", ColumnKind.TEXT: 'text COLLATE "C"', ColumnKind.BOOLEAN: "boolean"},
    mark="%s",
    has_comments=True,
    takes_none=True,
    values_at_once=0,
)


def statements_to_make(sql: Sql, table: Table, prefix: str = "") -> list[str]:
    """Return the statements that make a table with its indexes and comments. They may run again on it."""
    place = prefix + quoted(table.name)
    lines = [_line(sql, column, is_sum=table.is_sums and column in table.amounts) for column in table.columns]
    key = f"    PRIMARY KEY ({', '.join(map(quoted, table.key))})"
    kinds = {column.name: column.kind for column in table.columns}
    # A single number is the place of its row already. Rows of a longer key lie together when the key is their place.
    is_number = len(table.key) == 1 and kinds[table.key[0]] is ColumnKind.INTEGER
    end = ")" if sql.has_comments or is_number else ") WITHOUT ROWID"
    made = [f"CREATE TABLE IF NOT EXISTS {place} (\n" + "\n".join([*lines, key]) + f"\n{end}"]
    for number, index in enumerate(table.all_indexes, 1):
        columns = ", ".join(map(quoted, index.columns))
        where = f" WHERE {index.where}" if index.where else ""
        made.append(f"CREATE INDEX IF NOT EXISTS {quoted(f'{table.name}_{number}')} ON {place} ({columns}){where}")
    if sql.has_comments:
        made.append(f"COMMENT ON TABLE {place} IS {_text(table.says)}")
        made += [
            f"COMMENT ON COLUMN {place}.{quoted(column.name)} IS {_text(_meaning(column))}" for column in table.columns
        ]
        # All on one way to the server and back.
        return ["; ".join(made)]
    return made


def cleaned(columns: Sequence[Column], rows: Sequence[Values]) -> Sequence[Values]:
    """Return the values of these columns, or of the first of them, without the characters that no database takes.

    It goes by columns, because hardly any holds such a character.
    """
    unfit = set[int]()
    for place, (column, values) in enumerate(zip(columns, zip(*rows, strict=True), strict=False)):
        if column.kind is ColumnKind.TEXT:
            text = "".join(filter(None, values))  # they are texts, or None
            if fitting(text) != text:
                unfit.add(place)
    if not unfit:
        return rows
    return [
        tuple([fitting(value) if isinstance(value, str) and n in unfit else value for n, value in enumerate(row)])
        for row in rows
    ]


def quoted(name: str) -> str:
    """Return a name as SQL: some of ours are words of the language."""
    return f'"{name}"'


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _line(sql: Sql, column: Column, *, is_sum: bool) -> str:
    needed = "" if column.is_optional else " NOT NULL"
    if is_sum and not sql.has_comments:
        # SQLite would go on with a fraction where a server refuses what is too large.
        needed += f" CONSTRAINT \"no room for a sum\" CHECK (typeof({quoted(column.name)}) = 'integer')"
    meaning = "" if sql.has_comments else f"  -- {_meaning(column)}"
    return f"    {quoted(column.name)} {sql.types[column.kind]}{needed},{meaning}"


def _meaning(column: Column) -> str:
    said = f"{column.says}, in {column.unit}" if column.unit else column.says
    return " ".join(said.split())


def _text(said: str) -> str:
    return "'" + said.replace("'", "''") + "'"
