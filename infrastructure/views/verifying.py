"""Compares the present read models with a fresh fold of the log, made in a temporary file up to the same place.

The present rows are read in one transaction, and the fold is brought to the place that they have there: so it makes no
difference who applies the log meanwhile. Two tables are read side by side in the order of the key, a page at a time.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from steptrail.domain.errors import StoreError
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.erasure import Erased
from steptrail.infrastructure.store.core.file_errors import temporary_folder
from steptrail.infrastructure.store.core.work_threads import WorkThreads
from steptrail.infrastructure.views.database import Statements, Unfit
from steptrail.infrastructure.views.generation import Erasures, Generation, NotCounted, ViewProgress
from steptrail.infrastructure.views.projector import Projector
from steptrail.infrastructure.views.series import Series
from steptrail.infrastructure.views.sqlite import SqliteSeries
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Key, Scalar, Table
from steptrail.projections.rendering import many
from steptrail.runtime.kernel.ports import EventStore

_PATIENCE_SECONDS = 5.0
_TRIES = 5
"""How many times in a row to begin again where the generation is removed while it is read."""
_SWEPT_AT_ONCE = 1_000
_Row = tuple[Scalar, ...]


class ViewsFault(NamedTuple):
    """Something about read models that is not as it should be.

    Where the rows of a `table` are not those that the log makes, `rows` is how many, and `key` that of the first one,
    without what users said. Where nothing can be said of the rows of a projection, there is no table and no damage.
    """

    projection: str
    what: str
    table: str | None = None
    rows: int = 0
    key: Mapping[str, Scalar] = {}
    is_damage: bool = False


class _Present(NamedTuple):
    """The place that is compared, what sums should not count, what could not be read, and what was passed."""

    position: int
    erased: Erasures
    damage: Sequence[NotCounted]
    skipped: Sequence[NotCounted]


async def verified(store: EventStore, series: Series, projections: Sequence[Projection[Any]]) -> Sequence[ViewsFault]:
    """Return what is wrong with the present generation. Changes nothing; without a generation nothing is wrong.

    Raises `StoreError` when the store or the read models do not answer.
    """
    for tries_left in reversed(range(_TRIES)):
        number = await asyncio.to_thread(series.current)
        if number is None:
            break
        try:
            present = series.open(number)
            found = [fault for each in projections for fault in await _verified(store, present, each)]
            books = await asyncio.to_thread(present.database.read, present.progress)
            known = {(each.name, each.version) for each in projections}
            return [*found, *(fault for each in books if each[:2] not in known for fault in _of_others(each))]
        except StoreError:
            if not tries_left or await asyncio.to_thread(series.current) == number:
                raise
    return []


def _of_others(progress: ViewProgress) -> Iterator[ViewsFault]:
    """Yield what is known of a projection whose rows cannot be compared, since it is not here."""
    name = progress.name
    if progress.skipped:
        yield ViewsFault(name, f"{name}, which is not here, passed {many(progress.skipped, 'event')}")
    if progress.error is not None:
        yield ViewsFault(name, f"{name}, which is not here, {_stopped(progress.error)}")


def _stopped(error: str) -> str:
    return f"has stopped: `steptrail views` says where: {_last_line(error)}"


def _last_line(traceback: str) -> str:
    return traceback.strip().rpartition("\n")[2]


async def _verified(store: EventStore, present: Generation, projection: Projection[Any]) -> Sequence[ViewsFault]:
    with temporary_folder("steptrail-verifying-") as folder:
        fresh = SqliteSeries(Path(folder), patience=_PATIENCE_SECONDS)
        try:
            fold = _Fold(store, await asyncio.to_thread(fresh.begin), projection)
            return await _compared(store, present, fold)
        except Unfit as error:
            return [ViewsFault(projection.name, str(error))]
        finally:
            await asyncio.to_thread(fresh.close)


class _Fold:
    """A projection over a generation of its own, which goes to any place of the log."""

    def __init__(self, store: EventStore, generation: Generation, projection: Projection[Any]) -> None:
        self.generation, self.projection = generation, projection
        self.projector = Projector(store, generation, projection, asyncio.to_thread, in_bulk=True)

    async def go_to(self, position: int) -> None:
        """Apply the log up to a position."""
        projector = self.projector
        if projector.until is None:
            prepare = partial(self.generation.prepare, projections=[self.projection])
            await asyncio.to_thread(self.generation.database.write, prepare)
            await projector.begin()
        projector.until = position
        while await projector.apply():
            pass


async def _compared(store: EventStore, present: Generation, fold: _Fold) -> Sequence[ViewsFault]:
    projection, loop = fold.projection, asyncio.get_running_loop()

    def place(statements: Statements) -> ViewProgress | None:
        own = [each for each in present.progress(statements) if each[:2] == (projection.name, projection.version)]
        if own:
            present.check_made(statements, projection, projection.tables)
        return own[0] if own else None

    def work(statements: Statements) -> tuple[list[ViewsFault], _Present]:
        stands = place(statements)
        position, pruned_before = (stands.reached.position, stands.pruned_before) if stands else (0, 0)
        erased = stands.erased if stands else Erasures()
        # The transaction holds what is compared, and the short way to its place is gone meanwhile.
        asyncio.run_coroutine_threadsafe(fold.go_to(position), loop).result()
        while fold.generation.prune(projection, pruned_before, _SWEPT_AT_ONCE):
            pass
        # What is to be deleted may still be there: whoever prunes goes on, or was killed.
        old = present.old(statements, projection, pruned_before)

        def side_by_side(counted: Statements) -> list[ViewsFault]:
            rows = (
                (table, _without(old, table, present.rows(statements, table)), fold.generation.rows(counted, table))
                for table in projection.tables
                if not erased.streams or table.of_stream or (table.belongs_to or table).of_stream
            )
            found = (_difference(projection, *each) for each in rows)
            return [each for each in found if each is not None]

        found = fold.generation.database.read(side_by_side)
        skipped = present.skipped(statements, projection)
        return found, _Present(position, erased, present.damaged(statements, projection), skipped)

    stored = await asyncio.to_thread(present.database.read, place)
    if stored is None:
        return []
    # The long way, while nothing is held.
    await fold.go_to(stored.reached.position)
    # In a thread of its own: it waits there for the fold, which needs those of everybody.
    thread = WorkThreads("steptrail-verifying")
    try:
        found, counted = await asyncio.wrap_future(thread.submit(lambda: present.database.read(work)))
    finally:
        thread.shutdown(wait=False)
    if found and (why := await _excuse(store, present, fold, counted)) is not None:
        found = [ViewsFault(projection.name, why)]
    if counted.erased.since is not None:
        since = f"since {to_datetime(counted.erased.since):%Y-%m-%d %H:%M} UTC"
        told = f"the sums of {projection.name} still count {many(counted.erased.streams, 'erased session')}"
        found.append(ViewsFault(projection.name, f"{told}, {since}: `steptrail rebuild` makes them anew"))
    if counted.skipped:
        first = counted.skipped[0]
        said = f"{projection.name} passed {many(len(counted.skipped), 'event')}, the first at position {first.position}"
        found.append(ViewsFault(projection.name, f"{said}: {_last_line(first.why)}"))
    if stored.error is not None:
        found.append(ViewsFault(projection.name, f"{projection.name} {_stopped(stored.error)}"))
    return found


async def _excuse(store: EventStore, present: Generation, fold: _Fold, counted: _Present) -> str | None:
    """Return why rows may well differ from a fresh fold; None when they may not."""
    name, fresh = fold.projection.name, fold.generation
    log = store.log(after=counted.position, types=(Erased.TYPE,), limit=1, on_corrupt=lambda _: None)
    erased = [each async for each in log]
    if erased or not await Projector(store, present, fold.projection, asyncio.to_thread).begin():
        return f"the rows of {name} are not of the log as it is now: the next question has them made right"
    if fold.projector.stopped is not None:
        return f"the rows of {name} cannot be compared: {fold.projector.stopped}"

    def of_fold(statements: Statements) -> tuple[list[NotCounted], list[NotCounted]]:
        return fresh.damaged(statements, fold.projection), fresh.skipped(statements, fold.projection)

    own, skipped = await asyncio.to_thread(fresh.database.read, of_fold)
    if [each.position for each in skipped] != [each.position for each in counted.skipped]:
        return f"{name} does not pass the same events any more: `steptrail rebuild`"
    known = {each.stream for each in counted.damage}
    if lost := [each for each in own if each.stream not in known]:
        return f"the rows of {name} cannot be compared: what was counted of {lost[0].stream} cannot be read any more"
    return None


def _without(old: Mapping[Table, frozenset[Key]], table: Table, rows: Iterator[_Row]) -> Iterator[_Row]:
    """Leave out the rows of a table that are old, or belong to one that is."""
    owner = table.belongs_to or table
    keys = old.get(owner)
    if not keys:
        return rows
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in owner.key]
    return (row for row in rows if tuple(row[place] for place in places) not in keys)


def _difference(
    projection: Projection[Any], table: Table, told: Iterator[_Row], counted: Iterator[_Row]
) -> ViewsFault | None:
    rows, first, what = 0, None, ""
    for row, right in _paired(len(table.key), told, counted):
        if row != right:
            rows += 1
            if first is None:
                first = row if right is None else right
                what = "is not there" if row is None else "should not be there" if right is None else "says otherwise"
    if first is None:
        return None
    key = {
        column.name: value
        for column, value in zip(table.columns[: len(table.key)], first, strict=False)
        if not column.is_private
    }
    named = ", ".join(f"{name} {value!r}" for name, value in key.items())
    what_is = "rows are" if rows > 1 else "row is"
    said = f"of {table.name} {rows} {what_is} not as the log has it, the first with {named}, which {what}"
    return ViewsFault(projection.name, f"{said}: `steptrail rebuild`", table.name, rows, key, True)


def _paired(keys: int, told: Iterator[_Row], counted: Iterator[_Row]) -> Iterator[tuple[_Row | None, _Row | None]]:
    """Yield the rows of one key from both sides, None for one that is missing. Both are in the order of the key."""
    left, right = next(told, None), next(counted, None)
    while left is not None or right is not None:
        if left is not None and right is not None and left[:keys] == right[:keys]:
            yield left, right
            left, right = next(told, None), next(counted, None)
        elif right is None or (left is not None and _place(left[:keys]) < _place(right[:keys])):
            yield left, None
            left = next(told, None)
        else:
            yield None, right
            right = next(counted, None)


def _place(key: _Row) -> list[tuple[int, Any]]:
    """Return what sorts as databases do, whatever was written into a row by hand: numbers, texts, bytes."""
    return [(0, value) if isinstance(value, int | float) else (1 + isinstance(value, bytes), value) for value in key]
