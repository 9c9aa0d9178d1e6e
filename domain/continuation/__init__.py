"""May the run go on? Every criterion votes, every vote is kept, and the votes resolve independently of their order.

A guard permits or forbids; a work driver asks for more work or says that its work is done.
"""

# A stored vote speaks the words of its criterion, and the names of what ships are reserved: so all of them are loaded.
from steptrail.domain.continuation import limits
from steptrail.domain.continuation.criteria import deprecated, error_policy, pending_input, predicate, user_stop, work

__all__ = ["deprecated", "error_policy", "limits", "pending_input", "predicate", "user_stop", "work"]
