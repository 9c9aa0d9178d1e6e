"""`AgentBuilder`: makes an agent one setting at a time, and checks each setting at once."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from copy import copy
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

from msgspec import structs

from steptrail.domain.agent.given_history import refuse_disorder
from steptrail.domain.continuation.limits import LimitName, Limits
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.files import files_in
from steptrail.domain.hooks.hook import Hook
from steptrail.domain.hooks.matchers import HookMatcher
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason, ToolChoice, ToolChoiceName
from steptrail.domain.instructions import InstructionsPlaceName, InstructionsTimeName
from steptrail.domain.kernel.given import a_flag, a_kind_of, a_row, a_text, a_whole, one_of
from steptrail.domain.messages import Message
from steptrail.domain.policy.fallback import SWITCHING
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import PriceTable, Unpriced
from steptrail.runtime.agent.agent import Agent, criteria_for, refuse_other_means
from steptrail.runtime.agent.compaction import Compaction
from steptrail.runtime.agent.declared_context import DeclaredContext
from steptrail.runtime.agent.hook_stack import HookStack
from steptrail.runtime.agent.instructions import Instructions, InstructionsFunction
from steptrail.runtime.agent.output import OutputModeName, TypedOutput, Validator
from steptrail.runtime.agent.resources import checked_opener
from steptrail.runtime.agent.tool_port import RunnableTool
from steptrail.runtime.agent.type_variables import ContextT, OutputT
from steptrail.runtime.kernel.given_code import a_model, spec_of_tool
from steptrail.runtime.kernel.ports import ModelDriver

if TYPE_CHECKING:
    from pydantic import TypeAdapter

V = TypeVar("V")


class Capability(Protocol):
    """A group of settings that together give an agent one ability."""

    def add_to(self, builder: "AgentBuilder[Any, Any]", /) -> None:
        """Add the settings to a builder."""
        ...


class AgentBuilder(Generic[OutputT, ContextT]):
    """Collects the settings of an agent. `with_output` and `with_context` return a new builder, all others the same.

    A limit with `shadow=True` records its vote and never stops a run. Defaults: 20 steps, 32,768 tokens, 300 seconds of
    wall time, no finish reasons, stop on any error.
    """

    def __init__(self, name: str) -> None:
        if not a_text(name, "the name of an agent").strip():
            raise ConfigurationError("an agent needs a name")
        self._name = name.strip()
        self._model: ModelDriver | None = None
        self._fallback: tuple[ModelDriver, ...] = ()
        self._switches_on, self._switches_after = SWITCHING, 2
        self._compaction: Compaction | None = None
        self._tools: dict[str, RunnableTool] = {}
        self._system_prompt: str | None = None
        self._instructions = Instructions()
        self._examples: tuple[Message, ...] = ()
        self._tool_choice = ToolChoice.AUTO
        self._parallel_tool_calls: bool | None = None
        self._earlier_tool_traces = True
        self._media_window: int | None = None
        self._limits = Limits()
        self._error_policy = ErrorPolicy.stop_on_any_error()
        self._criteria: list[Criterion] = []
        self._hooks = HookStack()
        self._output: TypedOutput[OutputT] | None = None
        self._context: DeclaredContext[ContextT] | None = None
        self._resources: Callable[[ContextT], AbstractAsyncContextManager[object]] | None = None

    def with_model(self, model: ModelDriver) -> Self:
        """Set the model driver. Raises `ConfigurationError` for anything else, such as the name of a model."""
        self._model = a_model(model, f"agent {self._name!r}")
        return self

    def with_fallback(self, *models: ModelDriver, on: Iterable[str] = SWITCHING, after: int = 2) -> Self:
        """Set the models that are asked, in this order, when the one before fails.

        An execution goes on with the next model when `after` steps in a row have failed because the model call did,
        with errors of the types `on`. It stays with that one to its end. Until then each such step is tried again, even
        if the error policy would stop; with the last model the policy decides. An error that comes again every time,
        such as a wrong key, leads to no other model. Raises `ConfigurationError`, also before `with_model`.
        """
        whose = f"agent {self._name!r}: `with_fallback`"
        if self._model is None:
            raise ConfigurationError(f"{whose} comes after `with_model`")
        if not models:
            raise ConfigurationError(f"{whose} is given no models: give those that are asked when the first one fails")
        named = [str(each) for each in a_row(on, f"{whose}: `on`")]
        if not named or not {*named} <= {*SWITCHING}:
            raise ConfigurationError(f"{whose}: `on` takes one or more of {', '.join(SWITCHING)}, not {named}")
        self._fallback = tuple(a_model(model, whose) for model in models)
        self._switches_on = tuple(each for each in SWITCHING if each in named)
        self._switches_after = a_whole(after, f"{whose}: `after`", least=1)
        return self

    def with_compaction(self, compaction: Compaction | None) -> Self:
        """Compact a conversation that outgrows the window of its model. None, the default, never does.

        `build` raises `ConfigurationError` for a model that is told to do so itself, by its parameters.
        """
        if compaction is not None:
            a_kind_of(Compaction, compaction, f"agent {self._name!r}: what `with_compaction` is given")
        self._compaction = compaction
        return self

    def with_system_prompt(self, prompt: str) -> Self:
        """Set the system prompt; it is trimmed, and an empty one is no prompt."""
        self._system_prompt = a_text(prompt, f"agent {self._name!r}: the system prompt").strip() or None
        return self

    def with_instructions(
        self,
        function: InstructionsFunction,
        *,
        every: InstructionsTimeName = "execution",
        at: InstructionsPlaceName = "system",
        name: str = "",
    ) -> Self:
        """Add instructions that a function of the state writes, before each execution or `every` step; None for none.

        They stand `at` the end of what the `system` says, or at the `tail` of the request, behind the conversation. A
        text is recorded when it has changed. A function that raises stops the run. `name` is the one in the log.
        Raises `ConfigurationError` for anything but a function of one argument.
        """
        whose = f"agent {self._name!r}"
        self._instructions = self._instructions.with_function(function, every=every, at=at, name=name, whose=whose)
        return self

    def with_examples(self, *messages: Message) -> Self:
        """Show the model a worked conversation before the real one. It is recorded with the agent, not the session.

        Raises `ConfigurationError` for a tool call that is not followed by its result at once, and for a result alone.
        """
        for message in messages:
            a_kind_of(Message, message, f"agent {self._name!r}: what `with_examples` shows")
        refuse_disorder(messages, f"agent {self._name!r}: `with_examples`")
        if any(files_in(messages)):
            raise ConfigurationError(f"agent {self._name!r}: `with_examples` takes no files: say what they show")
        self._examples = messages
        return self

    def with_tools(self, *tools: RunnableTool) -> Self:
        """Add tools. Raises `ConfigurationError` for an object that is no tool, and for a name that is taken."""
        known = dict(self._tools)
        for tool in tools:
            try:
                name = spec_of_tool(tool).name
            except ConfigurationError as error:
                raise ConfigurationError(f"agent {self._name!r}: {error}") from None
            if name in known:
                raise ConfigurationError(f"agent {self._name!r} has two tools named {name!r}")
            known[name] = tool
        self._tools = known
        return self

    def with_tool_choice(self, choice: ToolChoiceName, *, parallel: bool | None = None) -> Self:
        """Set whether the model may, must or must not call tools, and whether it may call several at once (`parallel`).

        A hook may change this for one model call.
        """
        self._tool_choice = one_of(ToolChoice, choice, f"agent {self._name!r}", "the choices")
        self._parallel_tool_calls = parallel
        return self

    def with_earlier_tool_traces(self, shown: bool) -> Self:
        """Set whether the model is shown the calls and results before the input that it answers. The default is True.

        With False, it is shown the earlier questions and answers, and all calls since the newest input. The log holds
        everything in both cases.
        """
        self._earlier_tool_traces = a_flag(shown, f"agent {self._name!r}: what `with_earlier_tool_traces` is given")
        return self

    def with_media_window(self, files: int | None) -> Self:
        """Show the model the newest `files` of a conversation, and tell of earlier ones in words. None shows them all.

        The log holds every file in both cases.
        """
        what = f"agent {self._name!r}: what `with_media_window` is given"
        self._media_window = None if files is None else a_whole(files, what)
        return self

    def with_max_steps(self, steps: int | None, *, shadow: bool = False) -> Self:
        """Limit the steps of an execution; with 0 no step runs."""
        return self._limit("max_steps", steps, shadow)

    def with_max_tokens(self, tokens: int | None, *, shadow: bool = False) -> Self:
        """Limit the tokens of an execution, of all kinds together. Checked between steps, so one step may overshoot."""
        return self._limit("max_tokens", tokens, shadow)

    def with_max_input_tokens(self, tokens: int | None, *, shadow: bool = False) -> Self:
        """Limit the tokens that are sent, cached ones included. Checked between steps, so one step may overshoot."""
        return self._limit("max_input_tokens", tokens, shadow)

    def with_max_output_tokens(self, tokens: int | None, *, shadow: bool = False) -> Self:
        """Limit the tokens that are written, reasoning included. Checked between steps, so one step may overshoot."""
        return self._limit("max_output_tokens", tokens, shadow)

    def with_prices(self, prices: PriceTable | None) -> Self:
        """Record the prices of tokens with each execution, so that its cost is known. None removes them."""
        return self._change(prices=prices)

    def with_max_cost(
        self,
        usd: Decimal | float | str | None,
        *,
        prices: PriceTable | None = None,
        unpriced: Unpriced = "fail_closed",
        shadow: bool = False,
    ) -> Self:
        """Limit the cost of an execution, in US dollars. Checked between steps, so one step may overshoot.

        The prices are those given here, or else those of `with_prices`. `unpriced` says how a run is treated whose
        model has no price. It may stop, even before the first call. Or the limit counts only the tokens that have a
        price, and its votes name the others (`warn`) or do not (`ignore`).
        """
        priced: dict[str, object] = {} if prices is None else {"prices": prices}
        return self._limit("max_cost", usd, shadow, unpriced=unpriced, **priced)

    def with_timeout(self, seconds: float | None, *, shadow: bool = False) -> Self:
        """Limit the wall time since the execution started or was last resumed, in seconds."""
        return self._limit("timeout", seconds, shadow)

    def with_cumulative_timeout(self, seconds: float | None, *, shadow: bool = False) -> Self:
        """Limit the active time of all steps together, in seconds; pauses and waits do not count."""
        return self._limit("cumulative_timeout", seconds, shadow)

    def with_max_concurrent_tools(self, calls: int) -> Self:
        """Run at most `calls` calls of one reply at the same time, if their tools allow it; 1 runs them in order."""
        return self._change(max_concurrent_tools=calls)

    def with_max_tool_calls(self, calls: int | None, *, shadow: bool = False) -> Self:
        """Limit the tool calls of an execution. Calls beyond the limit do not run, and the run stops after the step."""
        return self._limit("max_tool_calls", calls, shadow)

    def with_finish_reasons(self, *reasons: FinishReason | str, shadow: bool = False) -> Self:
        """Stop after a reply with one of these finish reasons."""
        name = f"agent {self._name!r}"
        found = tuple(one_of(FinishReason, reason, name, "finish reasons") for reason in reasons)
        return self._limit("finish_reasons", found, shadow)

    def with_max_unproductive_segments(self, segments: int, *, shadow: bool = False) -> Self:
        """Limit the segments in a row that end without progress, for instance by a crash. The least is 1."""
        return self._limit("max_unproductive_segments", segments, shadow)

    def with_limits(self, limits: Limits) -> Self:
        """Set all limits at once. Raises `ConfigurationError` for anything else."""
        self._limits = a_kind_of(Limits, limits, f"agent {self._name!r}: limits")
        return self

    def with_error_policy(self, policy: ErrorPolicy) -> Self:
        """Set which errors stop the run, which are tried again, and which are ignored.

        Raises `ConfigurationError` for anything but a policy.
        """
        self._error_policy = a_kind_of(ErrorPolicy, policy, f"agent {self._name!r}: error_policy")
        return self

    def with_criteria(self, *criteria: Criterion) -> Self:
        """Add criteria after the built-in ones: objects whose `explain(state)` votes, or a `CallableCriterion`."""
        self._criteria.extend(criteria)
        return self

    def with_hook(
        self, hook_type: HookType, hook: Hook, *, priority: int = 0, matcher: HookMatcher | None = None
    ) -> Self:
        """Run `hook` at that moment. A higher priority runs first; equal priorities run in the order of adding."""
        self._hooks = self._hooks.with_hook(hook_type, hook, priority=priority, matcher=matcher)
        return self

    def with_capability(self, capability: Capability) -> Self:
        """Add a group of settings, such as a `SelfCritic`. Raises `ConfigurationError` for anything else."""
        if isinstance(capability, type) or not callable(getattr(capability, "add_to", None)):
            what = f"agent {self._name!r}: {capability!r} is no capability: it needs `add_to(builder)`"
            raise ConfigurationError(f"{what}; give an object, such as `SelfCritic(judge)`")
        capability.add_to(self)
        return self

    def with_output(
        self,
        kind: "type[V] | TypeAdapter[V]",
        *,
        mode: OutputModeName = "auto",
        retries: int = 2,
        name: str = "final_result",
        description: str | None = None,
    ) -> "AgentBuilder[V, ContextT]":
        """Return a builder of an agent that answers as a value of a type: a model, a dataclass, a list, and so on.

        `mode` says how the model is asked for it; `auto` takes what suits the model and the tools. An answer that does
        not fit is told to the model, which is asked again, up to `retries` times in a row; then the run fails.
        `name` and `description` are those of the answer, for the model. Raises `ConfigurationError` for a type without
        a JSON schema.
        """
        other = cast("AgentBuilder[V, ContextT]", self._copy())
        other._output = TypedOutput[V](kind, mode=mode, retries=retries, name=name, description=description)
        return other

    def with_output_validator(self, *validators: Validator[OutputT]) -> Self:
        """Let functions judge each answer of the type, in order. Raises `ConfigurationError` before `with_output`."""
        if self._output is None:
            raise ConfigurationError(f"agent {self._name!r}: `with_output_validator` comes after `with_output`")
        self._output = self._output.with_validators(*validators)
        return self

    def with_context(self, kind: "type[V] | TypeAdapter[V]") -> "AgentBuilder[OutputT, V]":
        """Return a builder of an agent that is told something of each run, as a value of a type.

        `run(…, context=…)` takes it. It is stored with the run as JSON, and tools, hooks, validators and criteria read
        it, also after a crash or on another machine. So it must hold no secret: what needs one is opened by
        `with_resources`. Raises `ConfigurationError` for a type without a JSON schema, and for one with a secret.
        """
        other = cast("AgentBuilder[OutputT, V]", self._copy())
        other._context = DeclaredContext[V](kind)
        return other

    def with_resources(self, opener: Callable[[ContextT], AbstractAsyncContextManager[object]]) -> Self:
        """Open things for each run, such as clients, which tools, hooks and validators read as `resources`.

        `opener` is called with the context of the run, or None, and returns an async context manager. It is entered in
        each process that goes on with the run, before anything else is done there, and left when that process is done
        with it. Nothing of it is stored. When it raises, the run waits and is due again later. Raises
        `ConfigurationError` for anything that cannot be called so.
        """
        self._resources = checked_opener(opener)
        return self

    def build(self) -> Agent[OutputT, ContextT]:
        """Return the agent. Raises `ConfigurationError` when it has no model or an impossible setting."""
        if self._model is None:
            raise ConfigurationError(f"agent {self._name!r} has no model: call `with_model`")
        if len({id(model) for model in (self._model, *self._fallback)}) <= len(self._fallback):
            raise ConfigurationError(f"agent {self._name!r} has the same model twice: each stands in for another one")
        if self._tool_choice is ToolChoice.REQUIRED and not self._tools:
            raise ConfigurationError(f"agent {self._name!r} requires tool calls and has no tools")
        agent = Agent[OutputT, ContextT](
            name=self._name,
            model=self._model,
            tools=dict(self._tools),
            system_prompt=self._system_prompt,
            instructions=self._instructions,
            examples=self._examples,
            tool_choice=self._tool_choice,
            parallel_tool_calls=self._parallel_tool_calls,
            earlier_tool_traces=self._earlier_tool_traces,
            media_window=self._media_window,
            limits=self._limits,
            error_policy=self._error_policy,
            criteria=tuple(self._criteria),
            hooks=self._hooks,
            output=self._output,
            context=self._context,
            resources=self._resources,
            fallback=self._fallback,
            switches_on=self._switches_on,
            switches_after=self._switches_after,
            compaction=self._compaction,
        )
        refuse_other_means(agent)
        for model in (each.describe() for each in agent.models if self._compaction is not None):
            if "context_management" in model.parameters:
                told = f"model {model.model!r} compacts by itself (`context_management`)"
                raise ConfigurationError(f"agent {self._name!r}: {told}: leave that out, or `with_compaction`")
        criteria_for(agent.snapshot, agent.criteria)  # raises for an object that is no criterion
        return agent

    def _copy(self) -> "AgentBuilder[Any, Any]":
        other: AgentBuilder[Any, Any] = copy(self)
        other._tools, other._criteria = dict(self._tools), list(self._criteria)
        return other

    def _limit(self, name: LimitName, value: object, shadow: bool, **changes: object) -> Self:
        a_flag(shadow, f"agent {self._name!r}: {name}: shadow")
        others = [other for other in self._limits.shadow if other != name]
        return self._change(**{name: value}, shadow=(*others, name) if shadow else tuple(others), **changes)

    def _change(self, **changes: Any) -> Self:
        if changes.get("prices") is not None:
            a_kind_of(PriceTable, changes["prices"], f"agent {self._name!r}: prices")
        try:
            self._limits = structs.replace(self._limits, **changes)
        except InvalidSetting as error:
            raise ConfigurationError(f"agent {self._name!r}: {error.problem}") from None
        return self
