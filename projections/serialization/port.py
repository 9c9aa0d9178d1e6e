"""The protocol of all serializers of a state."""

from collections.abc import Mapping
from typing import Protocol

from steptrail.domain.agent.state import AgentState
from steptrail.domain.json_value import JsonValue


class CanSerializeAgentState(Protocol):
    """Makes a dictionary of JSON values of a state, and a state of such a dictionary."""

    def serialize(self, state: AgentState) -> dict[str, JsonValue]:
        """Return the state as JSON values."""
        ...

    def deserialize(self, data: Mapping[str, JsonValue]) -> AgentState:
        """Return the state that such a dictionary stands for.

        Raises `InvalidStateData`, which names the key that does not fit and what was expected there.
        """
        ...
