"""Decides whether a run goes on. Each criterion votes, all votes are kept, and their order does not matter.

A guard allows or forbids. A work driver requests more work, or says that its work is done.
"""

# All built-in criteria are loaded here, because each reserves its name and gives the texts of its stored votes.
from steptrail.domain.continuation import limits
from steptrail.domain.continuation.criteria import (
    deprecated,
    error_policy,
    output,
    pending_input,
    predicate,
    user_stop,
    work,
)

__all__ = ["deprecated", "error_policy", "limits", "output", "pending_input", "predicate", "user_stop", "work"]
