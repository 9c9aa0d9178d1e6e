"""The shipped test kit: scenarios, port contracts, fault points, a scripted model.

The port contracts need pytest and stand in modules of their own.
"""

from steptrail.testing.scripted_model import Reply, ScriptedModel, call, calls, say

if __name__ != "steptrail.testing":  # pragma: no cover
    raise ImportError("import 'steptrail.testing', not 'testing': events must be loaded only once")

__all__ = ["Reply", "ScriptedModel", "call", "calls", "say"]
