"""Read models of a PostgreSQL store: one schema for each generation, in the database of the store.

The schema `steptrail_views` holds the number of the generation that readers look at.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

from steptrail.domain.errors import NotAStore, StoreDamaged, StoreError, StoreLocked
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, ServerFailure
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.infrastructure.views.database import Answer, Database, Selected, Statements, TimeToAnswer, Unfit
from steptrail.infrastructure.views.ddl import POSTGRES, quoted, statements_to_make
from steptrail.infrastructure.views.generation import Generation
from steptrail.infrastructure.views.postgres_question import CANCELLED, selected
from steptrail.infrastructure.views.public import LISTED, selects
from steptrail.infrastructure.views.publishing import relisted
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.table import Scalar

T = TypeVar("T")
_GIVE_WAY = "SET LOCAL lock_timeout = 100"
"""Readers take the locks of several views one after another, and so does the one who replaces them. Long before the
server finds that they wait for each other, that one lets go of all, and tries again."""
_TRIES, _REST_SECONDS = 150, 0.1
_READER = "steptrail_reader"
"""A role that may read the public views, and not the log. It exists where somebody has made it."""
LOCK_OF_VIEWS: Final = "SELECT pg_advisory_xact_lock(1400139860, 3)"
"""The first number is `StpT` in ASCII. Held by who changes which generations there are."""
_SETTINGS = (
    "SELECT set_config('search_path', $1, true), set_config('enable_seqscan', 'on', true), "
    "set_config('enable_bitmapscan', 'on', true), set_config('statement_timeout', "
    "coalesce($2::text, current_setting('statement_timeout')), true)"
)
"""The store's own questions each have an index, so its connections do not let the server choose."""

_GRACE_SECONDS, _LONGEST_SECONDS = 5.0, 2_000_000.0

_OTHERS_DEPEND = "2BP01"
_NOT_OF_A_ROW = {"42501", "42P01"}
"""A right or a table that is not there."""
_OF_BOOKS = {
    "projections": "SELECT name, version, generation, position, at, error_position, error, pruned_before, erased, "
    "erased_at FROM projections",
    "damaged": "SELECT name, version, stream, position, stream_version, why FROM damaged",
    "skipped": "SELECT name, version, position, stream, stream_version, error FROM skipped",
}
"""The views of what a generation says of itself, in its schema."""


class PostgresViews:
    """A database, to write to and to read. Without another word, a reader finds the tables of `schema`.

    While somebody reads, nobody replaces the view `kept`.
    """

    sql = POSTGRES

    def __init__(self, connections: PostgresConnections, schema: str, kept: str | None = None) -> None:
        self._connections, self._schema, self._kept = connections, schema, kept

    def write(self, work: Callable[[Statements], T]) -> T:
        """Return `work(statements)`, as a whole or not at all."""

        def whole(connection: Connection) -> T:
            with connection.transaction():
                return work(_PostgresStatements(connection))

        try:
            return self._connections.write(whole)
        except OverflowError as error:
            raise Unfit(str(error)) from error
        except ServerFailure as failure:
            # Without a code it is the driver that could not send a value.
            is_of_a_row = failure.state is None or failure.state[:2] in {"22", "23", "42", "54"}
            if not failure.is_lost and is_of_a_row and failure.state not in _NOT_OF_A_ROW:
                raise Unfit(failure.text) from failure
            raise translate(failure, self._connections.address.name, is_writing=True) from failure

    def read(self, work: Callable[[Statements], T], *, until: TimeToAnswer | None = None) -> T:
        """Return `work(statements)`, which sees one instant and changes nothing."""

        def whole(connection: Connection) -> T:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                if self._kept is not None:
                    # Before the instant is chosen, which the next statement does. A view that is replaced after it
                    # would show tables whose rows are younger than that instant, and so none.
                    connection.execute(f"LOCK TABLE {self._kept} IN ACCESS SHARE MODE".encode())
                statements = _PostgresStatements(connection, self._schema, until)
                statements.ask(_SETTINGS, self._schema, None if until is None else _milliseconds(until.seconds))
                return work(statements)

        def in_time(connection: Connection, until: TimeToAnswer) -> T:
            patience = connection.patience
            # The server ends a question that takes too long. What it says of that is waited for.
            connection.patience = max(patience, until.seconds + _GRACE_SECONDS)
            try:
                with until.interrupting(partial(_in_background, connection.cancel)):
                    return whole(connection)
            except Exception as error:
                if getattr(error, "sqlstate", None) == CANCELLED:
                    raise until.late() from error
                raise
            finally:
                connection.patience = patience
                if until.is_given_up:
                    # It may still be on its way, and is not meant for the next question.
                    connection.close()

        try:
            return self._connections.read(whole if until is None else partial(in_time, until=until))
        except NotAStore as error:
            # A generation of an older version has fewer columns.
            where = f"the read models in {self._schema}"
            raise StoreDamaged(f"{where} are damaged: `steptrail rebuild` makes them anew") from error

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        self._connections.close()


class _PostgresStatements:
    def __init__(self, connection: Connection, schema: str = "", until: TimeToAnswer | None = None) -> None:
        self._connection, self._schema, self._until = connection, schema, until

    def ask(self, text: str, *values: Scalar) -> Answer:
        return cast(Answer, self._run(text, values).fetchall())

    def select(self, text: str, values: Sequence[Scalar], most: int) -> Selected:
        return selected(self._run, text, values, most, self._schema, self._until)

    def change(self, text: str, *values: Scalar) -> int:
        # One without values makes tables or views, and never comes again: to prepare it would be two more ways to the
        # server, and have the driver forget what comes often.
        return int(self._run(text, values, prepare=bool(values)).rowcount)

    def change_all(self, text: str, rows: Iterable[Sequence[Scalar]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(text.encode(), rows)

    def _run(self, text: str, values: Sequence[Any], *, prepare: bool = True) -> Any:
        from psycopg import RawCursor

        # Prepared, it is one statement and no more, whatever is in the text.
        return RawCursor(cast(Any, self._connection)).execute(text.encode(), values, prepare=prepare)


class PostgresSeries:
    """The schemas of all generations, `steptrail_views_1` and so on, and the schema `steptrail_views`."""

    is_beside = False
    place = "steptrail_views"
    """The schema that readers look at."""

    def __init__(self, address: PostgresAddress, *, patience: float, read_only: bool = False) -> None:
        # What is lost in a crash of the server is lost with the place behind it.
        self._connections = PostgresConnections(address, durability="normal", patience=patience, read_only=read_only)
        self._database = PostgresViews(self._connections, self.place)
        # All public views are replaced together.
        self._public = PostgresViews(self._connections, self.place, kept=f"{self.place}.projections")
        self._opened: dict[int, Generation] = {}
        self._lock = threading.Lock()

    def current(self) -> int | None:
        """Return the number of the generation that readers look at; None when there is none yet."""
        return self._database.read(self._current)

    def _current(self, statements: Statements) -> int | None:
        if statements.ask("SELECT to_regclass($1)", f"{self.place}.series") == [(None,)]:
            return None
        # Somebody may have dropped one of the schemas and left the other.
        found = statements.ask(
            f"SELECT generation FROM {self.place}.series "  # noqa: S608 - names of ours
            f"WHERE to_regclass('{self.place}_' || generation || '.projections') IS NOT NULL"
        )
        return int(found[0][0]) if found else None

    def open(self, number: int) -> Generation:
        """Return a generation."""
        with self._lock:
            found = self._opened.get(number)
            if found is None:
                schema = f"{self.place}_{number}"
                database = PostgresViews(self._connections, schema)
                found = self._opened[number] = Generation(number, database, f"{schema}.")
            return found

    def begin(self) -> Generation:
        """Make a new generation, without tables, that nobody points at."""

        def work(statements: Statements) -> int:
            statements.ask(LOCK_OF_VIEWS)
            if statements.ask("SELECT to_regclass($1)", f"{self.place}.series") == [(None,)]:
                statements.change(f"CREATE SCHEMA IF NOT EXISTS {self.place}")
                statements.change(f"CREATE TABLE {self.place}.series (last bigint NOT NULL, generation bigint)")
                for statement in statements_to_make(POSTGRES, LISTED, f"{self.place}."):
                    statements.change(statement)
            statements.change(
                f"INSERT INTO {self.place}.series SELECT 0, NULL WHERE NOT EXISTS (SELECT FROM {self.place}.series)"  # noqa: S608
            )
            (number,) = statements.ask(
                f"UPDATE {self.place}.series SET last = 1 + greatest(last, (SELECT "  # noqa: S608 - names of ours
                f"max(substring(nspname FROM '[0-9]+$')::bigint) FROM pg_namespace "
                f"WHERE nspname ~ '^{self.place}_[0-9]{{1,9}}$')) RETURNING last"
            )[0]
            statements.change(f"CREATE SCHEMA {self.place}_{number}")
            return int(number)

        return self.open(self._database.write(work))

    def face(self, number: int, name: str) -> int:
        """Return the version of the public views of a name that show a generation, 0 for none."""
        asked = f"SELECT max(version) FROM {self.place}.listed WHERE face = $1 AND generation = $2"  # noqa: S608
        ((found,),) = self._database.read(lambda s: s.ask(asked, name, number))
        return int(found or 0)

    def public(self, number: int) -> Database:
        """Return where the public views are read, whatever their generation is by then."""
        return self._public

    def publish(self, number: int, faces: Sequence[Face]) -> None:
        """Give readers of a generation these public views, unless they look at another one.

        The views of other faces show the generation that they were made for, as long as it is there.
        """
        self._change_views(number, faces, lambda present: present == number)

    def point_at(self, number: int, faces: Sequence[Face], *, is_first: bool = False) -> bool:
        """Have readers look at a generation, in no other one's place if it `is_first`. Return whether they do."""
        return self._change_views(number, faces, lambda present: present is None or not is_first)

    def _change_views(self, number: int, faces: Sequence[Face], may: Callable[[int | None], bool]) -> bool:
        """Make the views of a generation and have readers look at it, if that may be beside the present one."""

        def work(statements: Statements) -> bool:
            statements.change(_GIVE_WAY)
            statements.ask(LOCK_OF_VIEWS)
            if is_allowed := may(self._current(statements)):
                self._make_views(statements, number, faces)
                statements.change(f"UPDATE {self.place}.series SET generation = $1", number)  # noqa: S608
            return is_allowed

        tries_left = _TRIES
        while True:
            try:
                return self._database.write(work)
            except StoreLocked as error:
                tries_left -= 1
                if not tries_left:
                    raise StoreLocked(
                        f"the views in {self.place} cannot be replaced while somebody reads them: a transaction that "
                        "has asked one of them is still open; end it, and try again"
                    ) from error
                time.sleep(_REST_SECONDS)
            except StoreError as error:
                if (why := _depended_on(error)) is None:
                    raise
                raise StoreLocked(
                    f"the views in {self.place} cannot be replaced: {why}: drop what others have made of them, and "
                    "make it again afterwards"
                ) from error

    def _make_views(self, statements: Statements, number: int, faces: Sequence[Face]) -> None:
        statements.ask("SELECT set_config('search_path', $1, true)", f"{self.place}_{number}")
        views = dict(_OF_BOOKS)
        for face in faces:
            for name in relisted(statements, POSTGRES, face, number, f"{self.place}."):
                statements.change(f"DROP VIEW IF EXISTS {self.place}.{quoted(name)}")
            views |= selects(POSTGRES, face, f"{self.place}.")
        for name, select in views.items():
            # In the place of the old one, so that what others have made of it stays; where a column is gone or
            # is of another type now, that cannot be.
            view = f"VIEW {self.place}.{quoted(name)}"
            try:
                statements.change(f"SAVEPOINT one_view; CREATE OR REPLACE {view} AS {select}")
            except Exception as error:
                if getattr(error, "sqlstate", None) != "42P16":
                    raise
                statements.change(f"ROLLBACK TO one_view; DROP {view}; CREATE {view} AS {select}")
        if statements.ask("SELECT FROM pg_roles WHERE rolname = $1", _READER):
            statements.change(f"GRANT USAGE ON SCHEMA {self.place} TO {_READER}")
            statements.change(f"GRANT SELECT ON ALL TABLES IN SCHEMA {self.place} TO {_READER}")

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove these generations. One that cannot be removed now is left to the next time."""
        for number in numbers:
            try:
                self._database.write(partial(_dropped, base=self.place, number=number))
            except StoreLocked:
                pass
            except StoreError as error:
                if _depended_on(error) is None:
                    raise

    def sizes(self) -> Mapping[int, int]:
        """Return the number of bytes of each generation, with its indexes."""
        rows = self._database.read(
            lambda s: s.ask(
                "SELECT n.nspname, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_namespace n "
                "LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' "
                "WHERE n.nspname ~ ('^' || $1 || '_[0-9]+$') GROUP BY n.nspname",
                self.place,
            )
        )
        return {int(name.rpartition("_")[2]): size for name, size in rows}

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        self._connections.close()


def _milliseconds(seconds: float) -> str:
    # A server knows no time limit of more than 24 days.
    return str(max(1, round(min(seconds, _LONGEST_SECONDS) * 1000)))


def _in_background(cancel: Callable[[], None]) -> None:
    """Have the server end a question, which takes a connection of its own, without waiting for that."""

    def work() -> None:
        with suppress(Exception):
            cancel()

    threading.Thread(target=work, name="steptrail-cancel", daemon=True).start()


def _dropped(statements: Statements, base: str, number: int) -> None:
    statements.change(_GIVE_WAY)
    gone = f"DELETE FROM {base}.listed WHERE generation = {number} RETURNING view"  # noqa: S608 - a number
    # Its views first and by themselves: with the schema would go what others have made of them.
    for name in sorted({name for (name,) in statements.ask(gone)}):
        statements.change(f"DROP VIEW IF EXISTS {base}.{quoted(name)}")
    statements.change(f"DROP SCHEMA IF EXISTS {base}_{number} CASCADE")


def _depended_on(error: StoreError) -> str | None:
    """Return what the server says of others that keep a view from being dropped; None where that is not the reason."""
    failure = error.__cause__
    if not isinstance(failure, ServerFailure) or failure.state != _OTHERS_DEPEND:
        return None
    return failure.text.partition("HINT:")[0].strip()
