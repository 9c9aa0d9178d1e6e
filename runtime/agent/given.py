"""Checks that values which a caller gives as an agent, a message or a context are such, before they are used."""

from collections.abc import Iterable

from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of, a_row
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import RunnableTool
from steptrail.runtime.kernel.given_code import spec_of_tool


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


def a_history(given: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a history. Raises `ConfigurationError` for what is no list of messages."""
    return tuple(a_kind_of(Message, each, "a message of the history") for each in a_row(given, "history"))


def for_one_run(agent: AnyAgent, given: Iterable[RunnableTool]) -> tuple[ToolSpec, ...]:
    """Return the external tools with which an agent is to begin a run, beside its own.

    Raises `ConfigurationError` for what is no external tool, and for a name that is taken.
    """
    names, row = set(agent.tools), a_row(given, "external_tools")
    specs = tuple(spec_of_tool(tool) for tool in row)
    for spec in specs:
        if spec.external is None:
            raise ConfigurationError(f"tool {spec.name!r} has a body: a run takes external tools, an agent the others")
        if spec.name in names:
            raise ConfigurationError(f"agent {agent.name!r} would have two tools named {spec.name!r} in this run")
        names.add(spec.name)
    return specs


def a_context(agent: AnyAgent, given: object) -> JsonValue:
    """Return what a caller says of a run as JSON; None for nothing. Raises `ConfigurationError` if it does not fit."""
    refuse_unread(agent, given)
    return None if agent.context is None or given is None else agent.context.stored(given)


def refuse_unread(agent: AnyAgent, given: object) -> None:
    """Raise `ConfigurationError` for something that is said of a run, to an agent that is told nothing of its runs."""
    if agent.context is None and given is not None:
        raise ConfigurationError(
            f"agent {agent.name!r} is told nothing of its runs: call `with_context` to change that"
        )


def refuse_context(agent: AnyAgent, state: AgentState, given: JsonValue) -> None:
    """Raise for a run that has no context, or one that the agent cannot read; `given` replaces the recorded one.

    That is `StoredContextInvalid` for a recorded context and for an open run, and `ConfigurationError` for one that is
    to begin without a context.
    """
    if agent.context is not None and given is None:
        agent.context.read(state.context, is_open=state.is_open)
