"""Asks the read models about runs: lists of them, what they come to, and how they fail."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_kind_of, a_text, a_whole
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.tags import kept_apart
from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.views import AsOf, Views
from steptrail.interfaces.python.lists import a_tenant
from steptrail.projections.asking.cursor import Cursor
from steptrail.projections.asking.filters import CRASHED, RunFilter, RunOrder, Since, any_of, instant_of, one_text
from steptrail.projections.asking.runs import RunCount, RunRow, page_of_runs
from steptrail.projections.asking.statements import COUNTED, Period, Questions
from steptrail.projections.asking.stats import GROUPS, FailureGroup, GroupBy, Stats, StatsQuestion, failure_groups
from steptrail.runtime.kernel.lists import crashed_runs, listed_runs
from steptrail.runtime.kernel.ports import EventStore

_ALL = RunFilter()
_LONGEST = 10_000
_MOST_CRASHED = 30_000
"""Each of them is a value of the statement, and SQLite takes 32,766 of those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """A page of a list of runs. `next` is where the page after it begins; None when this is the last one.

    `as_of` is the position of the log up to which all is counted, `lag` how many positions behind it are not.
    """

    rows: Sequence[RunRow]
    next: str | None
    as_of: int
    lag: int
    counted: Callable[[], Awaitable[RunCount]]
    """Counts the runs of the whole list; see `count`."""

    async def count(self) -> RunCount:
        """Return how many runs the whole list has. It counts to 10,000; as text it is then `10,000+`."""
        return await self.counted()


class AskingRuns:
    """The questions about runs, of one tenant, or of all when it is None."""

    def __init__(
        self,
        refreshed: Callable[[Any], Awaitable[Views]],
        store: EventStore,
        now: Callable[[], int],
        tenant: str | None = None,
    ) -> None:
        self._get, self._from, self._utc = refreshed, store, now
        self._questions = Questions(tenant)

    async def runs(
        self,
        filter: RunFilter = _ALL,  # noqa: A002 - the word for it
        order: str = RunOrder.NEWEST,
        limit: int = 50,
        after: str | None = None,
        *,
        fresh: Any = "now",
    ) -> RunsPage:
        """Return a page of the runs that a filter finds.

        The order is `newest`, `oldest`, `dearest`, `slowest` or `most_retries`, of which it says what comes first.
        `after` is `next` of the page before. Raises `ConfigurationError` for an order that there is not, for a limit
        that is not from 1 to 10,000, and for an `after` of another list.
        """
        a_kind_of(RunFilter, filter, "the filter of a list of runs")
        if order not in list(RunOrder):
            raise ConfigurationError(f"there is no order {order!r} of runs: there are {', '.join(RunOrder)}")
        if a_whole(limit, "the `limit` of a page of runs", least=1) > _LONGEST:
            raise ConfigurationError(f"a page of runs has 1 to {_LONGEST:,} rows, not {limit}")
        way, now = RunOrder(order), self._utc()
        cursor = None if after is None else Cursor.of(after, way)
        crashed = await self._crashed(filter)
        asked = self._questions.runs(filter, way, limit, cursor, now=now, crashed=crashed)
        views = await self._get(fresh)
        found, as_of = await views.fetch(asked.text, *asked.values)
        rows, following = page_of_runs(found, way, limit)

        async def counted() -> RunCount:
            question = self._questions.count(filter, way, now=now, crashed=crashed)
            (((number,),), _) = await views.fetch(question.text, *question.values)
            return RunCount(runs=min(number, COUNTED), is_more=number > COUNTED)

        lag = await views.lag(as_of)
        return RunsPage(rows=await self._marked(rows), next=following, as_of=as_of.position, lag=lag, counted=counted)

    async def stats(
        self,
        since: Since = None,
        until: Since = None,
        by: Sequence[GroupBy] = (),
        *,
        agent: str | None = None,
        tenant: str | None = None,
        fresh: Any = "now",
    ) -> Stats:
        """Return what runs come to that ended from the day of `since` to that of `until`, also grouped.

        Raises `ConfigurationError` for what runs cannot be grouped by.
        """
        if isinstance(by, str) or not isinstance(by, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"by is a list of groups, such as ['agent'], not {by!r}")
        if unknown := [each for each in by if each not in list(GROUPS)]:
            raise ConfigurationError(f"runs are not grouped by {any_of(unknown)}: there are {', '.join(GROUPS)}")
        period = self._period(since, until, agent)
        questions = self._questions if tenant is None else self._of_one(tenant)._questions
        question = StatsQuestion(questions, period, list(dict.fromkeys(by)))

        def work(statements: Statements) -> tuple[list[Any], Sequence[FailureGroup]]:
            rows = [statements.ask(each.text, *each.values) for each in question.statements]
            return rows, _failures(statements, questions, period)

        views = await self._get(fresh)
        (found, failures), as_of = await views.read(work)
        return question.answer(found, failures, as_of.position, await views.lag(as_of))

    async def failures(
        self, since: Since = None, until: Since = None, *, agent: str | None = None, fresh: Any = "now"
    ) -> Sequence[FailureGroup]:
        """Return the failures of these days by their signature, the one that ended most runs first."""
        period = self._period(since, until, agent)
        views = await self._get(fresh)
        found: tuple[Sequence[FailureGroup], AsOf] = await views.read(
            lambda statements: _failures(statements, self._questions, period)
        )
        return found[0]

    def of(self, tenant: str) -> "AskingRuns":
        """Return the same questions, which see nothing but the runs of one tenant.

        Raises `ConfigurationError` for what is no text, and for an empty one, which is the runs without a tenant.
        """
        return self._of_one(a_tenant(tenant))

    def _of_one(self, tenant: str) -> "AskingRuns":
        a_text(tenant, "a tenant")
        own = self._questions.tenant
        if own not in (None, tenant):
            raise ConfigurationError(f"these are the runs of {own!r}, and of no other tenant")
        return AskingRuns(self._get, self._from, self._utc, tenant)

    def _period(self, since: Since, until: Since, agent: str | None) -> Period:
        one_text("agent", agent)
        now = self._utc()
        return Period(since=instant_of(since, now), until=instant_of(until, now), agent=agent)

    async def _crashed(self, asked: RunFilter) -> Collection[str]:
        if CRASHED not in asked.words("status"):
            return ()
        own = None if self._questions.tenant is None else kept_apart(self._questions.tenant)
        working = IndexQuery(status=ExecutionStatus.IN_PROGRESS, tenant=own, limit=_MOST_CRASHED + 1)
        found = await crashed_runs(self._from, working)
        if len(found) > _MOST_CRASHED:
            raise ConfigurationError(
                f"a filter by the status {CRASHED!r} finds at most {_MOST_CRASHED:,} sessions, and more than that have "
                "crashed: list them with trail.runs(crashed=True)"
            )
        return [row.stream for row in found]

    async def _marked(self, rows: Sequence[RunRow]) -> Sequence[RunRow]:
        working = [row.stream for row in rows if row.status == ExecutionStatus.IN_PROGRESS.value]
        if not working:
            return rows
        index = await listed_runs(self._from, IndexQuery(streams=working))
        crashed = {row.stream for row in index if row.is_crashed}
        return [
            replace(row, is_crashed=True) if row.stream in crashed and row.ended_at is None else row for row in rows
        ]


def _failures(statements: Statements, questions: Questions, period: Period) -> Sequence[FailureGroup]:
    question = questions.failures(period)
    found = statements.ask(question.text, *question.values)
    signatures = sorted({row[0] for row in found})
    meanings: list[Any] = []
    # A statement takes so many values, and not more.
    for begin in range(0, len(signatures), 500):
        asked = questions.kinds_of_failures(signatures[begin : begin + 500])
        meanings += statements.ask(asked.text, *asked.values)
    return failure_groups(found, meanings)
