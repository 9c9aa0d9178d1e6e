"""An agent: the configuration that a service provides, and the description of it that is recorded."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeAlias, TypeGuard, cast

import msgspec
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot, HookSpec
from steptrail.domain.base import full_form, made
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.criteria.answer import AnswerComplete
from steptrail.domain.continuation.criteria.compaction import ConversationFits
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.criteria.output import OutputAccepted
from steptrail.domain.continuation.criteria.pending_input import PendingInput
from steptrail.domain.continuation.criteria.user_stop import UserStop
from steptrail.domain.continuation.criteria.work import ToolCallPresenceCheck
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.errors import ConfigurationError, InvalidSetting, NotStorable
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.output import OutputSpec
from steptrail.domain.policy.fallback import SWITCHING, FallbackModel, FallbackSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.storable import storable
from steptrail.domain.tools import ToolSpec, tool_form
from steptrail.runtime.agent.compaction import Compaction
from steptrail.runtime.agent.declared_context import DeclaredContext
from steptrail.runtime.agent.hook_stack import HookStack
from steptrail.runtime.agent.instructions import Instructions
from steptrail.runtime.agent.output import AgentOutput
from steptrail.runtime.agent.resources import checked_opener, name_of
from steptrail.runtime.agent.tool_port import RunnableTool, wanted_by
from steptrail.runtime.agent.type_variables import ContextT, OutputT_co
from steptrail.runtime.kernel.given_code import digest_below
from steptrail.runtime.kernel.ports import ModelDriver


def criteria_for(recorded: AgentSnapshot, own: tuple[Criterion, ...]) -> ContinuationCriteria:
    """Return the criteria of an execution: the built-in ones with its recorded settings, then the agent's own."""
    settings, base = zip(*_configured(recorded), strict=True)
    return ContinuationCriteria(*base, *own, settings=settings)


def _configured(recorded: AgentSnapshot) -> Iterator[tuple[str | None, Criterion]]:
    """Yield the built-in criteria in the order in which they vote, each with the name of its setting; None for none.

    A person's request comes before a failure. A failure, and an answer that was cut, come before a limit.
    """
    yield None, UserStop()
    yield "error_policy", ErrorPolicyCriterion(recorded.error_policy, fallback=recorded.fallback)
    yield None, AnswerComplete()
    if recorded.output is not None:
        yield "output", OutputAccepted(recorded.output)
    yield from recorded.limits.criteria()
    if recorded.compaction is not None:
        yield "compaction", ConversationFits(recorded.compaction)
    yield None, ToolCallPresenceCheck()
    yield None, PendingInput()


@dataclass(frozen=True, kw_only=True, repr=False)
class Agent(Generic[OutputT_co, ContextT]):
    """A configuration: model, tools, limits, policy, criteria and hooks. `AgentBuilder` makes one. It has no state.

    `Agent[Invoice]` answers as an `Invoice`, and an `Agent` in text. `Agent[str, Caller]` answers in text and is told
    of each run what a `Caller` says.
    """

    name: str
    model: ModelDriver
    tools: Mapping[str, RunnableTool] = field(default_factory=dict[str, RunnableTool])
    system_prompt: str | None = None
    examples: tuple[Message, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    earlier_tool_traces: bool = True
    media_window: int | None = None
    limits: Limits = Limits()
    error_policy: ErrorPolicy = ErrorPolicy.stop_on_any_error()
    criteria: tuple[Criterion, ...] = ()
    hooks: HookStack = field(default_factory=HookStack)
    locator: str | None = None
    output: AgentOutput[OutputT_co] | None = None
    context: DeclaredContext[ContextT] | None = None
    resources: Callable[[ContextT], AbstractAsyncContextManager[object]] | None = None
    fallback: tuple[ModelDriver, ...] = ()
    switches_on: tuple[ErrorType, ...] = SWITCHING
    switches_after: int = 2
    instructions: Instructions = field(default_factory=Instructions)
    compaction: Compaction | None = None

    @property
    def models(self) -> tuple[ModelDriver, ...]:
        """The drivers of its models, in the order in which they are asked."""
        return (self.model, *self.fallback)

    def __repr__(self) -> str:
        """Return its name, the class of its model and the names of its tools: its prompts are long, and for the log."""
        said = [type(self.model).__name__, *self.tools]
        return f"<Agent {self.name!r}: {', '.join(said)}>"

    @cached_property
    def snapshot(self) -> AgentSnapshot:
        """The snapshot that is recorded with each execution."""
        try:
            given = AgentSnapshot(
                name=self.name,
                model=self.model.describe(),
                fingerprint="",
                locator=self.locator,
                system_prompt=self.system_prompt,
                examples=self.examples,
                tools=tuple(tool.spec for tool in self.tools.values()),
                tool_choice=self.tool_choice,
                parallel_tool_calls=self.parallel_tool_calls,
                earlier_tool_traces=self.earlier_tool_traces,
                media_window=self.media_window,
                limits=self.limits,
                error_policy=self.error_policy,
                criteria=tuple(criterion_name(criterion) for criterion in self.criteria),
                output=self._output(self.model, self.tools),
                context=self.context.spec if self.context is not None else None,
                resources=name_of(self.resources) if self.resources is not None else None,
                fallback=self._fallback(self.tools),
                instructions=self.instructions.specs,
                compaction=self.compaction.spec if self.compaction is not None else None,
                hooks=tuple(HookSpec(name=h.name, type=h.type, priority=h.priority) for h in self.hooks.registered),
            )
            # What people gave is copied and checked as it will be stored, down to the text of each message.
            content = cast("dict[str, JsonValue]", storable(full_form(given)))
            recorded = made(AgentSnapshot, content)
        except InvalidSetting as error:
            raise ConfigurationError(f"agent {self.name!r}: {error.problem}") from None
        except (NotStorable, ValueError) as error:
            raise ConfigurationError(f"agent {self.name!r}: {error}") from None
        # The fingerprint leaves out the locator: the same agent may be found in two places.
        told = {**content, "tools": [tool_form(tool) for tool in recorded.tools], "below": self.digest}
        told = {name: value for name, value in told.items() if name not in {"fingerprint", "locator"}}
        # An agent without these is the same as before there were any.
        told = {name: value for name, value in told.items() if value or name not in _LATER}
        digest = hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()
        return structs.replace(recorded, fingerprint=digest[:32])

    def snapshot_beside(self, external: Collection[ToolSpec]) -> AgentSnapshot:
        """Return the snapshot of this agent in a run with tools beside its own, by which the form of its answer may go.

        It stays the agent that it is. Raises `ConfigurationError` if its answer does not suit the tools.
        """
        if not external:
            return self.snapshot
        names = {*self.tools, *(tool.name for tool in external)}
        return structs.replace(self.snapshot, output=self._output(self.model, names), fallback=self._fallback(names))

    def _output(self, model: ModelDriver, tools: Collection[str]) -> OutputSpec | None:
        return self.output.spec(self.name, model, tools) if self.output is not None else None

    def _fallback(self, tools: Collection[str]) -> FallbackSpec | None:
        models = tuple(FallbackModel(model=each.describe(), output=self._output(each, tools)) for each in self.fallback)
        return FallbackSpec(models=models, on=self.switches_on, after=self.switches_after) if models else None

    @property
    def digest(self) -> str | None:
        """The digests of the workflows that its tools run, also below other agents; None when they run none."""
        return digest_below(self.tools)

    def replace(self, *, resources: Callable[[ContextT], AbstractAsyncContextManager[object]]) -> Self:
        """Return the agent with other resources, such as fakes for a test. Raises `ConfigurationError`."""
        return replace(self, resources=checked_opener(resources))


_LATER = frozenset({"below", "compaction", "context", "fallback", "instructions", "output", "resources"})
"""The fields of a snapshot that the fingerprint leaves out when the agent has none."""

AnyAgent: TypeAlias = Agent[Any, Any]
"""An agent, in whatever type it answers and whatever is said of its runs."""


def is_agent(given: object) -> TypeGuard[AnyAgent]:
    """Tell whether an object is an agent."""
    return isinstance(given, Agent)


def refuse_other_means(agent: AnyAgent) -> None:
    """Raise `ConfigurationError` for a tool that wants another context than the agent's, or resources it has not."""
    for name, tool in agent.tools.items():
        data, resources = wanted_by(tool)
        said = f"tool {name!r} of agent {agent.name!r}"
        if resources is not None and agent.resources is None:
            raise ConfigurationError(f"{said} reads resources, and the agent opens none: call `with_resources`")
        if data is None:
            continue
        if agent.context is None:
            raise ConfigurationError(
                f"{said} reads a {_name(data)}, and the agent is told nothing: call `with_context`"
            )
        given = agent.context.kind
        if isinstance(data, type) and isinstance(given, type) and not issubclass(given, data):
            raise ConfigurationError(f"{said} reads a {_name(data)}, and the agent is told a {_name(given)}")


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
