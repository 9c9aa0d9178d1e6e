"""The pages that the read models answer: sums, failures, and lists of runs by what only these know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import to_datetime
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.cli.times import time_of
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.answering import Answering
from steptrail.interfaces.http.inspector.charts import DayChart, DaySeries, chart, days_between
from steptrail.interfaces.http.inspector.counting import CountedAnswer, Counting
from steptrail.interfaces.http.inspector.filters import (
    FILTERS,
    LABELS,
    chips,
    counted_filter,
    fits,
    index_query,
    is_counted,
    said_in,
)
from steptrail.interfaces.http.inspector.list_places import sealed, unsealed
from steptrail.interfaces.http.inspector.lists import PAGE, page_of_runs
from steptrail.interfaces.http.inspector.words import duration
from steptrail.interfaces.python.asking_runs import AskingRuns, RunsPage
from steptrail.interfaces.python.failing_alike import same_failure
from steptrail.interfaces.python.lists import WAIT_KINDS
from steptrail.projections.asking.filters import CRASHED, RunOrder
from steptrail.projections.asking.runs import RunCount
from steptrail.projections.asking.stats import FailureGroup, Stats
from steptrail.projections.rendering import dollars
from steptrail.projections.same_failure import SameFailure

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_SPANS: Final = ("24h", "7d", "30d", "90d")
_TONES: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("completed", "good"),
    "failed": ("failed", "bad"),
    "stopped": ("stopped", "warn"),
}


@dataclass(frozen=True)
class CountedPages(Answering):
    """The pages that the read models answer."""

    async def runs(self, request: "Request", access: Access) -> "Response":
        """Answer with a page of runs; the filters are those of the address."""
        said = said_in(request.query_params)
        filters = {key: value for key, value in said.items() if key in FILTERS}
        given: dict[str, Any] = {
            "page": "runs",
            "filters": filters,
            "chips": chips(filters),
            "labels": LABELS,
            "is_first": "after" not in said,
            "wrong": None,
            "choices": {
                "status": [*ExecutionStatus, CRASHED],
                "stop_reason": list(StopReason),
                "waits_for": WAIT_KINDS,
                "order": list(RunOrder),
                "since": _SPANS,
            },
        }
        try:
            if is_counted(said):
                told = await self._listed(access, said)
                return self.shown(request, "runs.html", told=told, found=None, more=told.answer, **given)
            asked = index_query(said)
            tag = await self.tag_of_log(request, access)
            found = await page_of_runs(self.trail, access, asked, after=said.get("after"))
            tag = tag or self.tag(request, found)
        except ConfigurationError as error:
            given |= {"told": None, "found": None, "more": None, "wrong": str(error)}
            return self.shown(request, "runs.html", HTTPStatus.BAD_REQUEST, **given)
        return self.shown(request, "runs.html", tag=tag, told=None, found=found, more=None, **given)

    async def _listed(self, access: Access, said: Mapping[str, str]) -> CountedAnswer[Any]:
        """Return a page of the runs that filters find, with their number."""
        wanted, order = counted_filter(said)
        store, place = self.trail.store, said.get("after")
        after = None if place is None else await unsealed(store, access, place)

        async def question(asked: AskingRuns) -> tuple[RunsPage, RunCount]:
            page = await asked.runs(wanted, order.value, PAGE, after, fresh=None)
            following = None if page.next is None else await sealed(store, access, page.next)
            return replace(page, next=following), await page.count()

        return await self.counting.ask(access, question)

    async def stats(self, request: "Request", access: Access) -> "Response":
        """Answer with what runs come to, by day and by agent."""

        async def question(asked: AskingRuns, **of: Any) -> tuple[Stats, Stats]:
            by_day = await asked.stats(by=("day",), **of, fresh=None)
            return by_day, await asked.stats(by=("agent",), **of, fresh=None)

        told, status, given = await self._of_a_time(request, access, question)
        by_day, by_agent = told.answer if told.answer is not None else (None, None)
        return self.shown(
            request,
            "stats.html",
            status,
            page="stats",
            told=told,
            stats=by_day,
            agents=() if by_agent is None else sorted(by_agent.groups, key=lambda each: -each.runs),
            charts=() if by_day is None else self._charts(by_day),
            **given,
        )

    async def failures(self, request: "Request", access: Access) -> "Response":
        """Answer with the failures, those that are alike together."""

        async def question(asked: AskingRuns, **of: Any) -> Sequence[FailureGroup]:
            return await asked.failures(**of, fresh=None)

        told, status, given = await self._of_a_time(request, access, question)
        groups = list(told.answer or ())
        today = to_datetime(self.trail.clock.utc()).date()
        days = days_between([each.first_day for each in groups], today)
        trends = [chart("", days, [DaySeries("runs and calls", "bad", each.days)], str) for each in groups[:PAGE]]
        return self.shown(
            request,
            "failures.html",
            status,
            page="failures",
            told=told,
            groups=list(zip(groups, trends, strict=False)),
            count=len(groups),
            **given,
        )

    async def _of_a_time(
        self, request: "Request", access: Access, question: Any
    ) -> tuple[CountedAnswer[Any], HTTPStatus, Mapping[str, Any]]:
        """Ask about the runs of the time and the agent that an address names; what is wrong with these is told."""
        since, agent = request.query_params.get("since") or "7d", request.query_params.get("agent") or None
        given: dict[str, Any] = {"since": since, "agent": agent, "spans": _SPANS, "wrong": None}
        try:
            fits({"since": since, "agent": agent or ""})
            span = time_of(since)
        except (ConfigurationError, ValueError) as error:
            return CountedAnswer(None), HTTPStatus.BAD_REQUEST, given | {"wrong": str(error)}
        try:
            told = await self.counting.ask(access, lambda asked: question(asked, since=span, agent=agent))
        except ConfigurationError as error:
            told = CountedAnswer[Any](None, trouble=str(error))
        return told, HTTPStatus.OK, given

    def _charts(self, stats: Stats) -> Sequence[DayChart]:
        by_day = {group.by["day"]: group for group in stats.groups}
        days = days_between(list(by_day), to_datetime(self.trail.clock.utc()).date())

        def of(measure: str, percent: str) -> Mapping[str, float]:
            found = {day: group.percentiles.get(measure) for day, group in by_day.items()}
            return {day: getattr(each, percent) for day, each in found.items() if each is not None}

        ended = [
            DaySeries(name, tone, {day: group.statuses.get(status, 0) for day, group in by_day.items()})
            for status, (name, tone) in _TONES.items()
        ]
        active = [DaySeries("95 %", "tool", of("active", "p95")), DaySeries("half", "busy", of("active", "p50"))]
        tokens = {day: float(sum(group.tokens.values())) for day, group in by_day.items()}
        cost = {day: group.cost_usd for day, group in by_day.items()}
        charts = [
            chart("Runs that ended", days, ended, lambda value: f"{value:,.0f}"),
            chart("Active time of a run", days, active, duration, stacked=False),
            chart("Tokens", days, [DaySeries("tokens", "busy", tokens)], lambda value: f"{value:,.0f}"),
            chart("Cost", days, [DaySeries("cost", "good", cost)], dollars),
        ]
        return [each for each in charts if each.columns]


async def alike(
    counting: Counting, access: Access, row: RunSummary, ordinal: int | None
) -> CountedAnswer[SameFailure | None]:
    """Return how often the failure of an execution of a run has come lately; None where that is not counted yet."""
    try:
        return await counting.ask(access, lambda asked: same_failure(asked, row.stream, ordinal or row.executions))
    except ConfigurationError:
        return CountedAnswer(None)
