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
    from steptrail.projections.asking.stats import FailureGroup, Stats
    from steptrail.projections.decisions import CallRow, DecisionRow, Decisions, EndRow, project_decisions
    from steptrail.projections.execution_time import ExecutionTime, project_execution_time
    from steptrail.projections.explanation import AgentExplanation, explain
    from steptrail.projections.kernel.changes import Changes
    from steptrail.projections.kernel.projection import Entry, Projection
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
    "Entry",
    "ExecutionStop",
    "ExecutionTime",
    "Explanation",
    "FailureGroup",
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

_MODULE_OF = {
    "INSTANT": "steptrail.projections.kernel.table",
    "AgentExplanation": "steptrail.projections.explanation",
    "CallRow": "steptrail.projections.decisions",
    "Changes": "steptrail.projections.kernel.changes",
    "Column": "steptrail.projections.kernel.table",
    "ColumnKind": "steptrail.projections.kernel.table",
    "DecisionRow": "steptrail.projections.decisions",
    "Decisions": "steptrail.projections.decisions",
    "EndRow": "steptrail.projections.decisions",
    "Entry": "steptrail.projections.kernel.projection",
    "ExecutionStop": "steptrail.projections.stop_reasons",
    "ExecutionTime": "steptrail.projections.execution_time",
    "Explanation": "steptrail.projections.kinds",
    "FailureGroup": "steptrail.projections.asking.stats",
    "Index": "steptrail.projections.kernel.table",
    "Projection": "steptrail.projections.kernel.projection",
    "Question": "steptrail.projections.questions",
    "Row": "steptrail.projections.kernel.table",
    "RunCount": "steptrail.projections.asking.runs",
    "RunFilter": "steptrail.projections.asking.filters",
    "RunOrder": "steptrail.projections.asking.filters",
    "RunRow": "steptrail.projections.asking.runs",
    "RunSummary": "steptrail.domain.shared.summary",
    "RunTree": "steptrail.projections.tree",
    "Stats": "steptrail.projections.asking.stats",
    "Table": "steptrail.projections.kernel.table",
    "explain": "steptrail.projections.explanation",
    "project_agent_state": "steptrail.projections.agent_state",
    "project_decisions": "steptrail.projections.decisions",
    "project_execution_time": "steptrail.projections.execution_time",
    "project_stop_reasons": "steptrail.projections.stop_reasons",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
