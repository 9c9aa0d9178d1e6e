"""The read model of runs: rows and sums of the executions of agents and workflows, made of the log alone."""

from steptrail.projections.runs_view.sums import SUMS
from steptrail.projections.runs_view.tables import ROWS
from steptrail.projections.runs_view.view import RunsView

__all__ = ["ROWS", "SUMS", "RunsView"]
