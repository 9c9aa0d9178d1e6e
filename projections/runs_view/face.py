"""The public face of the read model of runs: a view for each of its tables."""

from steptrail.projections.kernel.face import Face, view_of
from steptrail.projections.runs_view.sums import SUMS
from steptrail.projections.runs_view.tables import ROWS

__all__ = ["RUNS_FACE"]

RUNS_FACE = Face(version=1, views=tuple(view_of(table, since="0.1") for table in (*ROWS, *SUMS)))
"""A change of a table changes it too: then its version grows, and `docs/views.md` is made anew."""
