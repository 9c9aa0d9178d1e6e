"""The output of an agent that answers in a type: its form, its validators, and the verdict on an answer."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from steptrail.domain.agent.answer_to_judge import BROKEN_VALIDATOR
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.events import AgentEvent, AnswerAccepted, AnswerRejected, EvaluationsRecorded, HooksRan
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.shown import ShownState
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError, InvalidSetting, NotStorable, StoredOutputInvalid
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_function
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.output import WRAPPED_IN, OutputMode, OutputProblem, OutputSpec, json_in
from steptrail.domain.output_schema import NotStrict, object_schema, strict_schema
from steptrail.runtime.agent.run_log import failed_vote
from steptrail.runtime.agent.tool_port import NOTHING
from steptrail.runtime.agent.type_variables import DataT_co, OutputT, OutputT_co, ResourcesT_co
from steptrail.runtime.kernel.cancellation import is_asked_to_end
from steptrail.runtime.kernel.ports import ModelDriver

if TYPE_CHECKING:
    from pydantic import TypeAdapter

OutputModeName = Literal["auto", "native", "tool", "prompted", "last"]
"""A member of `OutputMode`, or `auto`: the one that suits the model and the agent's tools."""


class OutputRejected(ValueError):
    """An answer is refused. A validator raises it: the model is told the text, and is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputContext(Generic[DataT_co, ResourcesT_co]):
    """The place of an answer that a validator judges.

    `attempt` is 1 for the first answer, and 1 more after each rejection. `state` is the session, with the answer in its
    open step. `data` is what was said of the run, and `resources` is what is open for it; None when nothing is.
    """

    session_id: str
    execution_id: str
    step: int
    attempt: int
    mode: OutputMode
    state: AgentState
    data: DataT_co = NOTHING
    resources: ResourcesT_co = field(default=NOTHING, repr=False, compare=False)


Validator: TypeAlias = Callable[[OutputT, OutputContext[Any, Any]], OutputT | Awaitable[OutputT]]
"""Judges an answer and returns it, or another one in its place; to refuse it, it raises `OutputRejected`.

It may run again after a crash, so it must be harmless to repeat.
"""


@runtime_checkable
class KnowsOutputModes(Protocol):
    """A model driver that can tell how it is asked for an answer of a type."""

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes that work for this schema, the best one first. `with_tools` says that there are tools."""
        ...


class AgentOutput(Protocol[OutputT_co]):
    """The output of an agent, as the runtime uses it."""

    def spec(self, agent: str, model: ModelDriver, tools: Collection[str]) -> OutputSpec:
        """Return the form that is recorded, for an agent with this model and these tools."""
        ...

    def read(self, value: JsonValue) -> OutputT_co:
        """Return the value of an accepted answer. Raises `StoredOutputInvalid`."""
        ...

    async def judge(self, state: AgentState, means: Means) -> tuple[AgentEvent, ...]:
        """Return the verdict on the answer of the open step."""
        ...


class TypedOutput(Generic[OutputT]):
    """An output of a type. Raises `ConfigurationError` for a type or a setting that cannot be used."""

    def __init__(
        self,
        kind: "type[OutputT] | TypeAdapter[OutputT]",
        *,
        mode: OutputModeName,
        retries: int,
        name: str,
        description: str | None,
    ) -> None:
        from steptrail.runtime.agent.stored_types import StoredType

        self._type: StoredType[OutputT] = StoredType(kind)
        self._validators = tuple[Validator[OutputT], ...]()
        self._schema, is_wrapped = object_schema(self._type.schema, WRAPPED_IN)
        try:
            self._asked = None if mode == "auto" else OutputMode(mode)
            self._spec = OutputSpec(
                name=name,
                type_name=self._type.name,
                json_schema=self._schema,
                mode=self._asked or OutputMode.NATIVE,
                description=description,
                is_wrapped=is_wrapped,
                retries=retries,
            )
        except InvalidSetting as error:
            raise ConfigurationError(f"`with_output`: {error.problem}") from None
        except ValueError:
            known = ", ".join(("auto", *OutputMode))
            raise ConfigurationError(f"`with_output`: there is no mode {mode!r}; modes are {known}") from None

    def with_validators(self, *validators: Validator[OutputT]) -> "TypedOutput[OutputT]":
        """Return the same output with more validators. Raises `ConfigurationError` for what is no such function."""
        for validator in validators:
            a_function(validator, "a validator", "the answer", "its context")
        other = copy(self)
        other._validators = (*self._validators, *validators)
        return other

    def spec(self, agent: str, model: ModelDriver, tools: Collection[str]) -> OutputSpec:
        """Return the form that is recorded. Raises `ConfigurationError` if it does not suit the model or the tools."""
        modes = self._modes(model, with_tools=bool(tools))
        mode = self._asked or modes[0]
        if mode is OutputMode.LAST and not tools:
            mode = OutputMode.NATIVE
        schema, note = self._schema, None
        if mode is not OutputMode.PROMPTED:
            try:
                schema = strict_schema(self._schema)
            except NotStrict as error:
                note = str(error)
                if self._asked is OutputMode.NATIVE:
                    why = f"{self._type.name} cannot be asked for in the mode native: {note}"
                    raise ConfigurationError(f"agent {agent!r}: {why}") from None
        if mode not in modes:
            beside = " beside tools" if tools else ""
            told = f"its model takes {', '.join(modes)}{beside}, not {mode}"
            raise ConfigurationError(f"agent {agent!r} answers as {self._type.name}: {told}")
        if mode is OutputMode.TOOL and self._spec.name in tools:
            raise ConfigurationError(f"agent {agent!r} has a tool named {self._spec.name!r}, and its output too")
        names = tuple(map(function_name, self._validators))
        return msgspec.structs.replace(
            self._spec,
            mode=mode,
            json_schema=schema,
            is_strict=note is None and mode is not OutputMode.PROMPTED,
            note=note,
            validators=names,
        )

    def _modes(self, model: ModelDriver, *, with_tools: bool) -> Sequence[OutputMode]:
        if isinstance(model, KnowsOutputModes):
            return model.output_modes(self._schema, with_tools=with_tools)
        # A driver of a service renders messages and tools. Nothing says that it knows of schemas.
        return (OutputMode.TOOL, OutputMode.PROMPTED)

    def read(self, value: JsonValue) -> OutputT:
        """Return the value of an accepted answer. Raises `StoredOutputInvalid`."""
        try:
            return self._type.of(value)
        except Exception as error:  # the type brings code of its own, which may have changed
            raise StoredOutputInvalid(self._type.name, self._type.why_not(error)) from error

    async def judge(self, state: AgentState, means: Means) -> tuple[AgentEvent, ...]:
        """Return the verdict on the answer of the open step. The first answer of the reply that fits is accepted."""
        step, spec = state.fold.step, state.agent.output if state.agent is not None else None
        if step is None or step.reply is None or spec is None:
            return ()
        calls = [call for call in step.calls if call.phase is CallPhase.ANSWER]
        if step.output_mode is OutputMode.TOOL and not calls:
            missing = OutputProblem(type="missing_call", message=f"answer by calling {spec.name}")
            return (AnswerRejected(step=step.number, problems=(missing,)),)
        answers: list[tuple[int | None, str | ToolCallPart]] = [(call.position, call.call) for call in calls]
        rejected: AnswerRejected | None = None
        for position, answer in answers or [(None, step.reply.text)]:
            context = OutputContext(
                session_id=state.agent_id,
                execution_id=state.execution_id or "",
                step=step.number,
                attempt=state.output_rejections + 1,
                mode=step.output_mode or spec.mode,
                state=ShownState.of(state, means=means),
                data=means.data,
                resources=means.resources if means.are_open else None,
            )
            try:
                value, is_changed = await self._valid(answer, spec, context)
            except _NoFit as refused:
                rejected = rejected or AnswerRejected(
                    step=step.number, position=position, problems=tuple(refused.problems)
                )
            except _Broken as broken:
                name = broken.name
                vote = failed_vote(state.agent_id, "the output validator", name, broken.error)
                mark = HooksRan(hook_type=BROKEN_VALIDATOR, step=step.number, hooks=(name,), forbidden_by=name)
                return (EvaluationsRecorded(votes=(vote,), hook=name), mark)
            else:
                kept = value if is_changed else None
                return (AnswerAccepted(step=step.number, position=position, is_changed=is_changed, value=kept),)
        return (rejected,) if rejected is not None else ()

    async def _valid(
        self, answer: str | ToolCallPart, spec: OutputSpec, context: OutputContext
    ) -> tuple[JsonValue, bool]:
        """Return the JSON of an answer that fits, and whether it differs from that of the reply.

        Raises `_NoFit`, and `_Broken` when code of the type or a validator fails.
        """
        said = _said(answer, spec)
        value = self._of(said)
        for validator in self._validators:
            value = await self._judged_by(validator, value, context)
            if value is None:
                self._refuse_none(validator)
        try:
            made = self._type.stored(value, said)
        except NotStorable as error:
            raise _NoFit([OutputProblem(type="not_storable", message=str(error))]) from None
        except Exception as error:
            name = ", ".join(map(function_name, self._validators)) or spec.type_name
            why = f"the answer that is left does not fit {spec.type_name}: {self._type.why_not(error)}"
            raise _Broken(name, TypeError(why)) from error
        return made, _encoded(made) != _encoded(said)

    async def _judged_by(
        self, validator: Validator[OutputT], value: OutputT, context: OutputContext[Any, Any]
    ) -> OutputT:
        """Return what a validator makes of an answer. Raises `_NoFit`, and `_Broken`."""
        try:
            given = validator(value, context)
            return cast("OutputT", await given if inspect.isawaitable(given) else given)
        except asyncio.CancelledError:
            if is_asked_to_end():
                raise
            cancelled = RuntimeError("the validator cancelled itself, and nobody had asked it to")
            raise _Broken(function_name(validator), cancelled) from None
        except ValueError as error:
            raise _NoFit(self._type.problems_of(error)) from None
        except Exception as error:
            raise _Broken(function_name(validator), error) from error

    def _refuse_none(self, validator: Validator[OutputT]) -> None:
        """Raise `_Broken` for a validator that returned None, as one does that forgets to, where that is no answer."""
        try:
            self._type.of(None)
        except Exception as error:
            why = f"it returned None, which is no {self._type.name}: a validator returns the answer, or another one"
            raise _Broken(function_name(validator), TypeError(why)) from error

    def _of(self, said: JsonValue) -> OutputT:
        from pydantic import ValidationError

        try:
            return self._type.of(said)
        except ValidationError as error:
            raise _NoFit(self._type.problems_of(error)) from None
        except Exception as error:
            raise _Broken(self._type.name, error) from error


class _NoFit(Exception):
    def __init__(self, problems: Sequence[OutputProblem]) -> None:
        super().__init__()
        self.problems = problems


class _Broken(Exception):
    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name)
        self.name, self.error = name, error


def _said(answer: str | ToolCallPart, spec: OutputSpec) -> JsonValue:
    """Return the JSON of an answer as the model gave it. Raises `_NoFit`."""
    try:
        return spec.unwrapped(json_in(answer))
    except KeyError as error:
        problem = OutputProblem(at=str(error.args[0]), type="missing", message="Field required")
        raise _NoFit([problem]) from None
    except ValueError as error:
        raise _NoFit([OutputProblem(type="json_invalid", message=f"the answer is no JSON: {error}"[:300])]) from None


def _encoded(value: JsonValue) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
