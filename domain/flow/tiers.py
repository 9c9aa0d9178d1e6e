"""The three tiers of error handling: further tries, the settings of the node, the settings of the run.

The first tier has no try left, or does not cover the failure, when `verdict` is asked. The first row that fits holds:

| on_error (does continue_on cover the class?) | critical | the run tolerates the class | outcome | decided by |
|---|---|---|---|---|
| continue, record or an error edge (yes, or no limit given) | any | any | recorded | the node |
| fail, unset, or not covered | no | yes | recorded | the run |
| fail, unset, or not covered | yes | yes | failed | the node: it is critical |
| fail, unset, or not covered | any | no | failed | the run |
"""

from typing import NamedTuple

from steptrail.domain.flow.envelope import Tier
from steptrail.domain.flow.nodes import Node
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import FailureClass, OnError


class Verdict(NamedTuple):
    """Whether the run goes on after a failure, whose settings said so, and which setting it was."""

    is_recorded: bool
    tier: Tier
    rule: str


def tolerates(node: Node, failure: FailureClass) -> bool:
    """Tell whether the settings of the node themselves let the run go on after such a failure."""
    says_go_on = node.on_error in {OnError.CONTINUE, OnError.RECORD}
    return says_go_on and (not node.continue_on or failure in node.continue_on)


def verdict(node: Node, failure: FailureClass, options: RunOptions) -> Verdict:
    """Return what becomes of a run after a failure of a node that is not tried again."""
    if tolerates(node, failure):
        return Verdict(True, "node", f"on_error={node.on_error}")
    if not options.tolerates(failure):
        off = options.continue_on_error is False or options.continue_on_error == ()
        why = "continue_on_error is off" if off else f"continue_on_error does not hold {failure}"
        return Verdict(False, "run", why)
    if node.critical:
        return Verdict(False, "node", "critical")
    return Verdict(True, "run", "continue_on_error")
