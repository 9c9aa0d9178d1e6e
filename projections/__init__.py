"""Read models folded from stored events; each is usable alone.

A name is loaded when it is first asked for, because a process that only runs agents needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steptrail.domain.shared.summary import RunSummary
    from steptrail.projections.agent_state import project_agent_state
    from steptrail.projections.asking.filters import RunFilter, RunOrder
    from steptrail.projections.asking.runs import RunCount, RunRow
    from steptrail.projections.asking.stats import FailureGroup, Group, Stats
    from steptrail.projections.decisions import CallRow, DecisionRow, Decisions, EndRow, project_decisions
    from steptrail.projections.execution_time import ExecutionTime, project_execution_time
    from steptrail.projections.explanation import AgentExplanation, explain
    from steptrail.projections.kernel.changes import Changes
    from steptrail.projections.kernel.projection import Projection
    from steptrail.projections.kernel.table import INSTANT, Column, ColumnKind, Index, Row, Table
    from steptrail.projections.kinds import Explanation
    from steptrail.projections.questions import Question
    from steptrail.projections.stop_reasons import ExecutionStop, project_stop_reasons
    from steptrail.projections.tree import RunTree

if __name__ != "steptrail.projections":  # pragma: no cover
    raise ImportError("import 'steptrail.projections', not 'projections': events must be loaded only once")

__all__ = [
    "INSTANT",
    "AgentExplanation",
    "CallRow",
    "Changes",
    "Column",
    "ColumnKind",
    "DecisionRow",
    "Decisions",
    "EndRow",
    "ExecutionStop",
    "ExecutionTime",
    "Explanation",
    "FailureGroup",
    "Group",
    "Index",
    "Projection",
    "Question",
    "Row",
    "RunCount",
    "RunFilter",
    "RunOrder",
    "RunRow",
    "RunSummary",
    "RunTree",
    "Stats",
    "Table",
    "explain",
    "project_agent_state",
    "project_decisions",
    "project_execution_time",
    "project_stop_reasons",
]

_NAMES_OF = {
    "steptrail.domain.shared.summary": ("RunSummary",),
    "steptrail.projections.agent_state": ("project_agent_state",),
    "steptrail.projections.asking.filters": ("RunFilter", "RunOrder"),
    "steptrail.projections.asking.runs": ("RunCount", "RunRow"),
    "steptrail.projections.asking.stats": ("FailureGroup", "Group", "Stats"),
    "steptrail.projections.decisions": ("CallRow", "DecisionRow", "Decisions", "EndRow", "project_decisions"),
    "steptrail.projections.execution_time": ("ExecutionTime", "project_execution_time"),
    "steptrail.projections.explanation": ("AgentExplanation", "explain"),
    "steptrail.projections.kernel.changes": ("Changes",),
    "steptrail.projections.kernel.projection": ("Projection",),
    "steptrail.projections.kernel.table": ("INSTANT", "Column", "ColumnKind", "Index", "Row", "Table"),
    "steptrail.projections.kinds": ("Explanation",),
    "steptrail.projections.questions": ("Question",),
    "steptrail.projections.stop_reasons": ("ExecutionStop", "project_stop_reasons"),
    "steptrail.projections.tree": ("RunTree",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
