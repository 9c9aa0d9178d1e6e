"""The shipped test kit: scripted and replayed models, recorded tools, scenarios, a clock, port contracts, fault points.

The port contracts need pytest and stand in modules of their own, and so does the pytest plugin.
"""

from steptrail.interfaces.python.loading import load_agent
from steptrail.interfaces.python.recording import Recording
from steptrail.interfaces.python.redaction import redact
from steptrail.runtime.kernel.clock import Clock
from steptrail.testing.clock import ManualClock
from steptrail.testing.mismatch import ReplayMismatch
from steptrail.testing.normalise import normalise
from steptrail.testing.replay import Replay, replay
from steptrail.testing.replay_model import ReplayModel
from steptrail.testing.replay_tools import replay_tools, replayed
from steptrail.testing.scripted_model import Reply, ScriptedModel, call, calls, say

if __name__ != "steptrail.testing":  # pragma: no cover
    raise ImportError("import 'steptrail.testing', not 'testing': events must be loaded only once")

__all__ = [
    "Clock",
    "ManualClock",
    "Recording",
    "Replay",
    "ReplayMismatch",
    "ReplayModel",
    "Reply",
    "ScriptedModel",
    "call",
    "calls",
    "load_agent",
    "normalise",
    "redact",
    "replay",
    "replay_tools",
    "replayed",
    "say",
]
