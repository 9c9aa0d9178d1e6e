"""The blocking twin of `trail.views`. Methods have the signature and the docstring of the async ones they call."""

from steptrail.infrastructure.portal import Portal
from steptrail.interfaces.python.asking_runs import AskingRuns, RunPage
from steptrail.interfaces.python.twins import Twin, blocking, fetched, made
from steptrail.interfaces.python.views import TrailViews

__all__ = ["SyncAskingRuns", "SyncRunPage", "SyncViews"]


class SyncRunPage(Twin[RunPage]):
    """`RunPage`, blocking."""

    def __init__(self, portal: Portal, page: RunPage) -> None:
        self._portal, self._asynchronous = portal, page
        self.rows, self.next, self.as_of, self.lag = page.rows, page.next, page.as_of, page.lag

    count = blocking(RunPage.count)


class SyncAskingRuns(Twin[AskingRuns]):
    """`AskingRuns`, blocking."""

    def __init__(self, portal: Portal, asking: AskingRuns) -> None:
        self._portal, self._asynchronous = portal, asking

    runs = fetched(AskingRuns.runs, SyncRunPage)
    stats = blocking(AskingRuns.stats)
    failures = blocking(AskingRuns.failures)

    def of(self, tenant: str) -> "SyncAskingRuns":
        """See `AskingRuns.of`."""
        return made(AskingRuns.of, SyncAskingRuns)(self, tenant)


class SyncViews(Twin[TrailViews]):
    """`TrailViews`, blocking."""

    def __init__(self, portal: Portal, views: TrailViews) -> None:
        self._portal, self._asynchronous = portal, views

    runs = fetched(TrailViews.runs, SyncRunPage)
    stats = blocking(TrailViews.stats)
    failures = blocking(TrailViews.failures)
    of = made(TrailViews.of, SyncAskingRuns)

    sql = blocking(TrailViews.sql)
    wait = blocking(TrailViews.wait)
    as_of = blocking(TrailViews.as_of)
    lag = blocking(TrailViews.lag)
    status = blocking(TrailViews.status)
    rebuild = blocking(TrailViews.rebuild)
