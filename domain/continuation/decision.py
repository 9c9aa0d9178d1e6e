"""The four decisions that a vote can take.

The decisions have an order of strength, forbid > request > stop > allow, and the strongest one wins. So the order of
the votes never matters, and no other vote can override a forbid.
"""

from collections.abc import Collection
from enum import StrEnum


class ContinuationDecision(StrEnum):
    """The decision of a vote on whether the run goes on. The members are in order of strength, the strongest first."""

    FORBID = "forbid"
    """A guard ends the run."""
    REQUEST = "request"
    """A work driver has more to do."""
    STOP = "stop"
    """A work driver has no work left."""
    ALLOW = "allow"
    """A guard has no objection."""

    @staticmethod
    def strongest(decisions: Collection["ContinuationDecision"]) -> "ContinuationDecision | None":
        """Return the strongest of these decisions; None when there are none."""
        return next((decision for decision in ContinuationDecision if decision in decisions), None)

    @staticmethod
    def can_continue_with(*decisions: "ContinuationDecision") -> bool:
        """Tell whether a run with these votes goes on. Without any vote it stops; with `allow` alone it goes on."""
        strongest = ContinuationDecision.strongest(decisions)
        return strongest in {ContinuationDecision.REQUEST, ContinuationDecision.ALLOW}
