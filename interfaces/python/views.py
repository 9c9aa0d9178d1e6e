"""`trail.views`: the read models of a store, to ask and to look after."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Literal

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_flag, a_text, a_time, a_whole
from steptrail.infrastructure.views.verifying import ViewsFault
from steptrail.infrastructure.views.views import AsOf, Views
from steptrail.interfaces.python.asking_runs import AskingRuns
from steptrail.runtime.kernel.ports import EventStore

Fresh = Literal["now"] | float | None
"""How new an answer has to be: as of now, or of so many seconds ago; None for as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """The answer to a question in SQL. `is_cut` tells that there are more rows.

    `as_of` is the position of the log up to which all is counted, `lag` how many positions behind it are not.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[JsonValue | bytes | datetime]]
    is_cut: bool
    as_of: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsStatus:
    """How one projection stands. `at` is the instant of the last event that is counted; None while there is none.

    `lag` is how many positions of the log are not counted, `error` why it has stopped at `error_position`. `skipped` is
    how many events it has passed because it failed at them, `damaged` how many sessions or runs have rows as they stood
    before an event that could not be read. Sums still count `erased` sessions or runs, since `erased_at`; rows do not.
    Rows of runs that ended before `pruned_before` are deleted; None where none are. `generation` and `bytes` are those
    of all read models together, and `place` is where they are kept: a folder, or a schema of the store's database.
    """

    name: str
    version: int
    generation: int
    position: int
    at: datetime | None
    lag: int
    bytes: int
    error_position: int | None
    error: str | None
    skipped: int
    damaged: int
    erased: int
    erased_at: datetime | None
    pruned_before: datetime | None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """How many runs that ended before an instant have, or would have, no rows any more.

    Old rows of a projection of a service go too, and are not among them.
    """

    before: datetime
    runs: int
    is_dry_run: bool


class TrailViews(AskingRuns):
    """The read models of a store: rows and sums that are made of its log alone, and can be thrown away at any time.

    They are applied when somebody asks, and as they grow inside of `kept_going`. Whatever another process has applied
    is not applied again.
    """

    def __init__(self, opened: Callable[[], Views], store: EventStore, now: Callable[[], int]) -> None:
        super().__init__(partial(self.refreshed, for_us=True), store, now)
        self._opened, self._now = opened, now
        self._views: Views | None = None
        self._opening = Lock()

    async def sql(
        self,
        text: str,
        *values: str | int | bool | None,
        fresh: Fresh = "now",
        timeout: float = 5.0,
        limit: int = 10_000,
    ) -> SqlAnswer:
        """Return the first `limit` rows of a question to the public views. `$1`, `$2` and so on stand for `values`.

        Raises `QueryRefused` for one that is not understood, that does not only read, or that takes longer than
        `timeout` seconds.
        """
        a_text(text, "a question in SQL")
        a_time(timeout, "the timeout of a question")
        a_whole(limit, "the `limit` of a question")
        views = await self.refreshed(fresh)
        found, as_of = await views.sql(text, values, seconds=timeout, most=limit)
        lag = await views.lag(as_of)
        return SqlAnswer(columns=found.columns, rows=found.rows, is_cut=found.is_cut, as_of=as_of.position, lag=lag)

    async def wait(self, position: int | None = None, *, timeout: float = 30.0) -> None:
        """Return as soon as all up to a position of the log is counted; without one, all that is stored now.

        Applies it, if no other process does. Raises `ProjectionStopped` where it does not go on, and `TimeoutError`.
        """
        if position is not None:
            a_whole(position, "a position of the log")
        a_time(timeout, "the timeout of a wait")
        views = self.all
        await views.wait(await views.end() if position is None else position, timeout=timeout)

    async def as_of(self) -> AsOf:
        """Return the position of the log up to which all is counted, and the instant of the event there."""
        return await self.all.as_of()

    async def lag(self) -> int:
        """Return how many positions of the log are not counted yet."""
        return await self.all.lag()

    async def status(self) -> Sequence[ViewsStatus]:
        """Return how each projection stands, one that was never begun left out. Applies nothing."""
        found, generation, size = await self.all.status()
        end = await self.all.end()
        return [
            ViewsStatus(
                name=each.name,
                version=each.version,
                generation=generation,
                position=each.reached.position,
                at=to_datetime(each.reached.at) if each.reached.position else None,
                lag=max(0, end - each.reached.position),
                bytes=size,
                error_position=each.error_position,
                error=each.error,
                skipped=each.skipped,
                damaged=each.damaged,
                erased=each.erased.streams,
                erased_at=None if each.erased.since is None else to_datetime(each.erased.since),
                pruned_before=to_datetime(each.pruned_before) if each.pruned_before else None,
                place=self.all.series.place,
            )
            for each in found
        ]

    async def verify(self) -> Sequence[ViewsFault]:
        """Return what is not as it should be: rows that differ from what a fresh fold of the log makes, up to here.

        Changes nothing. It reads the log from its beginning, as a rebuild does, and keeps as much in a temporary file
        meanwhile. `rebuild` mends what it finds.
        """
        return await self.all.verify()

    async def prune(self, *, older_than: timedelta, dry_run: bool = True) -> PruneReport:
        """Delete the rows of runs that ended longer ago than `older_than`, if not `dry_run`. Sums of days stay.

        Nothing in the log is touched; `trail.retain` erases. The rows stay out, also after a rebuild, and of what
        somebody begins in an old session there are rows again. Readers see each run whole or not at all. Raises
        `ConfigurationError` for an age that is not above 0, and `ViewsBusy` while another process prunes or rebuilds.
        """
        if not isinstance(older_than, timedelta) or older_than <= timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"older_than is a time above 0, not {older_than}")
        a_flag(dry_run, "dry_run")
        await self.refreshed("now")
        before = max(1, self._now() - older_than // timedelta(microseconds=1))
        runs = await (self.all.old(before) if dry_run else self.all.prune(before))
        return PruneReport(before=to_datetime(before), runs=runs, is_dry_run=dry_run)

    async def rebuild(self, *, whole: bool = False) -> int:
        """Make all read models anew from the beginning of the log, and return the number of the new generation.

        Meanwhile everybody reads the present one. What was pruned stays out, unless it is to be `whole`. Raises
        `ViewsBusy` while another process rebuilds or prunes them, and `ProjectionStopped` where it does not go on; then
        nothing is changed.
        """
        return await self.all.rebuild(whole=a_flag(whole, "`whole`"))

    def kept_going(self) -> AbstractAsyncContextManager[None]:
        """Return a block inside of which every event is applied as soon as it is stored, by this process or another."""
        return self.all.kept_going()

    @property
    def all(self) -> Views:
        """The read models behind this handle."""
        with self._opening:
            if self._views is None:
                self._views = self._opened()
            return self._views

    async def refreshed(self, fresh: Fresh, *, for_us: bool = False) -> Views:
        """Return the read models, as new as they have to be, if nobody else is applying the log to them now.

        Those of a service are left as they are if they are `for_us`.
        """
        if fresh == "now":
            await self.all.catch_up(for_us=for_us)
        elif fresh is not None:
            if not isinstance(fresh, int | float) or fresh != fresh:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"fresh is 'now', a number of seconds or None, not {fresh!r}")
            counted = await self.all.as_of(for_us=for_us)
            # What is counted may be of a machine whose clock is ahead, or of before ours was set back.
            if not 0 <= self._now() - counted.at <= fresh * 1_000_000:
                await self.all.catch_up(for_us=for_us)
        return self.all

    async def aclose(self) -> None:
        """Close what was opened. Safe to call twice."""
        views, self._views = self._views, None
        if views is not None:
            await views.close()
