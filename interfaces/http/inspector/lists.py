"""Lists of runs and questions as a caller may see them, from the index of the store."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from steptrail.domain.errors import stream_name
from steptrail.domain.kernel.commands import CALLER
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.shared.tags import kept_apart
from steptrail.interfaces.http.inspector.access import Access, visible
from steptrail.interfaces.http.inspector.list_places import sealed, unsealed
from steptrail.interfaces.python.lists import open_questions
from steptrail.interfaces.python.naming import stream_named
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.questions import ASKS_PEOPLE, Question
from steptrail.runtime.kernel.lists import listed_runs
from steptrail.runtime.kernel.ports import EventStore

PAGE: Final = 50
"""How many rows a page of a list has."""
_MOST_LOOKED_AT: Final = 500
"""How many runs are looked at for one page, where only some of them are wanted."""
_BELOW: Final = 100
"""About how many runs below one are shown."""
_LATELY_US: Final = 86_400 * 1_000_000


class RunPage(NamedTuple):
    """A page of runs. `after` is the place at which the next page goes on; None where there is no more."""

    rows: Sequence[RunSummary]
    after: str | None


class QuestionPage(NamedTuple):
    """The open questions of a page of runs; see `RunPage`."""

    questions: Sequence[Question]
    after: str | None


class Needs(NamedTuple):
    """The things that somebody should look at. `failed` are the runs that failed within a day."""

    questions: QuestionPage
    crashed: RunPage
    paused: RunPage
    failed: RunPage

    @property
    def is_any(self) -> bool:
        """Tell whether there is anything to look at."""
        return bool(self.questions.questions or self.crashed.rows or self.paused.rows or self.failed.rows)

    @property
    def is_whole(self) -> bool:
        """Tell whether every run was looked at."""
        return not any(page.after for page in (self.questions, self.crashed, self.paused, self.failed))


async def seen_run(store: EventStore, access: Access, stream: str) -> RunSummary | None:
    """Return the row of a stream, if the caller may see it."""
    found = visible(access, await listed_runs(store, IndexQuery(streams=[stream])))
    return found[0] if found else None


async def page_of_runs(
    trail: Steptrail,
    access: Access,
    asked: IndexQuery,
    *,
    after: str | None = None,
    limit: int = PAGE,
    wanted: Callable[[RunSummary], bool] = lambda _: True,
) -> RunPage:
    """Return a page of the runs that a query finds, that are `wanted`, and that a caller may see.

    The one that began last comes first, behind the place `after`. Not all are looked at where few are wanted.
    Raises `ConfigurationError` for what is no place.
    """
    last = None if after is None else stream_named(await unsealed(trail.store, access, after))
    tenant = None if access.tenant is None else kept_apart(access.tenant)
    found, last = await _looked_through(trail, replace(asked, after=last, tenant=tenant), limit, wanted)
    return RunPage(found, None if last is None else await sealed(trail.store, access, stream_name(last)))


async def _looked_through(
    trail: Steptrail, asked: IndexQuery, limit: int, wanted: Callable[[RunSummary], bool]
) -> tuple[Sequence[RunSummary], str | None]:
    """Return the rows of a page, and the stream that was looked at last; None where there is no more."""
    found: list[RunSummary] = []
    after, looked = asked.after, 0
    while looked < _MOST_LOOKED_AT:
        rows = await listed_runs(trail.store, replace(asked, after=after, limit=limit + 1))
        looked += len(rows)
        for row in filter(wanted, rows[:limit]):
            if len(found) == limit:
                return found, after
            found.append(row)
            after = row.stream
        if len(rows) <= limit:
            return found, None
        after = rows[limit - 1].stream
        if len(found) == limit:
            break
    return found, after


async def runs_due(trail: Steptrail, access: Access) -> tuple[Sequence[RunSummary], bool]:
    """Return the runs that can go on and that a caller may see, a page at most, and whether there may be more."""
    looked = await trail.due(limit=_MOST_LOOKED_AT)
    found = visible(access, looked)
    return found[:PAGE], len(found) > PAGE or len(looked) == _MOST_LOOKED_AT


async def page_of_questions(trail: Steptrail, access: Access, *, after: str | None = None) -> QuestionPage:
    """Return what people are asked in a page of runs."""
    now = trail.clock.utc()
    page = await page_of_runs(trail, access, IndexQuery(waits_for=ASKS_PEOPLE, waits_at=now), after=after)
    return QuestionPage(await open_questions(trail.store, [row.stream for row in page.rows], now), page.after)


async def needs(trail: Steptrail, access: Access) -> Needs:
    """Return what somebody should look at, a page of each kind at most."""
    since = trail.clock.utc() - _LATELY_US
    page = partial(page_of_runs, trail, access)
    return Needs(
        questions=await page_of_questions(trail, access),
        crashed=await page(
            IndexQuery(unless_leased=await trail.store.leased() or ()), wanted=lambda row: row.is_crashed
        ),
        paused=await page(IndexQuery(status=ExecutionStatus.PAUSED), wanted=lambda row: row.paused_by != CALLER),
        failed=await page(IndexQuery(status=ExecutionStatus.FAILED), wanted=lambda row: row.updated_at >= since),
    )


async def runs_below(trail: Steptrail, access: Access, stream: str) -> tuple[Sequence[tuple[int, RunSummary]], bool]:
    """Return some runs below one, each with its depth from 1 and before those below it, and whether there are more."""
    below: dict[str, list[RunSummary]] = {}
    level, count, is_cut = [stream], 0, False
    while level and count < _BELOW:
        page = await page_of_runs(trail, access, IndexQuery(parents=level), limit=_BELOW)
        is_cut, rows = is_cut or page.after is not None, [row for row in page.rows if row.stream not in below]
        for row in reversed(rows):
            below.setdefault(row.parent.stream if row.parent is not None else "", []).append(row)
        level, count = [row.stream for row in rows], count + len(rows)

    found: list[tuple[int, RunSummary]] = []
    open_ones = [(1, row) for row in reversed(below.get(stream, []))]
    while open_ones:
        depth, row = open_ones.pop()
        found.append((depth, row))
        open_ones += [(depth + 1, each) for each in reversed(below.pop(row.stream, []))]
    return found, is_cut or bool(level)
