"""The four decisions a vote can take, and the nine reasons a run can stop for.

The decisions have an order of strength, forbid > request > stop > allow, and the strongest one present wins. So the
order of the votes never matters, and a forbid cannot be overridden.
"""

from enum import StrEnum

__all__ = [
    "ContinuationDecision",
]


class ContinuationDecision(StrEnum):
    """One vote on whether the run goes on. Members stand in order of strength, strongest first."""

    FORBID = "forbid"
    """A guard ends the run."""
    REQUEST = "request"
    """A work driver has more to do."""
    STOP = "stop"
    """A work driver has no work left."""
    ALLOW = "allow"
    """A guard has no objection."""

    @staticmethod
    def can_continue_with(*decisions: "ContinuationDecision") -> bool:
        """Tell whether a run with these votes goes on. Nobody voting is a no; allows alone are a yes."""
        if ContinuationDecision.FORBID in decisions:
            return False
        if ContinuationDecision.REQUEST in decisions:
            return True
        if ContinuationDecision.STOP in decisions:
            return False
        return ContinuationDecision.ALLOW in decisions
