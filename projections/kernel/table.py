"""Describes a table of a read model once, for every database and for the page that documents it."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

INSTANT = "microseconds of UTC"
"""The unit of a column that holds instants."""
MILLIONTHS = "10^-6"
"""The unit of a column that holds plain numbers."""
_UNFIT = re.compile("[\0\ud800-\udfff]")

Scalar = str | int | bool | None
"""A value of a column. Numbers with a fraction are stored as whole numbers of a smaller unit, so that a sum does not
depend on the order of its parts."""

Row = Mapping[str, Scalar]
"""The columns of a row by name, with those of its key."""


Key = tuple[Scalar, ...]
"""The values of the key of a row, in the order of the columns."""


class ColumnKind(StrEnum):
    """The kinds of values that a column holds."""

    INTEGER = "integer"
    TEXT = "text"
    BOOLEAN = "boolean"


class Column(NamedTuple):
    """One column. `says` tells what it holds, `unit` in which unit; None is a value of it when it is optional.

    The values of a private one are words of a user, which no finding repeats.
    """

    name: str
    kind: ColumnKind
    says: str
    unit: str = ""
    is_optional: bool = False
    is_private: bool = False


class Index(NamedTuple):
    """An index over columns; with `where`, a condition in SQL, only over the rows for which it holds."""

    columns: Sequence[str]
    where: str = ""


class Table(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A table with a key. `key` names the first columns. Two tables are equal if they are the same object.

    In a table of sums (`is_sums`) all columns behind the key are integers, and amounts are added to them. In any other
    a row is put whole. `name` is private to a version of the projection, such as `v1_steps`. `totals` is the table of
    the same sums without some columns of the key: what is added to this one is added to that one too.

    `aged_by` names the column with the instant from which a row grows old, None as long as it does not; once it is set
    it stays. Old rows go when read models are pruned, with those that belong to them: the rows of a table that
    `belongs_to` theirs, and has the columns of its key, while theirs belongs to none. A row is written after the one
    that it belongs to.

    `of_stream` names the column with the stream whose events made the row. The rows of an erased stream are deleted by
    it, with those that belong to them; without one they stay until all is counted anew, as its parts of sums do.
    """

    name: str
    says: str
    columns: Sequence[Column]
    key: Sequence[str]
    indexes: Sequence[Index] = ()
    is_sums: bool = False
    totals: "Table | None" = None
    aged_by: str = ""
    belongs_to: "Table | None" = None
    of_stream: str = ""

    def __post_init__(self) -> None:
        self._check_parts()
        names = [column.name for column in self.columns]
        if list(self.key) != names[: len(self.key)] or not self.key:
            raise ValueError(f"the key of {self.name} is not made of its first columns: {', '.join(self.key)}")
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} has two columns of one name")
        if absent := [column.name for column in self.columns[: len(self.key)] if column.is_optional]:
            raise ValueError(f"the key of {self.name} is not there in each row: {', '.join(absent)} is optional")
        if self.is_sums and any(column.kind is not ColumnKind.INTEGER for column in self.amounts):
            raise ValueError(f"{self.name} adds up what is no integer")
        if self.is_sums and (self.aged_by or self.belongs_to):
            raise ValueError(f"{self.name} is a table of sums, which do not grow old")
        if (totals := self.totals) is not None and not (
            (self.is_sums and totals.is_sums and totals.totals is None)
            and (set(totals.key) < set(self.key) and [*totals.amounts] == [*self.amounts])
        ):
            raise ValueError(
                f"{totals.name} has no totals of {self.name}: it needs a part of the key, and the same sums"
            )
        instants = [column.name for column in self.columns if column.unit == INSTANT]
        if self.aged_by and self.aged_by not in instants:
            raise ValueError(f"{self.name} ages by {self.aged_by}, which is no column of {INSTANT}")
        if self.of_stream and (self.of_stream, ColumnKind.TEXT) not in [each[:2] for each in self.columns]:
            raise ValueError(f"{self.name} is of the stream in {self.of_stream}, which is no column of texts")
        if self.belongs_to is not None and not (self.belongs_to.aged_by and set(self.belongs_to.key) <= set(names)):
            raise ValueError(f"{self.name} belongs to {self.belongs_to.name}, which does not age or has another key")
        if self.belongs_to is not None and (owner := self.belongs_to.belongs_to) is not None:
            raise ValueError(
                f"{self.name} belongs to {self.belongs_to.name}, which belongs to {owner.name}: name the last one"
            )

    def _check_parts(self) -> None:
        others = {"belongs_to": self.belongs_to, "totals": self.totals}
        parts: Mapping[str, tuple[Sequence[object], type]] = {
            "columns": (self.columns, Column),
            "indexes": (self.indexes, Index),
            **{where: ([table], Table) for where, table in others.items() if table is not None},
        }
        for where, (found, kind) in parts.items():
            wrong = [each for each in found if not isinstance(each, kind)]  # pyright: ignore[reportUnnecessaryIsInstance]
            if wrong:
                raise ValueError(f"{self.name}: {wrong[0]!r} in `{where}` is no `{kind.__name__}`")

    @property
    def amounts(self) -> Sequence[Column]:
        """The columns behind the key."""
        return self.columns[len(self.key) :]

    @property
    def all_indexes(self) -> Sequence[Index]:
        """The indexes that are named, and behind them those by which rows are found that are to be deleted."""
        by_column = [[name] for name in (self.aged_by, self.of_stream) if name]
        by_owner = [self.belongs_to.key] if self.belongs_to is not None else []
        there = [self.key, *(index.columns for index in self.indexes if not index.where)]
        missing = [
            each
            for each in (*by_column, *by_owner)
            if not any(set(columns[: len(each)]) == set(each) for columns in there)
        ]
        return [*self.indexes, *map(Index, missing)]

    @property
    def blanks(self) -> Row:
        """The optional columns, each without a value: what a row says before anything is known."""
        return {column.name: None for column in self.columns if column.is_optional}

    @cached_property
    def key_of(self) -> Callable[[Row], Key]:
        """The function that returns the values of the key of a row, and raises `KeyError` where one is missing."""
        return taker(self.key)


def taker(names: Sequence[str]) -> Callable[[Row], tuple[Scalar, ...]]:
    """Return what takes these columns out of a row, in this order. It raises `KeyError` where one is missing."""
    if len(names) > 1:
        return itemgetter(*names)
    (only,) = names
    return lambda row: (row[only],)


def fitting(text: str) -> str:
    """Return a text in which what no database takes, NUL and halves of surrogate pairs, is replaced."""
    return text if text.isascii() and "\0" not in text else _UNFIT.sub("\ufffd", text)
