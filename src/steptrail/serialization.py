"""A session's state as a dictionary and back: slim, for a front end that shows it, or whole.

Both are views. What a session is resumed from is its events, never one of these.
"""

from steptrail.projections.serialization.config import SlimSerializationConfig
from steptrail.projections.serialization.full import FullAgentStateSerializer
from steptrail.projections.serialization.port import CanSerializeAgentState
from steptrail.projections.serialization.slim import SlimAgentStateSerializer

__all__ = [
    "CanSerializeAgentState",
    "FullAgentStateSerializer",
    "SlimAgentStateSerializer",
    "SlimSerializationConfig",
]
