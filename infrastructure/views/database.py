"""A database as read models need it: statements inside one transaction, to write and to read.

The parameters of a statement are `$1`, `$2` and so on in both databases. A statement for many rows has the marks of
`Sql` instead.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from steptrail.domain.errors import ConfigurationError, QueryRefused
from steptrail.infrastructure.views.ddl import Sql
from steptrail.projections.kernel.table import Scalar

T = TypeVar("T")
Answer = list[tuple[Any, ...]]
"""The rows of an answer."""

MOST_BYTES = 64_000_000
"""How large an answer to somebody else may be: the sum of its texts and bytes, and 8 for any other value."""


class Selected(NamedTuple):
    """The answer to a question of somebody else: the names of the columns, the rows, and whether there were more."""

    columns: Sequence[str]
    rows: Answer
    is_cut: bool


def taken(rows: Iterable[tuple[Any, ...]], most: int) -> tuple[Answer, bool]:
    """Return the first rows, at most `most` and as many as `MOST_BYTES` hold, and whether there are more."""
    found: Answer = []
    room = MOST_BYTES
    for row in rows:
        room -= bytes_of(row)
        if len(found) == most or room < 0:
            return found, True
        found.append(row)
    return found, False


def bytes_of(row: Sequence[object]) -> int:
    """Return how large a row is."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


class TimeToAnswer:
    """When a question is given up: after so many seconds from now, or once nobody waits for its answer any more."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._end = seconds, time.monotonic() + seconds
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self.is_given_up = False

    @property
    def is_over(self) -> bool:
        """Whether no answer is wanted any more."""
        return self.is_given_up or time.monotonic() > self._end

    def late(self) -> QueryRefused:
        """Return the error of a question that took too long."""
        return QueryRefused(f"the question took longer than {self.seconds:g} s")

    def give_up(self) -> None:
        """Have the question end soon. Any thread may call it."""
        with self._lock:
            self.is_given_up, interrupt = True, self._interrupt
        if interrupt is not None:
            interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Generator[None]:
        """Call `interrupt`, which does not block, when the question is given up inside of this block."""
        with self._lock:
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None


class Unfit(ConfigurationError):
    """Raised when a table cannot be made or does not take a row: a projection is wrong. Nothing was written."""


class Statements(Protocol):
    """Runs statements inside one transaction. Raises `Unfit` for rows that a table does not take."""

    def ask(self, text: str, *values: Scalar) -> Answer:
        """Return the rows of a question."""
        ...

    def select(self, text: str, values: Sequence[Scalar], most: int) -> Selected:
        """Return the first rows of a question that somebody else has written, as `taken` does.

        Raises `QueryRefused` for one that is not understood, or does not only read these tables.
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

    def read(self, work: Callable[[Statements], T], *, until: TimeToAnswer | None = None) -> T:
        """Return `work(statements)`, which sees one instant and changes nothing.

        Raises `QueryRefused` when that time is over, if there is one.
        """
        ...

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        ...
