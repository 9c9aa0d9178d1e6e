"""The blocking twin of `trail.views`. Methods have the signature and the docstring of the async ones they call."""

from typing import TypeVar

from steptrail.infrastructure.portal import Portal
from steptrail.interfaces.python.asking_runs import AskingRuns, RunsPage
from steptrail.interfaces.python.twins import Twin, blocking, fetched, made
from steptrail.interfaces.python.views import TrailViews

A_co = TypeVar("A_co", bound=AskingRuns, covariant=True)


class SyncRunsPage(Twin[RunsPage]):
    """`RunsPage`, blocking."""

    def __init__(self, portal: Portal, page: RunsPage) -> None:
        super().__init__(portal, page)
        self.rows, self.next, self.as_of, self.lag = page.rows, page.next, page.as_of, page.lag

    count = blocking(RunsPage.count)


class SyncAskingRuns(Twin[A_co]):
    """`AskingRuns`, blocking."""

    runs = fetched(AskingRuns.runs, SyncRunsPage)
    stats = blocking(AskingRuns.stats)
    failures = blocking(AskingRuns.failures)

    def of(self, tenant: str) -> "SyncAskingRuns[AskingRuns]":
        """See `AskingRuns.of`."""
        return made(AskingRuns.of, SyncAskingRuns[AskingRuns])(self, tenant)


class SyncViews(SyncAskingRuns[TrailViews]):
    """`TrailViews`, blocking."""

    sql = blocking(TrailViews.sql)
    wait = blocking(TrailViews.wait)
    as_of = blocking(TrailViews.as_of)
    lag = blocking(TrailViews.lag)
    status = blocking(TrailViews.status)
    verify = blocking(TrailViews.verify)
    prune = blocking(TrailViews.prune)
    rebuild = blocking(TrailViews.rebuild)
