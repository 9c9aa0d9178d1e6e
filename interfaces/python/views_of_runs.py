"""The read models that every store has: those of its runs."""

from steptrail.infrastructure.views.opening import open_series
from steptrail.infrastructure.views.views import Views
from steptrail.projections.runs_view.face import RUNS_FACE
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["views_of_runs"]


def views_of_runs(store: EventStore) -> Views:
    """Return the read models of an open store. Raises `ConfigurationError` for one that was opened at no address."""
    return Views(store, open_series(store), (RunsView(),), RUNS_FACE)
