"""A database as read models need it: statements inside one transaction, to write and to read.

The parameters of a statement are `$1`, `$2` and so on in both databases. A statement for many rows has the marks of
`Sql` instead.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from steptrail.infrastructure.views.ddl import Sql
from steptrail.projections.kernel.table import Scalar

__all__ = ["Answer", "Database", "Selected", "Statements", "Unfit"]

T = TypeVar("T")
Answer = list[tuple[Any, ...]]
"""The rows of an answer."""


class Selected(NamedTuple):
    """The answer to a question of somebody else: the names of the columns, the rows, and whether there were more."""

    columns: Sequence[str]
    rows: Answer
    is_cut: bool


class Unfit(Exception):
    """Raised when a table does not take a row: the code that made the row is wrong. Nothing was written."""


class Statements(Protocol):
    """Runs statements inside one transaction. Raises `Unfit` for rows that a table does not take."""

    def ask(self, text: str, *values: Scalar) -> Answer:
        """Return the rows of a question."""
        ...

    def select(self, text: str, values: Sequence[Scalar], most: int) -> Selected:
        """Return the first rows of a question that somebody else has written.

        Raises `QueryRefused` for one that is not understood, or does not only read.
        """
        ...

    def change(self, text: str, *values: Scalar) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def change_all(self, text: str, rows: Iterable[Sequence[Scalar]]) -> None:
        """Run a statement for each of many rows."""
        ...


class Database(Protocol):
    """Runs work in transactions; blocking. Raises `StoreError` when the database does not answer."""

    @property
    def sql(self) -> Sql:
        """The words that are the own ones of the database."""
        ...

    def write(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, as a whole or not at all. Work that the database undid may be run again."""
        ...

    def read(self, work: Callable[[Statements], T], *, seconds: float | None = None) -> T:
        """Return `work(statements)`, which sees one instant and changes nothing.

        Raises `QueryRefused` after so many seconds, if they are given.
        """
        ...

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        ...
