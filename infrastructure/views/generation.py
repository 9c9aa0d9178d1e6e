"""One generation of read models: their tables, and beside them how far each projection has come.

What a batch of events changes and the place behind it are one transaction, which also compares the place before it. So
nothing is counted twice, whatever is delivered again, and of two who write one is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.views.aging import Aging, any_of, cut
from steptrail.infrastructure.views.database import Database, Statements, Unfit
from steptrail.infrastructure.views.ddl import quoted, statements_to_make
from steptrail.infrastructure.views.fitting import check_tables, keys_to_drop, rows_to_put, sums_to_add
from steptrail.infrastructure.views.public import LISTED
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import INSTANT, Column, ColumnKind, Key, Scalar, Table

_INTEGER, _TEXT = ColumnKind.INTEGER, ColumnKind.TEXT
_OF_TABLES = (
    Column("name", _TEXT, "the name of the projection"),
    Column("version", _INTEGER, "the version of its tables"),
)
_PROJECTIONS = Table(
    name="projections",
    says="how far each projection has come",
    columns=(
        *_OF_TABLES,
        Column("generation", _INTEGER, "the generation that this is"),
        Column("position", _INTEGER, "the place in the log up to which everything is counted"),
        Column("at", _INTEGER, "the instant of the event there", INSTANT),
        Column("stream", _TEXT, "the stream of an event of the log, counted or not"),
        Column("stream_version", _INTEGER, "its version"),
        Column("digest", _TEXT, "the digest of its commit, which tells this log from another one"),
        Column("error_position", _INTEGER, "the place of the event at which it stopped", is_optional=True),
        Column("error", _TEXT, "why it stopped there", is_optional=True),
        Column("pruned_before", _INTEGER, "rows that ended before are deleted; 0 for none", INSTANT),
        Column("erased", _INTEGER, "how many erased streams sums still count"),
        Column("erased_at", _INTEGER, "when the first of them was erased", INSTANT, is_optional=True),
    ),
    key=("name", "version"),
)
_DAMAGED = Table(
    name="damaged",
    says="the streams of which something could not be read: their rows are as before that",
    columns=(
        *_OF_TABLES,
        Column("stream", _TEXT, "the stream"),
        Column("position", _INTEGER, "the place of the first record of it that could not be read"),
        Column("stream_version", _INTEGER, "the version of that record"),
        Column("why", _TEXT, "why not"),
    ),
    key=("name", "version", "stream"),
)
_SKIPPED = Table(
    name="skipped",
    says="the events that a projection failed at, and passed as if they were not there",
    columns=(
        *_OF_TABLES,
        Column("position", _INTEGER, "the place of the event"),
        Column("stream", _TEXT, "its stream"),
        Column("stream_version", _INTEGER, "its version"),
        Column("error", _TEXT, "how it failed"),
    ),
    key=("name", "version", "position"),
)
_TABLES = Table(
    name="tables",
    says="the projections that tables are of",
    columns=(Column("name", _TEXT, "the table"), Column("projection", _TEXT, "the name of the projection")),
    key=("name",),
)
BOOKS = (_PROJECTIONS, _DAMAGED, _SKIPPED, _TABLES, LISTED)
"""The tables that every generation has."""

_PAGE = 1000
_LEFT_OVER = 20
"""How many old rows a batch deletes that a prune has not come to, or was killed before."""
_OF = "name = $1 AND version = $2"
_NOT_BEGUN = 0
"""Stands for the version of a projection that is not here, and may be begun later."""


class PlaceMoved(Exception):
    """Raised when somebody else has applied events meanwhile. Nothing was written."""


class Reached(NamedTuple):
    """How far a projection has come: a position of the log, its instant, and an event of the log, counted or not.

    The digest is that of the event's commit in hex, by which one sees later whether this is the log that was counted.
    """

    position: int = 0
    at: int = 0
    stream: str = ""
    stream_version: int = 0
    digest: str = ""


class NotCounted(NamedTuple):
    """A record that was not counted, as it could not be read or the projection failed at it: its place, and why."""

    position: int
    stream: str
    stream_version: int
    why: str


class Erasures(NamedTuple):
    """How many erased streams are still counted in sums, and when the first of them was erased; None for none."""

    streams: int = 0
    since: int | None = None


class ViewProgress(NamedTuple):
    """How far a projection has come in a generation, and where and why it has stopped; None while it has not.

    Rows that ended before the instant `pruned_before` are deleted; 0 for none. Rows of `erased` streams are deleted,
    and their parts of sums are not. `skipped` events were passed, and of `damaged` streams something could not be read.
    """

    name: str
    version: int
    reached: Reached
    erased: Erasures
    error_position: int | None
    error: str | None
    pruned_before: int
    skipped: int
    damaged: int


class Generation:
    """The tables of one generation; blocking. `prefix` stands before the names of its tables."""

    def __init__(self, number: int, database: Database, prefix: str = "") -> None:
        self.number, self.database, self._prefix = number, database, prefix
        self._made = set[str]()

    def prepare(
        self, statements: Statements, projections: Sequence[Projection[Any]], pruned: Mapping[str, int] = {}
    ) -> None:
        """Make the tables that are missing, and begin what has not begun. Safe to call again.

        `pruned` has the instants before which rows that ended are left out, by the names of projections, also of those
        that others have: a version 0 keeps theirs. Without one it is that of another version of the projection. Raises
        `ConfigurationError` for a table of another projection.
        """
        for table in BOOKS:
            self._make(statements, table)
        for name, before in pruned.items():
            self._begin(statements, name, _NOT_BEGUN, before)
        begun = {each[:2] for each in self.progress(statements)}
        for each in projections:
            if _named(each) in begun:
                continue  # a table that is made now would lack all that is counted already
            for table in each.tables:
                self._claim(statements, table, each.name)
                self._make(statements, table)
            self._begin(statements, *_named(each))
            statements.change(f"DELETE FROM {self._prefix}projections WHERE {_OF}", each.name, _NOT_BEGUN)  # noqa: S608

    def _begin(self, statements: Statements, name: str, version: int, pruned_before: int = 0) -> None:
        statements.change(
            f"INSERT INTO {self._prefix}projections (name, version, generation, position, at, stream, "  # noqa: S608
            "stream_version, digest, pruned_before, erased) SELECT $1, $2, $3, 0, 0, '', 0, '', "
            f"coalesce(max(pruned_before), $4), 0 FROM {self._prefix}projections WHERE name = $1 "
            "ON CONFLICT (name, version) DO NOTHING",
            name,
            version,
            self.number,
            pruned_before,
        )

    def pruned(self, statements: Statements) -> Mapping[str, int]:
        """Return the instants before which rows that ended are left out, by the names of projections; no 0 is one."""
        of = f"SELECT name, max(pruned_before) FROM {self._prefix}projections WHERE pruned_before > 0 GROUP BY name"  # noqa: S608
        return dict(statements.ask(of))

    def progress(self, statements: Statements) -> list[ViewProgress]:
        """Return how far each projection of this generation has come."""
        rows = statements.ask(
            "SELECT name, version, position, at, stream, stream_version, digest, erased, erased_at, "  # noqa: S608
            "error_position, error, pruned_before, "
            f"(SELECT count(*) FROM {self._prefix}skipped s WHERE s.name = p.name AND s.version = p.version), "
            f"(SELECT count(*) FROM {self._prefix}damaged d WHERE d.name = p.name AND d.version = p.version) "
            f"FROM {self._prefix}projections p "
            f"WHERE version <> {_NOT_BEGUN} ORDER BY name, version"
        )
        return [ViewProgress(row[0], row[1], Reached(*row[2:7]), Erasures(*row[7:9]), *row[9:]) for row in rows]

    def damaged(self, statements: Statements, projection: Projection[Any]) -> list[NotCounted]:
        """Return the records that a projection could not read, one for each stream."""
        return self._noted(statements, projection, "damaged", "why")

    def skipped(self, statements: Statements, projection: Projection[Any]) -> list[NotCounted]:
        """Return the events that a projection has passed, in the order of the log."""
        return self._noted(statements, projection, "skipped", "error")

    def _noted(self, statements: Statements, projection: Projection[Any], book: str, why: str) -> list[NotCounted]:
        rows = statements.ask(
            f"SELECT position, stream, stream_version, {why} FROM {self._prefix}{book} WHERE {_OF} ORDER BY position",  # noqa: S608
            *_named(projection),
        )
        return [NotCounted(*row) for row in rows]

    def write(
        self,
        projection: Projection[Any],
        before: int,
        reached: Reached,
        changes: Changes,
        damage: Sequence[NotCounted] = (),
        skipped: Sequence[NotCounted] = (),
        erased: Mapping[str, int] = {},
    ) -> None:
        """Apply what the events after position `before` change, and store how far that is.

        Last of all the rows of `erased` streams are deleted, each with the instant at which it was erased.

        Raises `PlaceMoved` when the projection does not stand at `before`, and `Unfit` for rows that cannot be stored.
        """

        def work(statements: Statements) -> None:
            # First of all, so that the second of two writers waits for the first one here.
            moved = statements.change(
                f"UPDATE {self._prefix}projections SET position = $3, at = $4, stream = $5, stream_version = $6, "  # noqa: S608
                "digest = $7, error_position = NULL, error = NULL, erased = erased + $9, "
                f"erased_at = coalesce(erased_at, $10) WHERE {_OF} AND position = $8",
                *_named(projection),
                *reached._replace(stream=_plain(reached.stream)),
                before,
                len(erased),
                min(erased.values(), default=None),
            )
            if not moved:
                raise PlaceMoved
            self.apply(statements, projection, changes)
            aging = Aging(projection, self._prefix)
            of = f"SELECT pruned_before FROM {self._prefix}projections WHERE {_OF}"  # noqa: S608 - names of ours
            ((pruned_before,),) = statements.ask(of, *_named(projection))
            if pruned_before:
                aging.after(statements, changes, pruned_before)
                aging.sweep(statements, pruned_before, _LEFT_OVER)
            for noted, book, why in ((damage, "damaged", "why"), (skipped, "skipped", "error")):
                for position, stream, stream_version, said in noted:
                    statements.change(
                        f"INSERT INTO {self._prefix}{book} (name, version, position, stream, stream_version, {why}) "  # noqa: S608
                        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                        *_named(projection),
                        position,
                        _plain(stream),
                        stream_version,
                        _plain(said),
                    )
            for streams in cut(erased):
                for table in projection.tables:
                    if table.of_stream and table.name in self._made_of(statements, projection):
                        aging.erase(statements, table, streams)
                for book in ("damaged", "skipped"):
                    gone = f"DELETE FROM {self._prefix}{book} WHERE {_OF} AND {any_of(['stream'], len(streams), 3)}"  # noqa: S608
                    statements.change(gone, *_named(projection), *map(_plain, streams))

        self.database.write(work)

    def prune(self, projection: Projection[Any], before: int, most: int) -> int:
        """Leave out rows that ended before an instant from now on, delete so many, and return how many there were.

        Call it again until there are none.
        """

        def work(statements: Statements) -> int:
            # First of all, so that whoever applies the log waits here, or this does.
            statements.change(
                f"UPDATE {self._prefix}projections SET pruned_before = "  # noqa: S608
                f"CASE WHEN pruned_before < $3 THEN $3 ELSE pruned_before END WHERE {_OF}",
                *_named(projection),
                before,
            )
            return Aging(projection, self._prefix).sweep(statements, before, most)

        return self.database.write(work)

    def old(self, statements: Statements, projection: Projection[Any], before: int) -> Mapping[Table, frozenset[Key]]:
        """Return the keys of the rows that ended before an instant and are there, without what belongs to them."""
        return Aging(projection, self._prefix).old_keys(statements, before)

    def stop(self, projection: Projection[Any], before: int, position: int, error: str) -> None:
        """Store where a projection has stopped, and why."""
        stopped = f"UPDATE {self._prefix}projections SET error_position = $3, error = $4 WHERE {_OF} AND position = $5"  # noqa: S608
        values = (*_named(projection), position, _plain(error), before)
        self.database.write(lambda statements: statements.change(stopped, *values))

    def rows(self, statements: Statements, table: Table) -> Iterator[tuple[Scalar, ...]]:
        """Yield all rows of a table in the order of the key, with the values that were put in."""
        select = self.database.sql.in_order(table, self._prefix)
        truths = [place for place, column in enumerate(table.columns) if column.kind is ColumnKind.BOOLEAN]
        key, after = ", ".join(map(quoted, table.key)), ""
        last: tuple[Scalar, ...] = ()
        while True:
            page = statements.ask(f"{select.replace(' ORDER BY', after + ' ORDER BY')} LIMIT {_PAGE}", *last)
            for row in page:
                values = list(row)
                for place in truths:
                    values[place] = None if values[place] is None else bool(values[place])
                yield tuple(values)
            if len(page) < _PAGE:
                return
            last = page[-1][: len(table.key)]
            after = f" WHERE ({key}) > ({', '.join(f'${n}' for n in range(1, len(last) + 1))})"

    def analyze(self, projections: Sequence[Projection[Any]]) -> None:
        """Have the database count what is in the tables, for its plans."""

        def work(statements: Statements) -> None:
            for table in (table for each in projections for table in each.tables):
                statements.change(f"ANALYZE {self._prefix}{quoted(table.name)}")

        self.database.write(work)

    def _make(self, statements: Statements, table: Table) -> None:
        for statement in statements_to_make(self.database.sql, table, self._prefix):
            statements.change(statement)

    def _claim(self, statements: Statements, table: Table, name: str) -> None:
        place = f"{self._prefix}{quoted('tables')}"
        statements.change(f"INSERT INTO {place} VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", table.name, name)  # noqa: S608
        ((owner,),) = statements.ask(f"SELECT projection FROM {place} WHERE name = $1", table.name)  # noqa: S608
        if owner != name:
            raise ConfigurationError(f"the table {table.name} is one of {owner}: {name} needs tables of other names")

    def apply(self, statements: Statements, projection: Projection[Any], changes: Changes) -> None:
        """Write what changes into the tables of a projection, whatever place that is as of. Raises `Unfit`."""
        sql = self.database.sql
        sums_of = changes.sums
        check_tables(projection, changes.rows, sums_of)
        self.check_made(statements, projection, (*changes.rows, *sums_of))
        for table, rows in changes.rows.items():
            if gone := keys_to_drop(table, [key for key, row in rows.items() if row is None]):
                statements.change_all(sql.drop(table, self._prefix), gone)
            put = [row for row in rows.values() if row is not None]
            for columns, values in rows_to_put(table, put, with_none=sql.takes_none).items():
                for text, given in sql.puts(table, values, self._prefix, columns):
                    statements.change_all(text, given)
        for table, sums in sums_of.items():
            statements.change_all(sql.add(table, self._prefix), sums_to_add(table, sums))

    def check_made(self, statements: Statements, projection: Projection[Any], tables: Iterable[Table]) -> None:
        """Raise `Unfit` for a table that the projection did not have when it was begun here."""
        names = {table.name for table in tables}
        if not names <= self._made and (lacking := sorted(names - self._made_of(statements, projection))):
            raise Unfit(
                f"{projection.name} was begun without the table {lacking[0]}: count up its `version`, or rebuild it"
            )

    def _made_of(self, statements: Statements, projection: Projection[Any]) -> Set[str]:
        of = f"SELECT name FROM {self._prefix}{quoted('tables')} WHERE projection = $1"  # noqa: S608
        self._made |= {name for (name,) in statements.ask(of, projection.name)}
        return self._made


def _named(projection: Projection[Any]) -> tuple[str, int]:
    """Return the values of the condition `_OF`."""
    return projection.name, projection.version


def _plain(text: str) -> str:
    return text.replace("\0", "\ufffd").encode(errors="backslashreplace").decode()
