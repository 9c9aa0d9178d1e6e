"""Describes a table of a read model once, for every database and for the page that documents it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

__all__ = ["Column", "ColumnKind", "Index", "Row", "Scalar", "Table"]

Scalar = str | int | bool | None
"""A value of a column. Numbers with a fraction are stored as whole numbers of a smaller unit, so that a sum does not
depend on the order of its parts."""

Row = Mapping[str, Scalar]
"""The columns of a row by name, with those of its key."""


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


class Table(Struct, frozen=True, kw_only=True, eq=False):
    """A table with a key. `key` names the first columns. Two tables are equal if they are the same object.

    In a table of sums (`is_sums`) all columns behind the key are integers, and amounts are added to them. In any other
    a row is put whole. `name` is private to a version of the projection, such as `v1_steps`.
    """

    name: str
    says: str
    columns: Sequence[Column]
    key: Sequence[str]
    indexes: Sequence[Index] = ()
    is_sums: bool = False

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if list(self.key) != names[: len(self.key)] or not self.key:
            raise ValueError(f"the key of {self.name} is not made of its first columns: {', '.join(self.key)}")
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} has two columns of one name")
        if self.is_sums and any(column.kind is not ColumnKind.INTEGER for column in self.amounts):
            raise ValueError(f"{self.name} adds up what is no integer")

    @property
    def amounts(self) -> Sequence[Column]:
        """The columns behind the key."""
        return self.columns[len(self.key) :]
