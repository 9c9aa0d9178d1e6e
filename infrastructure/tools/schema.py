"""From a function's signature to a JSON schema, and from a model's arguments back to a call.

A function that cannot be described exactly is refused where it is decorated, by name and parameter: a tool that fails
at its first call in production is a tool that nobody tried.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticErrorMixin
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools.docstring import parameter_docs
from steptrail.runtime.agent.stored_types import BareSchema
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.json_form import to_json_value

_REFUSED_KINDS: dict[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and a model names its arguments",
    inspect.Parameter.VAR_POSITIONAL: "is variadic, and a schema has to name every parameter",
    inspect.Parameter.VAR_KEYWORD: "is variadic, and a schema has to name every parameter",
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one function: what the model is shown, and how its arguments become a call."""

    schema: dict[str, JsonValue]
    model: type[BaseModel]
    fields: Mapping[str, str]
    """Field of `model` -> parameter. The fields have names of their own, since a parameter may be called `schema`."""
    required: frozenset[str]
    """Parameters without a Python default: they are always passed, if only with the default of their `Field`."""
    context: str | None
    """The parameter that takes the `ToolContext`."""
    context_types: tuple[object, ...]
    """The types of its `data` and `resources`, as far as they are named."""
    takes_self: bool
    """The function is a method, written in a class and not yet bound; its `self` is none of the parameters."""

    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext[Any, Any]) -> dict[str, object]:
        """Return the keyword arguments of the call.

        Raises `pydantic.ValidationError`, `ValueError` for arguments that are not JSON, and what a validator raises.
        """
        # As JSON, since that is what arguments are: types that are strict about Python values still take their text.
        values = self.model.model_validate_json(to_json(arguments))
        found, given = vars(values), values.model_fields_set
        bound: dict[str, object] = {
            name: found[field] for field, name in self.fields.items() if field in given or name in self.required
        }
        if self.context is not None:
            bound[self.context] = context
        return bound


def parameters_of(function: Callable[..., object], namespace: Mapping[str, object]) -> Parameters:
    """Read the parameters of `function`; `namespace` holds local names that its annotations may use.

    Raises `ConfigurationError` for what a schema cannot express.
    """
    label = function.__qualname__
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, NameError) as error:
        raise ConfigurationError(f"the signature of tool function {label!r} cannot be read: {error}") from error
    takes_self = _in_class_body(function) and [parameter.name for parameter in found[:1]] == ["self"]
    context: str | None = None
    context_types: tuple[object, ...] = ()
    hints: dict[str, tuple[object, inspect.Parameter]] = {}
    for parameter in found[int(takes_self) :]:
        hint = _hint(function, label, parameter, namespace)
        if (types_in := _types_of_context(hint)) is None:
            hints[parameter.name] = (hint, parameter)
        elif context is None:
            context, context_types = parameter.name, types_in
        else:
            raise _refused(label, parameter.name, f"is a second ToolContext beside {context!r}")
    docs = parameter_docs(function.__doc__, hints)
    model = _model(label, hints)
    return Parameters(
        schema=_schema(label, model, docs, hints),
        model=model,
        fields={f"p{index}": name for index, name in enumerate(hints)},
        required=frozenset(name for name, (_, p) in hints.items() if p.default is inspect.Parameter.empty),
        context=context,
        context_types=context_types,
        takes_self=takes_self,
    )


def schema_of_model(model: type[BaseModel], label: str) -> dict[str, JsonValue]:
    """Return the schema of the arguments that are a model. Raises `ConfigurationError` for one that is no object."""
    try:
        schema = _bare(model)
    except Exception as error:  # types bring code of their own, which may raise anything
        raise ConfigurationError(f"the parameters of {label} have no JSON schema: {_message(error)}") from error
    if schema.get("type") != "object":
        raise ConfigurationError(f"the parameters of {label} are no object: give a model with named fields")
    return schema


def _bare(model: type[BaseModel]) -> dict[str, JsonValue]:
    schema = cast(dict[str, JsonValue], to_json_value(model.model_json_schema(schema_generator=BareSchema)))
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _in_class_body(function: Callable[..., object]) -> bool:
    # A function does not know its class while the class is being made; its qualified name does.
    outer = function.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _refused(label: str, name: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"parameter {name!r} of tool function {label!r} {why}")


def _hint(
    function: Callable[..., object], label: str, parameter: inspect.Parameter, namespace: Mapping[str, object]
) -> object:
    if (why := _REFUSED_KINDS.get(parameter.kind)) is not None:
        raise _refused(label, parameter.name, why)
    if parameter.annotation is inspect.Parameter.empty:
        raise _refused(label, parameter.name, "has no type annotation")
    if isinstance(parameter.default, FieldInfo):
        advice = "has a Field as its default, which a direct call would pass on: write Annotated[type, Field(...)]"
        raise _refused(label, parameter.name, advice)

    def carrier() -> None: ...

    # One annotation at a time, so that the one which cannot be resolved can be named.
    carrier.__annotations__ = {parameter.name: parameter.annotation}
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(carrier, scope, dict(namespace), include_extras=True)[parameter.name]
    except Exception as error:
        raise _refused(label, parameter.name, f"has an annotation that cannot be resolved: {error}") from error


def _types_of_context(hint: object) -> tuple[object, ...] | None:
    """Return the types of `data` and `resources` that a `ToolContext` names; None for another annotation."""
    if get_origin(hint) is Annotated:
        return _types_of_context(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        inner = [each for each in get_args(hint) if each is not types.NoneType]
        return _types_of_context(inner[0]) if len(inner) == 1 else None
    if get_origin(hint) is ToolContext:
        return get_args(hint)
    return () if hint is ToolContext else None


def _model(label: str, hints: Mapping[str, tuple[object, inspect.Parameter]]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for index, (name, (hint, parameter)) in enumerate(hints.items()):
        settings: dict[str, Any] = {"alias": name}
        if parameter.default is not inspect.Parameter.empty:
            settings["default"] = parameter.default
        fields[f"p{index}"] = (hint, Field(**settings))
    try:
        return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    except Exception as error:  # types bring code of their own, which may raise anything
        raise _unsupported(label, hints, error) from error


def _schema(
    label: str,
    model: type[BaseModel],
    docs: Mapping[str, str],
    hints: Mapping[str, tuple[object, inspect.Parameter]],
) -> dict[str, JsonValue]:
    try:
        schema = _bare(model)
    except Exception as error:  # as above
        raise _unsupported(label, hints, error) from error
    properties = cast(dict[str, dict[str, JsonValue]], schema["properties"])
    for name, text in docs.items():
        properties[name].setdefault("description", text)
    return schema


def _unsupported(
    label: str, hints: Mapping[str, tuple[object, inspect.Parameter]], error: Exception
) -> ConfigurationError:
    for name, (hint, _) in hints.items():
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, hint))
            adapter.json_schema(schema_generator=BareSchema)
        except Exception as cause:
            return _refused(label, name, f"has a type that has no JSON schema: {_message(cause)}")
    return ConfigurationError(f"the parameters of tool function {label!r} have no JSON schema: {_message(error)}")


def _message(error: Exception) -> str:
    # pydantic's own text ends in a link and a paragraph of advice about its configuration.
    text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
    return text.split("\n", 1)[0].split(". Set `arbitrary_types_allowed", 1)[0]
