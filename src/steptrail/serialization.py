"""A session's state as a dictionary and back: slim, for a front end that shows it, or whole.

Both are views. What a session is resumed from is its events, never one of these.
"""

from steptrail.projections.serialization import (
    FullAgentStateSerializer,
    SlimAgentStateSerializer,
    SlimSerializationConfig,
)

__all__ = [
    "FullAgentStateSerializer",
    "SlimAgentStateSerializer",
    "SlimSerializationConfig",
]
