"""The state of a session as a plain dictionary: slim for a front end that shows it, or whole."""

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
