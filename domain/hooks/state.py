"""The state as a hook sees it: all of `AgentState`, the work of this moment, and the methods that change it.

Each change is an event with the hook's name, recorded when its method is called. `CHANGES` says at which moments each
method may be called. The table in the guide is generated from it.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Self, cast

import msgspec

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.evolve import evolve
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.given_history import refuse_disorder
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.shown import Looks, ShownState
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.base import full_form, read_back
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.copies import own
from steptrail.domain.errors import ConfigurationError, InvalidSetting, NotStorable
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.files import refuse_absent_files, with_bytes_of
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ModelReply, ToolChoice, ToolChoiceName
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of, a_row, a_text, one_of
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.storable import storable
from steptrail.domain.tools import ApprovalRule
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage

_ANY = tuple(HookType)
_ABOUT_AN_END = frozenset({HookType.AFTER_STEP, HookType.ON_ERROR})
_BEFORE_THE_END = tuple(hook_type for hook_type in HookType if hook_type is not HookType.EXECUTION_END)

CHANGES: Mapping[str, tuple[HookType, ...]] = {
    "with_metadata": _ANY,
    "without_metadata": _ANY,
    "with_usage": _ANY,
    "with_evaluation": _BEFORE_THE_END,
    "with_messages": _BEFORE_THE_END,
    "with_request": (HookType.BEFORE_INFERENCE,),
    "with_tool_arguments": (HookType.PRE_TOOL_USE,),
    "with_blocked_tool_call": (HookType.PRE_TOOL_USE,),
    "with_held_tool_call": (HookType.PRE_TOOL_USE,),
}
"""Method -> the hook types in which it may be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentExecution:
    """Copies of the work of this moment. They are not stored, and are gone when the step is recorded.

    Only the `error` of a failed step is still there in the hooks after it, `after_step` and `on_error`.
    """

    execution_id: str
    step_number: int
    call: InitVar[ToolExecution | None]
    reply: InitVar[ModelReply | None]
    error: ErrorInfo | None = None
    _call: ToolExecution | None = field(init=False, repr=False)
    _reply: ModelReply | None = field(init=False, repr=False)

    def __post_init__(self, call: ToolExecution | None, reply: ModelReply | None) -> None:
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "_reply", reply)

    @property
    def tool_call(self) -> ToolCallPart | None:
        """The tool call that the hook is about; None for a hook about no call."""
        return own(self._call.call) if self._call is not None else None

    @property
    def tool_execution(self) -> ToolExecution | None:
        """That call with its outcome; None before it has ended."""
        return own(self._call) if self._call is not None and self._call.is_settled else None

    @property
    def inference_response(self) -> ModelReply | None:
        """The reply of the open step's model call; None before there is one."""
        return own(self._reply)


class HookRecorder(msgspec.Struct):
    """Collects the changes of the hooks of one moment, and notes whether they read settings. Their caller keeps it."""

    hook_type: HookType
    position: int | None = None
    hook: str = ""
    events: list[stored.AgentEvent] = []
    latest: "HookState | None" = None
    is_closed: bool = False
    looks: Looks = msgspec.field(default_factory=Looks)
    means: Means = NO_MEANS


class HookState(ShownState):
    """The state that a hook gets. Its `with_…` methods return the changed state and record the change.

    All its values are copies. Changing them in place has no effect.
    """

    __slots__ = ("_recorder",)

    def __init__(self, fold: SessionFold, *, as_of: int, recorder: HookRecorder) -> None:
        super().__init__(fold, as_of=as_of, looks=recorder.looks, means=recorder.means)
        self._recorder = recorder

    def __await__(self) -> Generator[None, None, Self]:
        """Return the state itself: an async hook may say `await next(state)`, as it would in a web framework."""
        return self
        yield

    @property
    def hook_type(self) -> HookType:
        """The moment at which the hook runs."""
        return self._recorder.hook_type

    @property
    def resources(self) -> Any:
        """The things that are open for the run. Raises `ConfigurationError` when none are, and in a replay."""
        return self._means.resources

    @property
    def current_execution(self) -> CurrentExecution:
        """The work of this moment."""
        fold, position = self._fold, self._recorder.position
        step, execution = fold.step, fold.execution
        call = step.calls[position] if step is not None and position is not None else None
        ended = execution.steps.last if execution is not None and self.hook_type in _ABOUT_AN_END else None
        error = ended.errors[0].error if ended is not None and ended.has_errors else None
        return CurrentExecution(
            execution_id=self.execution_id or "",
            step_number=step.number if step is not None else self.step_count,
            call=call,
            reply=step.reply if step is not None else None,
            error=error or (step.inference_error if step is not None else None),
        )

    def with_metadata(self, key: str, value: JsonValue) -> Self:
        """Set one entry of the session's metadata."""
        changes = {key: _json("with_metadata", key, value)}
        return self._changed("with_metadata", stored.MetadataChanged(changes=changes, by=self._recorder.hook))

    def without_metadata(self, key: str) -> Self:
        """Remove one entry of the session's metadata."""
        return self._changed("without_metadata", stored.MetadataChanged(removed=(key,), by=self._recorder.hook))

    def with_usage(self, usage: Usage, *models: ModelUsage) -> Self:
        """Add the bill of the hook's own model calls. It counts in the run's usage and in its limits.

        A limit on cost knows the price of the tokens in `models` only.
        """
        for each in models:
            a_kind_of(ModelUsage, each, "`with_usage`: what a model has used")
        billed = BilledUsage.of(a_kind_of(Usage, usage, "`with_usage`: the bill"), models)
        return self._changed("with_usage", stored.UsageRecorded(hook=self._recorder.hook, usage=billed))

    def with_evaluation(self, evaluation: ContinuationEvaluation) -> Self:
        """Cast a vote in the next decision. Votes of Stop hooks do not count if a guard has forbidden to go on."""
        phase = DecisionPhase.STOP if self.hook_type is HookType.STOP else DecisionPhase.BOUNDARY
        vote = stored.EvaluationsRecorded(phase=phase, votes=(_checked_vote(evaluation),), hook=self._recorder.hook)
        return self._changed("with_evaluation", vote)

    def with_messages(self, *messages: Message) -> Self:
        """Add messages to the conversation. During a step they are added at its end.

        Each tool call must be followed by its result at once, and no result may come alone.
        """
        self._check("with_messages")
        _refuse_other_than_messages(messages, "`with_messages`")
        added = stored.MessagesAppended(messages=messages, source=MessageSource.HOOK, by=self._recorder.hook)
        return self._changed("with_messages", added)

    def with_request(
        self,
        *,
        extra_messages: Sequence[Message] = (),
        tools: Sequence[str] | None = None,
        tool_choice: ToolChoiceName | None = None,
        parallel_tool_calls: bool | None = None,
    ) -> Self:
        """Change the next model call, and only that one. `tools` holds the names of the tools that it may see."""
        self._check("with_request")
        extra = a_row(extra_messages, "`with_request`: `extra_messages`")
        _refuse_other_than_messages(extra, "`with_request`")
        visible = a_row(tools, "`with_request`: `tools`") if tools is not None else None
        self._refuse_unknown(visible or ())
        choice = None if tool_choice is None else one_of(ToolChoice, tool_choice, "`with_request`", "the choices")
        amended = stored.InferenceRequestAmended(
            hook=self._recorder.hook,
            extra_messages=extra,
            tools=visible,
            tool_choice=choice,
            parallel_tool_calls=parallel_tool_calls,
        )
        return self._changed("with_request", amended)

    def _refuse_unknown(self, tools: tuple[str, ...]) -> None:
        agent = self._fold.execution.agent if self._fold.execution is not None else None
        known = [tool.name for tool in agent.tools] if agent is not None else []
        if unknown := [name for name in tools if a_text(name, "`with_request`: the name of a tool") not in known]:
            have = ", ".join(sorted(known)) or "none"
            raise ConfigurationError(f"`with_request`: there is no tool {unknown[0]!r}; the tools are: {have}")

    def with_tool_arguments(self, arguments: dict[str, JsonValue]) -> Self:
        """Replace the arguments of the tool call that is about to run. They are validated like those of the model.

        A blocked call stays as it is. Arguments that a person has approved cannot be replaced.
        """
        position = self._position("with_tool_arguments")
        call = self._latest.tool_executions[position]
        if call.is_settled:
            return self
        if call.approval is not None and call.approval.answer == "granted":
            by = f"{call.approval.by} has approved {call.name} with the arguments it has"
            raise ConfigurationError(f"`with_tool_arguments` comes too late: {by}")
        if not isinstance(cast(object, arguments), Mapping):
            raise ConfigurationError(f"`with_tool_arguments` takes a dictionary, not {type(arguments).__name__}")
        given = {name: _json("with_tool_arguments", name, value) for name, value in arguments.items()}
        amended = stored.ToolCallAmended(position=position, arguments=given, hook=self._recorder.hook)
        return self._changed("with_tool_arguments", amended)

    def with_blocked_tool_call(self, reason: str = "") -> Self:
        """Refuse the tool call that is about to run. The model is told why; the other calls go on.

        The first refusal counts.
        """
        position = self._position("with_blocked_tool_call")
        call = self._latest.tool_executions[position]
        text = reason or f"Tool '{call.name}' is blocked"
        if call.is_settled:
            return self
        return self._changed(
            "with_blocked_tool_call", stored.ToolCallBlocked(position=position, reason=text, hook=self._recorder.hook)
        )

    def with_held_tool_call(self, reason: str = "", *, expires: float | None = None) -> Self:
        """Have a person approve the tool call before it runs, whatever the tool itself declares.

        `expires` is the time for an answer in seconds; the default is 72 hours. If hooks hold a call several times, the
        last one counts. A blocked call stays as it is.
        """
        position = self._position("with_held_tool_call")
        if self._latest.tool_executions[position].is_settled:
            return self
        try:
            rule = ApprovalRule(reason=reason or None, **({} if expires is None else {"expires": expires}))
        except InvalidSetting as error:
            msg = f"`with_held_tool_call` needs a positive number of seconds, not {expires!r}"
            raise ConfigurationError(msg) from error
        held = stored.ToolCallHeld(position=position, rule=rule, hook=self._recorder.hook)
        return self._changed("with_held_tool_call", held)

    def _position(self, method: str) -> int:
        self._check(method)
        if self._recorder.position is None:
            raise ConfigurationError(f"`{method}` needs a tool call, and {self.hook_type.value} is about none")
        return self._recorder.position

    def _check(self, method: str) -> None:
        allowed = CHANGES[method]
        if self.hook_type not in allowed:
            when = ", ".join(hook_type.value for hook_type in allowed)
            raise ConfigurationError(f"`{method}` may be called in {when} hooks, not in {self.hook_type.value}")
        if self._recorder.is_closed:
            raise ConfigurationError(f"`{method}` was called when the {self.hook_type.value} hooks have ended")

    @property
    def _latest(self) -> "HookState":
        return self._recorder.latest or self

    def _changed(self, method: str, event: stored.AgentEvent) -> Self:
        self._check(method)
        kept = _as_stored(method, event)
        recorder, base = self._recorder, self._latest
        state = evolve(AgentState(base._fold, as_of=base.as_of), Recorded(base.version + 1, base.as_of, kept))
        changed = type(self)(state.fold, as_of=base.as_of, recorder=recorder)
        recorder.events.append(kept)
        recorder.latest = changed
        return changed


def _refuse_other_than_messages(messages: tuple[Message, ...], what: str) -> None:
    for message in messages:
        a_kind_of(Message, message, f"{what}: what is added")
    refuse_disorder(messages, what)
    refuse_absent_files(messages, what)


def _checked_vote(vote: ContinuationEvaluation) -> ContinuationEvaluation:
    try:
        return a_kind_of(ContinuationEvaluation, vote, "`with_evaluation`: a vote").as_stored()
    except (NotStorable, ValueError) as error:
        raise ConfigurationError(f"`with_evaluation` was given what cannot be stored: {error}") from None


def _json(method: str, name: str, value: object) -> JsonValue:
    """Return a value in the form in which it can be stored. `name` is for the text of an error."""
    try:
        return storable(value, name)
    except NotStorable as error:
        raise ConfigurationError(f"`{method}` was given what cannot be stored: {error}") from None


def _as_stored(method: str, event: stored.AgentEvent) -> stored.AgentEvent:
    """Return the event in the form in which it will be read back: a copy that shares no part with the hook's data."""
    # What the hook gave is checked here, or its values would fail when they are stored, and that error names no hook.
    try:
        storable(full_form(event))
        kept = read_back(event)
    except (ValueError, NotStorable) as error:
        raise ConfigurationError(f"`{method}` was given what cannot be stored: {error}") from None
    if kept != event:
        raise ConfigurationError(f"`{method}` was given what cannot be stored as it is")
    return with_bytes_of(event, kept)
