"""The blocking twin of `trail.views`. Methods have the signature and the docstring of the async ones they call."""

from steptrail.infrastructure.portal import Portal
from steptrail.interfaces.python.twins import Twin, blocking
from steptrail.interfaces.python.views import TrailViews

__all__ = ["SyncViews"]


class SyncViews(Twin[TrailViews]):
    """`TrailViews`, blocking."""

    def __init__(self, portal: Portal, views: TrailViews) -> None:
        self._portal, self._asynchronous = portal, views

    sql = blocking(TrailViews.sql)
    wait = blocking(TrailViews.wait)
    as_of = blocking(TrailViews.as_of)
    lag = blocking(TrailViews.lag)
    status = blocking(TrailViews.status)
    rebuild = blocking(TrailViews.rebuild)
