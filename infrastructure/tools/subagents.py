"""Agents as tools of other agents: one agent under a name of its own, or one tool over several named ones.

A call runs the agent in a session of its own. Only its final text comes back, or the JSON of its answer in a type;
whatever else it comes to is a failed call, a call that waits with it, or a call that was cut off.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

from pydantic import Field

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row
from steptrail.domain.tools import ApprovalRule, ToolSpec
from steptrail.infrastructure.tools.child_tools import (
    MAX_DEPTH,
    MOST_CHARACTERS,
    child_spec,
    error_of,
    given_to_child,
    place_of,
    tool_name,
)
from steptrail.infrastructure.tools.schema import Parameters, parameters_of
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.children import ChildSession, ChildSessionEnd, why_no_answer
from steptrail.runtime.agent.given import a_context, an_agent, refuse_unread
from steptrail.runtime.agent.tool_port import (
    NO_CONTEXT,
    Capture,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolSuspended,
    ToolTimedOut,
)


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
        agent = given if is_agent(given) else _made(given)
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


def _made(agent: object) -> AnyAgent:
    return an_agent(cast("Callable[[], object]", agent)())


class _RunsAgents(ABC):
    """The common part of both tools: a spec, and a call that runs the agent whose turn it is."""

    def __init__(self, spec: ToolSpec, parameters: Parameters, max_depth: int) -> None:
        self.spec = spec
        self._parameters, self._max_depth = parameters, max_depth

    @abstractmethod
    def _chosen(self, subagent: str | None) -> tuple[str, Subagent] | ErrorInfo:
        """Return the name and the agent that a call asks for, or why there is none."""

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit; None when they do."""
        given = given_to_child(self._parameters, arguments, raw, NO_CONTEXT, capture)
        return given if isinstance(given, ErrorInfo) else None

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        """Run one call; see `RunnableTool`. A call that nobody's run makes has no session and fails."""
        given = given_to_child(self._parameters, arguments, raw, context, capture)
        if isinstance(given, ErrorInfo):
            return ToolFailed(given)
        prompt, wanted = str(given["prompt"]), given.get("subagent")
        chosen = self._chosen(None if wanted is None else str(wanted))
        if isinstance(chosen, ErrorInfo):
            return ToolFailed(chosen)
        name, subagent = chosen
        place = place_of(context, name, "subagent", self._max_depth)
        if isinstance(place, ErrorInfo):
            return ToolFailed(place)
        child = ChildSession(place)
        try:
            agent = subagent.resolved()
            said = subagent.context_for(agent, context)
        except Exception as error:
            return ToolFailed(capture(error))
        context.progress(f"subagent {name} works in session {child.id}")
        return _outcome(name, child, await child.run(agent, prompt, within=timeout, context=said))


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
        timeout: float | None = None,
        max_depth: int = MAX_DEPTH,
        max_calls: int | None = None,
        approval: ApprovalRule | bool = False,
        concurrent: bool = True,
    ) -> None:
        subagent = agent if isinstance(agent, Subagent) else Subagent(agent=agent)
        chosen = name or (tool_name(subagent.agent.name) if is_agent(subagent.agent) else None)
        if chosen is None:
            raise ConfigurationError("a subagent that is made later needs a name: SubagentTool(..., name=...)")

        def ask(prompt: Annotated[str, Field(description="the whole task: it sees nothing else of this")]) -> None: ...

        parameters = parameters_of(ask, {})
        spec = child_spec(
            "agent",
            "subagent",
            name=chosen,
            description=description or subagent.description or f"Have the agent {chosen!r} do a task.",
            parameters=parameters.schema,
            timeout=timeout,
            max_calls=max_calls,
            approval=approval,
            concurrent=concurrent,
            max_depth=max_depth,
        )
        super().__init__(spec, parameters, max_depth)
        self._subagent = subagent

    def _chosen(self, subagent: str | None) -> tuple[str, Subagent]:
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
        timeout: float | None = None,
        max_depth: int = MAX_DEPTH,
        max_calls: int | None = None,
        approval: ApprovalRule | bool = False,
        concurrent: bool = True,
    ) -> None:
        if not isinstance(subagents, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = type(subagents).__name__
            raise ConfigurationError(f"tool {name!r}: its subagents are a mapping from names to agents, not {given}")
        if not subagents:
            raise ConfigurationError(f"tool {name!r} has no subagents to spawn")
        if unnamed := [each for each in subagents if not isinstance(each, str) or not each.strip()]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tool {name!r}: the name of a subagent is a text, not {unnamed[0]!r}")
        named = {each: made if isinstance(made, Subagent) else Subagent(agent=made) for each, made in subagents.items()}

        def spawn(
            subagent: Annotated[str, Field(description="which one", json_schema_extra={"enum": [*named]})],
            prompt: Annotated[str, Field(description="the whole task: it sees nothing else of this")],
        ) -> None: ...

        parameters = parameters_of(spawn, {"named": named})
        about = "".join(f"\n- {each}: {made.description}" for each, made in named.items() if made.description)
        spec = child_spec(
            "agent",
            "subagent",
            name=name,
            description=description or f"Have a subagent do a task and return its answer.{about}",
            parameters=parameters.schema,
            timeout=timeout,
            max_calls=max_calls,
            approval=approval,
            concurrent=concurrent,
            max_depth=max_depth,
        )
        super().__init__(spec, parameters, max_depth)
        self._subagents = named

    def _chosen(self, subagent: str | None) -> tuple[str, Subagent] | ErrorInfo:
        if subagent is None or subagent not in self._subagents:
            known = ", ".join(self._subagents)
            return error_of("UnknownSubagent", f"there is no subagent {subagent!r}; the subagents are: {known}")
        return subagent, self._subagents[subagent]


def _outcome(name: str, child: ChildSession, end: ChildSessionEnd) -> ToolOutcome:
    usage = end.usage
    if end.is_late:
        late = error_of("SubagentTimeout", f"subagent {name!r} did not end within its time", ErrorType.TIMEOUT)
        return ToolTimedOut(late, cancelled=True, usage=usage)
    if (state := end.ended) is None:
        return ToolSuspended(child.id, end.why_it_rests, end.until, usage)
    if state.answered and state.answers_in_a_type:
        return ToolSucceeded(state.output_json, most_shown=MOST_CHARACTERS, usage=usage)
    if state.answered and state.output is not None:
        return ToolSucceeded(f"[Subagent: {name}] {state.output}", most_shown=MOST_CHARACTERS, usage=usage)
    message = f"subagent {name!r} came to no answer {why_no_answer(state)}; its session is {child.id}"
    return ToolFailed(error_of("SubagentFailed", message), usage=usage)
