"""`Workflow` as services get it: what it builds is checked by that by which the nodes of its runs are evaluated."""

from typing import Final

from steptrail.infrastructure.flow.means import flow_means
from steptrail.runtime.flow.builder import FlowBuilder

CHECKED_BY: Final = flow_means().of_nodes


class Workflow(FlowBuilder):
    """Writes a workflow. Each method adds to it and returns it; `build` makes what can be run.

    `result` is the variable that is the output of a run; without it that is the output of the node that ended its
    branch last, by the order of the nodes. A run begins at `entry`, or else at every node that no edge but a loop leads
    to. `options` are those of runs that bring none.

    The output of a node stands in the variable `output`, by default `<id>_output`, and `<id>_decision` of a node that
    chooses; a merge by `json` or `best_score` has none unless it is named. What is written wrongly is a
    `ConfigurationError`: at once where it is about one node, and in `build`, all of it together, where it is about the
    graph or what nodes hold: templates, patterns, and what needs the extra `flow`, which are CEL expressions, JSON
    schemas and webhooks.
    """

    _means = CHECKED_BY
