"""`@tool`: a plain function becomes something that a model may call and a program may still call.

Everything that can be wrong with a function as a tool is found here, at import, and not at its first call.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from msgspec import structs

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.module_names import module_of
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.infrastructure.tools.docstring import summary
from steptrail.infrastructure.tools.execution import execute, patience_of, unfit
from steptrail.runtime.agent.tool_port import Capture, Patience, ToolContext, ToolOutcome

if TYPE_CHECKING:
    from steptrail.infrastructure.tools.schema import Parameters

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
R_co = TypeVar("R_co", covariant=True)

_ALL = (Exception,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tool:
    """A function that a model may call. Two tools are equal when they are the same object.

    `is_async` tells whether calling `function` gives an awaitable. `needs_instance` is true for a method that was
    taken from its class: take it from an instance. `retry_on` is what its rule has tried again.
    """

    spec: ToolSpec
    function: Callable[..., object]
    parameters: "Parameters"
    is_async: bool
    needs_instance: bool = False
    retry_on: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        # What `functools.wraps` would do, so that `help` and `inspect.signature` show the function.
        names = ("__module__", "__name__", "__qualname__", "__doc__")
        vars(self).update({name: getattr(self.function, name) for name in names}, __wrapped__=self.function)

    @property
    def name(self) -> str:
        """The name that the model uses."""
        return self.spec.name

    def invoke(self, bound: Mapping[str, object]) -> object:
        """Call the function with bound arguments."""
        return self.function(**bound)

    def retries(self, error: BaseException) -> bool:
        """Tell whether its own rule has such an error tried again."""
        return isinstance(error, self.retry_on)

    @property
    def context_types(self) -> tuple[object, ...]:
        """The types of the context and the resources that it wants."""
        return self.parameters.context_types

    @cached_property
    def patience(self) -> Patience | None:
        """The patience with a call that was cancelled."""
        return patience_of(self)

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit; None when they do."""
        return unfit(self.parameters, arguments, raw, capture)

    def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext[Any, Any],
        *,
        timeout: float | None,
        capture: Capture,
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Run one call for the runner; see `execute`."""
        return execute(self, arguments, raw, context, timeout=timeout, capture=capture)


class FunctionTool(Tool, Generic[P, R_co]):
    """A tool that is still called as its function, with the function's types."""

    function: Callable[P, R_co]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function as it was written: no schema, no timeout, no event."""
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "FunctionTool[P, R_co]": ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[S, Q], R_co]", instance: S, owner: type | None = None
    ) -> "FunctionTool[Q, R_co]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[P, R_co]": ...
    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R_co]":
        """Bind a method to its instance, as a function in a class does."""
        if instance is None or not self.needs_instance:
            return self
        return replace(self, function=MethodType(self.function, instance), needs_instance=False)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect = ToolEffect.UNSAFE,
    timeout: float | None = None,
    on_unknown: OnUnknown = OnUnknown.TELL,
    approval: ApprovalRule | bool = False,
    concurrent: bool | None = None,
    retry: ToolRetry | int | None = None,
    retry_on: tuple[type[Exception], ...] = _ALL,
    max_calls: int | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect = ToolEffect.UNSAFE,
    timeout: float | None = None,
    on_unknown: OnUnknown = OnUnknown.TELL,
    approval: ApprovalRule | bool = False,
    concurrent: bool | None = None,
    retry: ToolRetry | int | None = None,
    retry_on: tuple[type[Exception], ...] = _ALL,
    max_calls: int | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function or method, sync or async.

    `name` and `description` default to the function's name and the first paragraph of its docstring. `effect` says
    what a crash in the middle of a call means; undeclared is unsafe, which is never repeated. `timeout` is in seconds
    per try. `approval` has a person approve every call before it runs: `True`, or a rule that says how long they have
    and why they are asked. `concurrent` says whether a call may run beside its neighbours in the model's reply; unless
    it is said, only tools that read may. `retry` has a call that raises one of `retry_on` tried again before anybody
    hears of it: a rule, or how many tries there are in all. `max_calls` is how many calls of it a run may make.

    Every parameter needs an annotation that has a JSON schema; `Annotated[..., Field(description=...)]` or an `Args:`
    section describes it; one annotated `ToolContext` receives the context of the call.

    Raises `ConfigurationError` that names the function and the parameter.
    """
    # It loads pydantic, which a program without tools of its own does not need.
    from steptrail.infrastructure.tools.schema import parameters_of

    namespace = _local_names(inspect.currentframe())

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        _check_function(function)
        parameters = parameters_of(function, namespace)
        if description is None and not function.__doc__ and sys.flags.optimize > 1:
            told = "`python -OO` removes the docstring that tells a model of it: use `-O`, or give a `description`"
            warnings.warn(f"tool function {function.__qualname__!r}: {told}", RuntimeWarning, stacklevel=2)
        try:
            spec = ToolSpec(
                name=function.__name__ if name is None else name,
                description=summary(function.__doc__) if description is None else description,
                parameters=parameters.schema,
                effect=effect,
                on_unknown=on_unknown,
                timeout=timeout,
                approval=ApprovalRule() if approval is True else approval or None,
                concurrent=concurrent,
                retry=_retry_rule(retry, retry_on),
                max_calls=max_calls,
                takes_context=parameters.context is not None,
            )
        except InvalidSetting as error:
            raise ConfigurationError(
                f"tool function {function.__qualname__!r} makes no tool: {error.problem}"
            ) from error
        return FunctionTool(
            spec=spec,
            function=function,
            parameters=parameters,
            is_async=inspect.iscoroutinefunction(function),
            needs_instance=parameters.takes_self,
            retry_on=retry_on if retry is not None else (),
        )

    return decorate if function is None else decorate(function)


def _retry_rule(retry: ToolRetry | int | None, retry_on: tuple[type[Exception], ...]) -> ToolRetry | None:
    given = cast(object, retry_on)
    kinds = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise ConfigurationError(f"retry_on of a tool is a tuple of classes of exceptions, not {retry_on!r}")
    if retry is None:
        if retry_on != _ALL:
            raise ConfigurationError("retry_on of a tool has no effect without `retry`, which says how many tries")
        return None
    if isinstance(retry, ToolRetry) and retry.retry_on:
        raise ConfigurationError("the exceptions of a tool's rule are classes, given beside it as `retry_on`")
    named = tuple(f"{module_of(kind)}:{kind.__qualname__}" for kind in retry_on)
    rule = retry if isinstance(retry, ToolRetry) else ToolRetry(attempts=retry)
    return structs.replace(rule, retry_on=named)


def _check_function(function: object) -> None:
    if isinstance(function, staticmethod | classmethod):
        name = function.__qualname__
        raise ConfigurationError(f"{name!r}: write @tool below @staticmethod; a class method cannot be a tool")
    if isinstance(function, type | Tool) or not callable(function) or not hasattr(function, "__qualname__"):
        raise ConfigurationError(f"{function!r} is not a function: @tool is for functions and methods")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"tool function {function.__qualname__!r} is a generator: return the values instead")


def _local_names(frame: FrameType | None) -> dict[str, object]:
    """Return the names that an annotation kept as text may use beside the module's: those around the decorator."""
    caller = frame.f_back if frame is not None else None
    if caller is None:
        return {}
    names: dict[str, object] = {}
    if "__qualname__" in caller.f_locals and caller.f_back is not None:  # a class body: its function lies around it
        names.update(caller.f_back.f_locals)
    names.update(caller.f_locals)
    return names
