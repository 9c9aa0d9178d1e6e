"""Agents as tools of other agents: one agent under a name of its own, or one tool over several named ones.

A call runs the agent in a session of its own. Only its final text comes back, or the JSON of its answer in a type.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Unpack, cast

from pydantic import Field

from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_mapping, a_row
from steptrail.domain.messages import Message
from steptrail.domain.usage import BilledUsage
from steptrail.infrastructure.tools.child_tools import (
    MOST_CHARACTERS,
    ChildOptions,
    ChildTool,
    NoChild,
    error_of,
    tool_name,
)
from steptrail.infrastructure.tools.schema import parameters_of
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.children import ChildSession, why_no_answer
from steptrail.runtime.agent.given import a_context, an_agent, refuse_unread
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolFailed, ToolOutcome, ToolSucceeded
from steptrail.runtime.kernel.given_code import digest_below

_PROMPT = "the whole task: it sees nothing else of this"


@dataclass(frozen=True, kw_only=True)
class Subagent:
    """An agent that may be spawned, and which of its tools it has then.

    `agent` may be a function that returns it, for one that is made later, such as one that spawns itself. Of its tools
    it keeps those that `allowed_tools` names, all when there is no such list, and then loses those of `denied_tools`.
    An agent that declares a context is told what the calling agent was told, if that declares the same type. Otherwise
    it is told `context`, which may be a function of what the calling agent was told.
    Raises `ConfigurationError` for a tool that it does not have, and for a `context` of an agent that declares none;
    where the agent is made later, that call fails.
    """

    agent: AnyAgent | Callable[[], AnyAgent]
    description: str = ""
    allowed_tools: Collection[str] | None = None
    denied_tools: Collection[str] = ()
    context: object | Callable[[Any], object] = None

    def __post_init__(self) -> None:
        a_row(self.denied_tools, "the denied tools of a subagent")
        if self.allowed_tools is not None:
            a_row(self.allowed_tools, "the allowed tools of a subagent")
        if is_agent(self.agent):
            self.resolved()
        elif not callable(self.agent):
            an_agent(self.agent)

    def resolved(self) -> AnyAgent:
        """Return the agent with the tools that it has as a subagent."""
        given = self.agent
        agent = given if is_agent(given) else an_agent(cast("Callable[[], object]", given)())
        refuse_unread(agent, self.context)
        allowed = set(agent.tools if self.allowed_tools is None else self.allowed_tools)
        # A name that is misspelt would deny nothing, and nobody would notice.
        if unknown := sorted((allowed | set(self.denied_tools)) - agent.tools.keys()):
            raise ConfigurationError(f"subagent {agent.name!r} has no tool {unknown[0]!r} to allow or deny")
        kept = allowed - set(self.denied_tools)
        if kept == set(agent.tools):
            return agent
        return replace(agent, tools={name: tool for name, tool in agent.tools.items() if name in kept})

    def context_for(self, agent: AnyAgent, call: ToolContext[Any, Any]) -> JsonValue:
        """Return what the agent is told of the run that a call begins. Raises what `context` raises, if it is asked."""
        if agent.context is None:
            return None
        said = self.context(call.data) if callable(self.context) else self.context
        if said is None and agent.context.is_same_as(call.declared):
            said = call.data
        return a_context(agent, said)


class _RunsAgents(ChildTool):
    """The common part of both tools: a call runs the agent whose turn it is. `ask` has the parameters of a call."""

    def __init__(
        self, ask: Callable[..., None], *, name: str, description: str, options: ChildOptions, **names: object
    ) -> None:
        parameters = parameters_of(ask, names)
        schema = parameters.schema
        super().__init__("agent", "subagent", parameters, name=name, description=description, schema=schema, **options)

    @abstractmethod
    def _chosen(self, subagent: object) -> tuple[str, Subagent]:
        """Return the name and the agent that a call asks for. Raises `NoChild` when there is none."""

    async def _answered(
        self, given: dict[str, object], context: ToolContext, timeout: float | None, capture: Capture
    ) -> ToolOutcome:
        name, subagent = self._chosen(given.get("subagent"))
        child = ChildSession(self._place(context, name))
        try:
            agent = subagent.resolved()
        except Exception as error:
            raise NoChild(capture(error)) from None

        def said() -> JsonValue:
            try:
                return subagent.context_for(agent, context)
            except Exception as error:
                raise NoChild(capture(error)) from None

        context.progress(f"subagent {name} works in session {child.id}")
        end = await child.run(agent, Message.user(str(given["prompt"])), within=timeout, context=said)
        return self._outcome(name, child.id, end, partial(_answer, name, child.id, end.usage))


class SubagentTool(_RunsAgents):
    """One agent as a tool: its calls hand it a prompt, and get its answer.

    `name` and `description` are what the calling model sees; the name defaults to the agent's. `timeout` is in seconds
    and bounds the agent beside its own limits and what is left of the caller's time. Calls run beside each other unless
    `concurrent` is false. `max_depth` is how many levels below the first agent this one may stand. Raises
    `ConfigurationError` for what makes no tool.
    """

    def __init__(
        self,
        agent: AnyAgent | Subagent,
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ChildOptions],
    ) -> None:
        self._subagent = subagent = agent if isinstance(agent, Subagent) else Subagent(agent=agent)
        self.digest = digest_below({"": subagent.agent})
        chosen = name or (tool_name(subagent.agent.name) if is_agent(subagent.agent) else None)
        if chosen is None:
            raise ConfigurationError("a subagent that is made later needs a name: SubagentTool(..., name=...)")

        def ask(prompt: Annotated[str, Field(description=_PROMPT)]) -> None: ...

        about = description or subagent.description or f"Have the agent {chosen!r} do a task."
        super().__init__(ask, name=chosen, description=about, options=options)

    def _chosen(self, subagent: object) -> tuple[str, Subagent]:
        return self.spec.name, self._subagent


class SpawnSubagent(_RunsAgents):
    """The tool `spawn_subagent` over several named agents: its calls name one in `subagent` and hand it a `prompt`.

    The other settings are those of `SubagentTool`.
    """

    def __init__(
        self,
        subagents: Mapping[str, Subagent | AnyAgent],
        *,
        name: str = "spawn_subagent",
        description: str | None = None,
        **options: Unpack[ChildOptions],
    ) -> None:
        if not a_mapping(subagents, f"tool {name!r}: its subagents, by their names,"):
            raise ConfigurationError(f"tool {name!r} has no subagents to spawn")
        if unnamed := [each for each in subagents if not isinstance(each, str) or not each.strip()]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tool {name!r}: the name of a subagent is a text, not {unnamed[0]!r}")
        self._subagents = named = {
            each: made if isinstance(made, Subagent) else Subagent(agent=made) for each, made in subagents.items()
        }

        self.digest = digest_below({each: made.agent for each, made in named.items()})

        def spawn(
            subagent: Annotated[str, Field(description="which one", json_schema_extra={"enum": [*named]})],
            prompt: Annotated[str, Field(description=_PROMPT)],
        ) -> None: ...

        told = "".join(f"\n- {each}: {made.description}" for each, made in named.items() if made.description)
        about = description or f"Have a subagent do a task and return its answer.{told}"
        super().__init__(spawn, name=name, description=about, options=options, named=named)

    def _chosen(self, subagent: object) -> tuple[str, Subagent]:
        if subagent not in self._subagents:
            known = ", ".join(self._subagents)
            said = f"there is no subagent {subagent!r}; the subagents are: {known}"
            raise NoChild(error_of("UnknownSubagent", said))
        return str(subagent), self._subagents[str(subagent)]


def _answer(name: str, child_id: str, usage: BilledUsage | None, state: AgentState) -> ToolOutcome:
    if state.answered and state.answers_in_a_type:
        return ToolSucceeded(state.output_json, most_shown=MOST_CHARACTERS, usage=usage)
    if state.answered and state.output is not None:
        return ToolSucceeded(f"[Subagent: {name}] {state.output}", most_shown=MOST_CHARACTERS, usage=usage)
    message = f"subagent {name!r} came to no answer {why_no_answer(state)}; its session is {child_id}"
    return ToolFailed(error_of("SubagentFailed", message), usage=usage)
