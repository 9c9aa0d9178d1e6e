"""The rows that a run left in its store, as the floor writes them again: every column of every row, commit by commit.

Columns are taken as the store has them. The first, the position, is left out: each database hands out its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Row = tuple[object, ...]

_STEP = "step.started."


@dataclass(frozen=True, slots=True)
class Rows:
    """The columns, and the rows of each commit in the order they were stored."""

    columns: tuple[str, ...]
    commits: tuple[tuple[Row, ...], ...]


def split_commits(columns: Sequence[str], rows: Iterable[Row]) -> Rows:
    """Return the rows by commit. A commit begins where `commit_id` stands.

    `rows` begin with the position, which orders them. Raises `ValueError` for a first row that begins no commit.
    """
    at = columns.index("commit_id")
    commits: list[list[Row]] = []
    for row in rows:
        if row[at] is not None:
            commits.append([])
        if not commits:
            msg = "the first row belongs to a commit that is not there"
            raise ValueError(msg)
        commits[-1].append(tuple(row[1:]))
    return Rows(tuple(columns[1:]), tuple(tuple(commit) for commit in commits))


def bytes_by_step(rows: Rows) -> list[int]:
    """Return how many bytes the rows of each step hold, for the rows of one session.

    A step is what stands from its `step.started` to the next one. Texts count as UTF-8, numbers as 8 bytes.
    """
    name = rows.columns.index("type")
    steps: list[int] = []
    for row in (row for commit in rows.commits for row in commit):
        if str(row[name]).startswith(_STEP):
            steps.append(0)
        if steps:
            steps[-1] += sum(map(_size, row))
    return steps


def _size(value: object) -> int:
    match value:
        case None:
            return 0
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case _:
            return 8
