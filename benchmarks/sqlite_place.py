"""A SQLite file to measure in, and the floor beside it.

The floor is the least that keeps the same promises: what the rows say, in one plain table with names in it and a unique
key, one multi-row statement for each commit, a write-ahead log, `synchronous=FULL`. It opens one connection, encodes
nothing and checks nothing.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import orjson

from benchmarks.meter import Cost, stopwatch
from benchmarks.rows import Row, Rows, split_commits

_COLUMNS = "e.position, s.id AS stream, e.version, t.name AS type, e.at, e.state, e.content"
_FROM = "FROM events e JOIN streams s ON s.number = e.stream JOIN types t ON t.number = e.type "
_EVENTS = f"SELECT {_COLUMNS} {_FROM}"
"""The log as a projector reads it that looks at no head of a commit."""
_ROWS = (
    f"SELECT {_COLUMNS}, c.commit_id, c.actor, c.causation, c.segment, c.key_id, c.digest {_FROM}"
    "LEFT JOIN commits c ON c.stream = e.stream AND c.version = e.version "
)
_FLOOR = (
    "CREATE TABLE floor (position INTEGER PRIMARY KEY, stream TEXT NOT NULL, version INTEGER NOT NULL, "
    "type TEXT NOT NULL, at INTEGER NOT NULL, state BLOB NOT NULL, content BLOB, commit_id TEXT, actor TEXT, "
    "causation TEXT, segment INTEGER, key_id TEXT, digest BLOB, UNIQUE (stream, version))"
)


class SqlitePlace:
    """One store file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "runs.db"
        self.url = f"sqlite:///{self._path}"

    def size(self) -> int:
        """Return the bytes of the file, its log included."""
        log = self._path.with_name(f"{self._path.name}-wal")
        return sum(path.stat().st_size for path in (self._path, log) if path.exists())

    def rows(self) -> Rows:
        """Return what the store holds."""
        with closing(sqlite3.connect(self._path)) as connection:
            cursor = connection.execute(_ROWS + "ORDER BY e.position")
            return split_commits([column[0] for column in cursor.description], cursor)

    def write_floor(self, rows: Rows) -> Cost:
        """Write the rows as the floor does, into a new file, and return what that cost."""
        statements = [_insert(rows.columns, commit) for commit in rows.commits]
        with tempfile.TemporaryDirectory(dir=self._folder) as folder, closing(self._floor(Path(folder))) as connection:
            execute = connection.execute
            with stopwatch() as watch:
                for statement, values in statements:
                    execute(statement, values)
        return watch.cost

    def read_floor(self, stream: str | None = None) -> Cost:
        """Read the rows of a stream, or of all, parse each as JSON and hold none, and return what that cost."""
        with closing(sqlite3.connect(self._path)) as connection, stopwatch() as watch:
            if stream is None:
                cursor = connection.execute(_EVENTS + "ORDER BY e.position")
            else:
                cursor = connection.execute(_ROWS + "WHERE s.id = ? ORDER BY e.version", (stream,))
            names = [column[0] for column in cursor.description]
            parts = [names.index("state"), names.index("content")]
            for row in cursor:
                for part in parts:
                    if row[part] is not None:
                        orjson.loads(row[part])
        return watch.cost

    def remove(self) -> None:
        """Remove the file and its folder."""
        shutil.rmtree(self._folder)

    def _floor(self, folder: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(folder / "floor.db", isolation_level=None, cached_statements=256)
        for setting in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", _FLOOR):
            connection.execute(setting).fetchall()
        return connection


class SqliteSite:
    """Makes places in a folder."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fresh(self) -> SqlitePlace:
        """Return a place with no store in it yet."""
        return SqlitePlace(Path(tempfile.mkdtemp(dir=self._folder)))

    def settings(self) -> dict[str, str]:
        """Return what makes its commits durable."""
        return {"journal_mode": "wal", "synchronous": "full"}


def _insert(columns: Sequence[str], rows: Sequence[Row]) -> tuple[str, list[object]]:
    # A literal NULL is cheaper than a bound one, and most rows of a commit leave its head out.
    values = ",".join("(" + ",".join("NULL" if value is None else "?" for value in row) + ")" for row in rows)
    bound = [value for row in rows for value in row if value is not None]
    return f"INSERT INTO floor ({','.join(columns)}) VALUES {values}", bound
