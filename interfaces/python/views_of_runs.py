"""The read models that every store has, those of its runs, and beside them those of a service."""

from collections.abc import Sequence
from typing import Any

from steptrail.infrastructure.views.opening import open_series
from steptrail.infrastructure.views.own import checked
from steptrail.infrastructure.views.views import Views
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.runs_view.face import RUNS_FACE
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.kernel.clock import Clock
from steptrail.runtime.kernel.ports import EventStore


def own_projections(given: Sequence[Projection[Any]]) -> Sequence[Projection[Any]]:
    """Return the projections of a service. Raises `ConfigurationError` for those that cannot be."""
    return checked(given, (RunsView(),), RUNS_FACE)


def views_of_runs(store: EventStore, own: Sequence[Projection[Any]] = (), clock: Clock | None = None) -> Views:
    """Return the read models of an open store. Raises `ConfigurationError` for one that was opened at no address."""
    return Views(store, open_series(store), (RunsView(),), RUNS_FACE, own=own, clock=clock)
