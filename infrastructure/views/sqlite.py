"""Read models of a SQLite store: one file for each generation, in a folder beside the store.

The one write lock of the store's file belongs to the runs. `current.db` is a link to the file that readers look at.
Where links are not allowed, the file `current` names it.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from filelock import FileLock, Timeout

from steptrail.domain.errors import NotAStore, QueryRefused, StoreDamaged, StoreError, StoreLocked, StoreUnavailable
from steptrail.infrastructure.store.core.file_errors import file_error
from steptrail.infrastructure.store.core.made_by_root import make_file, make_folder
from steptrail.infrastructure.store.sqlite.connections import connect, disconnect, file_identity, file_uri
from steptrail.infrastructure.store.sqlite.errors import primary_code, translate, until_free
from steptrail.infrastructure.store.sqlite.forking import INSIDE
from steptrail.infrastructure.views.database import (
    MOST_BYTES,
    Answer,
    Database,
    Selected,
    Statements,
    TimeToAnswer,
    Unfit,
    taken,
)
from steptrail.infrastructure.views.ddl import SQLITE, quoted
from steptrail.infrastructure.views.generation import Generation
from steptrail.infrastructure.views.public import selects
from steptrail.infrastructure.views.publishing import relisted
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.table import Scalar

T = TypeVar("T")
_LINK, _POINTER, _LOCK = "current.db", "current", "current.lock"
_DIGITS = 100
_TO_WRITE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA secure_delete = ON")
_STEPS = 10_000
"""How many steps of SQLite's machine pass between two looks at the clock."""
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_NOT_OF_THE_TEXT = {
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN,
}
_UNFIT = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_RANGE,
    sqlite3.SQLITE_ERROR,
}
_NO_TABLE, _NO_COLUMN = "no such table", "no such column"


class SqliteViews:
    """The file of one generation: one connection that writes, and some that read."""

    sql = SQLITE

    def __init__(self, path: Path, *, patience: float) -> None:
        self.path, self._patience = path, patience
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    def write(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, as a whole or not at all."""
        with self._writing:
            try:
                self._writer = self._writer or self._opened(*_TO_WRITE)
                connection = self._writer
                return until_free(lambda: _whole(connection, work), self._patience)
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def read(self, work: Callable[[Statements], T], *, until: TimeToAnswer | None = None) -> T:
        """Return `work(statements)`, which sees one instant and can only select."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._opened("PRAGMA query_only = ON")
                if hasattr(connection, "setlimit"):  # pysqlite3, which brings a newer SQLite, has none
                    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            with INSIDE:
                answer = self._watched(connection, work, until)
        except BaseException as error:
            if connection is not None:
                disconnect(connection)
            if not isinstance(error, sqlite3.Error):
                raise
            if primary_code(error) == sqlite3.SQLITE_INTERRUPT and until is not None:
                raise until.late() from error
            raise self._translated(error) from error
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return answer
        disconnect(connection)
        return answer

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        with self._writing, self._lock:
            self._is_closed = True
            for connection in (*self._idle, *([self._writer] if self._writer else ())):
                disconnect(connection)
            self._idle.clear()
            self._writer = None

    def _translated(self, error: sqlite3.Error) -> StoreError:
        found = translate(error, str(self.path))
        # A generation has its tables before anybody is led to it; those of an older version had fewer columns.
        if isinstance(found, StoreDamaged | NotAStore) or _NO_TABLE in str(error) or _NO_COLUMN in str(error):
            return StoreDamaged(f"the read models in {self.path} are damaged: `steptrail rebuild` makes them anew")
        return found

    def _watched(
        self, connection: sqlite3.Connection, work: Callable[[Statements], T], until: TimeToAnswer | None
    ) -> T:
        connection.execute("BEGIN")
        try:
            if until is not None:
                connection.set_progress_handler(lambda: until.is_over, _STEPS)
            connection.set_authorizer(_only_selects)
            return until_free(lambda: work(_SqliteStatements(connection)), self._patience)
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_authorizer(None)
            if connection.in_transaction:  # SQLite ends it where a file fails, and the reason is to be told
                connection.execute("ROLLBACK")

    def _opened(self, *settings: str) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreUnavailable(f"the views {self.path} are closed")
        connection = connect(file_uri(self.path, "rw"))
        try:
            for setting in settings:
                until_free(partial(connection.execute, setting), self._patience)
        except BaseException:
            disconnect(connection)
            raise
        return connection


class _SqliteStatements:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def ask(self, text: str, *values: Scalar) -> Answer:
        return self._connection.execute(text, _named(values)).fetchall()

    def select(self, text: str, values: Sequence[Scalar], most: int) -> Selected:
        try:
            cursor = self._connection.execute(text, _named(values))
            rows, is_cut = taken(cursor, most)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            if isinstance(error, sqlite3.Error) and primary_code(error) in _NOT_OF_THE_TEXT:
                raise
            hint = "; $1, $2 and so on stand for the values" if "inding" in str(error) else ""
            raise QueryRefused(f"the question was refused: {error}{hint}") from error
        if cursor.description is None:
            raise QueryRefused("the question was refused: it asks for nothing")
        return Selected([each[0] for each in cursor.description], rows, is_cut)

    def change(self, text: str, *values: Scalar) -> int:
        return self._connection.execute(text, _named(values)).rowcount

    def change_all(self, text: str, rows: Iterable[Sequence[Scalar]]) -> None:
        self._connection.executemany(text, rows)


class SqliteSeries:
    """The files of all generations, in one folder: beside a `store`, or a `temporary` one, which goes at the end."""

    def __init__(
        self,
        folder: Path,
        *,
        patience: float,
        temporary: "TemporaryDirectory[str] | None" = None,
        store: Path | None = None,
    ) -> None:
        self.folder, self._patience, self._temporary = folder, patience, temporary
        self._store = store
        self._opened: dict[int, tuple[Generation, tuple[int, int] | None]] = {}
        """Those that are open, each with the file that it was by then."""
        self._lock = threading.Lock()

    is_beside = True

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    def current(self) -> int | None:
        """Return the number of the generation that readers look at; None when there is none yet."""
        number = self._pointed_at()
        return number if number is not None and self._is_there(number) else None

    def _pointed_at(self) -> int | None:
        try:
            name = os.readlink(self.folder / _LINK)
        except OSError:
            try:
                name = (self.folder / _POINTER).read_text(encoding="ascii").strip()
            except (OSError, UnicodeError):
                return None
        return _number(name)

    def open(self, number: int) -> Generation:
        """Return a generation. A file that was put in the place of the one that is open is another one."""
        identity = file_identity(self._file(number))
        with self._lock:
            found, known = self._opened.get(number, (None, None))
            if found is not None and known != identity:
                found.database.close()
                found = None
            if found is None:
                database = SqliteViews(self._file(number), patience=self._patience)
                found = Generation(number, database)
                self._opened[number] = found, identity
            return found

    def begin(self) -> Generation:
        """Make a new generation, without tables, that nobody points at."""
        try:
            if self._store is None:
                self.folder.mkdir(exist_ok=True, parents=True)
            else:
                make_folder(self.folder, self._store)
            # Not the one that is pointed at, whose file may have been removed: readers would find it half made.
            number = max(*self.sizes(), self._pointed_at() or 0, 0)
            while True:
                number += 1
                with suppress(FileExistsError):
                    make_file(self._file(number), self.folder)
                    return self.open(number)
        except OSError as error:
            raise file_error(error, f"the folder of views {self.folder}") from error

    def face(self, number: int, name: str) -> int:
        """Return the version of the public views of a name in a generation, 0 for none."""
        asked = "SELECT max(version) FROM listed WHERE face = $1"
        (found,) = self.open(number).database.read(lambda statements: statements.ask(asked, name))
        return int(found[0] or 0)

    def public(self, number: int) -> Database:
        """Return where the public views of a generation are read."""
        return self.open(number).database

    def publish(self, number: int, faces: Sequence[Face]) -> None:
        """Give readers of a generation these public views, beside those that it has."""

        def work(statements: Statements) -> None:
            for face in faces:
                for name in relisted(statements, SQLITE, face, number):
                    statements.change(f"DROP VIEW IF EXISTS {quoted(name)}")
                for name, select in selects(SQLITE, face):
                    statements.change(f"DROP VIEW IF EXISTS {quoted(name)}")
                    statements.change(f"CREATE VIEW {quoted(name)} AS {select}")

        self.open(number).database.write(work)

    def point_at(self, number: int, faces: Sequence[Face], *, is_first: bool = False) -> bool:
        """Have readers look at a generation, in no other one's place if it `is_first`. Return whether they do."""
        self.publish(number, faces)
        what = f"the folder of views {self.folder}"
        try:
            with suppress(FileExistsError):
                make_file(self.folder / _LOCK, self.folder)
            with FileLock(self.folder / _LOCK, timeout=self._patience, thread_local=False):
                if not is_first or self.current() is None:
                    self._point_at(f"{number}.db")
                return self.current() == number
        except Timeout as error:
            raise StoreLocked(f"{what} is locked by another process: try again") from error
        except OSError as error:
            raise file_error(error, what) from error

    def _point_at(self, name: str) -> None:
        new = self.folder / f"{_POINTER}-{os.getpid()}-{threading.get_ident()}"
        new.unlink(missing_ok=True)
        try:
            new.symlink_to(name)
            new.replace(self.folder / _LINK)
        except (OSError, NotImplementedError):
            new.unlink(missing_ok=True)
            new.write_text(f"{name}\n", encoding="ascii")
            new.replace(self.folder / _POINTER)

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove these generations. One that cannot be removed now is left to the next time."""
        for number in numbers:
            with self._lock:
                unused, _ = self._opened.pop(number, (None, None))
            if unused is not None:
                unused.database.close()
            for name in (f"{number}.db", f"{number}.db-wal", f"{number}.db-shm"):
                with suppress(OSError):
                    (self.folder / name).unlink(missing_ok=True)

    def sizes(self) -> Mapping[int, int]:
        """Return the number of bytes of each generation, with its log."""
        found: dict[int, int] = {}
        paths: list[Path] = []
        with suppress(OSError):
            paths += self.folder.glob("*.db")
        for path in paths:
            if (number := _number(path.name)) is not None:
                for each in (path, path.with_name(path.name + "-wal")):
                    with suppress(OSError):
                        found[number] = found.get(number, 0) + each.stat().st_size
        return found

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        with self._lock:
            for each, _ in self._opened.values():
                each.database.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _is_there(self, number: int) -> bool:
        """Tell whether there is a file with something in it, or in its log: somebody may have removed or emptied it."""
        for name in (f"{number}.db", f"{number}.db-wal"):
            with suppress(OSError):
                if (self.folder / name).stat().st_size:
                    return (self.folder / f"{number}.db").exists()
        return False

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.db"


def _whole(connection: sqlite3.Connection, work: Callable[[Statements], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = work(_SqliteStatements(connection))
        connection.execute("COMMIT")
    except (OverflowError, sqlite3.ProgrammingError, sqlite3.InterfaceError, UnicodeError) as error:
        raise Unfit(str(error)) from error
    except sqlite3.Error as error:
        # With the code of an ordinary error SQLite says that a table has no such column, or cannot be made.
        if primary_code(error) in _UNFIT and _NO_TABLE not in str(error):
            raise Unfit(str(error)) from error
        raise
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return done


def _only_selects(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _named(values: Sequence[Scalar]) -> Mapping[str, Scalar]:
    return {str(number): value for number, value in enumerate(values, 1)}


def _number(name: str) -> int | None:
    stem, _, ending = name.partition(".")
    return int(stem) if ending == "db" and stem.isascii() and stem.isdigit() and len(stem) < _DIGITS else None
