"""Checks that values which a caller gives as an agent or a message are such, before they are used."""

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.messages import Message
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.builder import AgentBuilder

__all__ = ["a_message", "an_agent"]


def an_agent(given: object) -> AnyAgent:
    """Return `given`, which must be an agent. Raises `ConfigurationError` for anything else, such as a builder."""
    if is_agent(given):
        return given
    kind = type(given)
    hint = ": `.build()` makes one of it" if issubclass(kind, AgentBuilder) else ""
    raise ConfigurationError(f"what runs is an Agent, not {kind.__name__}{hint}")


def a_message(given: object) -> Message:
    """Return `given` as a message; a text becomes a message of the user. Raises `ConfigurationError` otherwise."""
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return Message.user(given)
    raise ConfigurationError(f"what is said to an agent is a text or a Message, not {type(given).__name__}")
