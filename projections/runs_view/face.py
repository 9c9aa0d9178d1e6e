"""The public face of the read model of runs: a view for each of its tables, and those that are made of several."""

from steptrail.projections.kernel.face import Face, view_of
from steptrail.projections.runs_view.derived import DERIVED, SPREAD_WITH_TIMES, UNITED_ATTEMPTS
from steptrail.projections.runs_view.sums import SPREAD_DAILY, SUMS
from steptrail.projections.runs_view.tables import ATTEMPTS, ROWS

_OTHERS = {ATTEMPTS: UNITED_ATTEMPTS, SPREAD_DAILY: SPREAD_WITH_TIMES}
_OF_TABLES = (_OTHERS.get(table) or view_of(table, since="0.1") for table in (*ROWS, *SUMS))
RUNS_FACE = Face(version=7, views=(*_OF_TABLES, *DERIVED))
"""A change of a table changes it too: then its version grows, and `docs/views.md` is made anew."""
