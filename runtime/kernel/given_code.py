"""The checks that what a caller gives as a model, as a store or as a tool is one, and the digests of what tools run."""

from collections.abc import Iterable, Mapping
from inspect import isroutine
from typing import TYPE_CHECKING, cast

from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.kernel.ports import EventStore

if TYPE_CHECKING:
    from steptrail.runtime.kernel.ports import ModelDriver


def a_model(given: object, whose: str) -> "ModelDriver":
    """Return `given`, which must be a model driver. Raises `ConfigurationError` for anything else, such as a name."""
    if isinstance(given, type):
        raise ConfigurationError(f"{whose}: {given.__name__} is a class, and a model is an object of it")
    if not callable(getattr(given, "describe", None)) or not callable(getattr(given, "infer", None)):
        what = f"{given!r}" if isinstance(given, str) else type(given).__name__
        hint = 'give a driver of `steptrail.models`, such as `OpenAIModel("gpt-5-mini")`'
        raise ConfigurationError(f"{whose}: {what} is no model: {hint}")
    return cast("ModelDriver", given)


def a_store(given: object) -> "EventStore":
    """Return `given`, which must be a store. Raises `ConfigurationError` for anything else, such as an address."""
    if isinstance(given, type):
        raise ConfigurationError(f"{given.__name__} is a class, and a store is an object of it")
    what = f"{given!r}" if isinstance(given, str) else type(given).__name__
    methods = {name: method for name, method in vars(EventStore).items() if not name.startswith("_")}
    # The methods of the protocol return None, and a class that derives from it has them all.
    inherited = [name for name, method in methods.items() if getattr(type(given), name, None) is method]
    if missing := [f"`{name}`" for name in methods if name in inherited or not callable(getattr(given, name, None))]:
        lacks = f"it has no {', '.join(missing[:3])}{', …' if missing[3:] else ''}{' of its own' if inherited else ''}"
        hint = "give an address such as 'sqlite:///runs.db', or what has the methods of `steptrail.stores.EventStore`"
        raise ConfigurationError(f"{what} is no store, because {lacks}: {hint}")
    return cast("EventStore", given)


def spec_of_tool(given: object) -> ToolSpec:
    """Return the spec of `given`, which must be a tool.

    Raises `ConfigurationError` for anything else, for a method without its instance, and for parameters that are no
    JSON schema of an object.
    """
    spec = getattr(given, "spec", None)
    if isinstance(spec, ToolSpec):
        if getattr(given, "needs_instance", False):
            problem = "is a method without its instance: take it from an instance of its class"
            raise ConfigurationError(f"tool {spec.name!r} {problem}")
        _check_parameters(spec)
        return spec
    if isroutine(given):
        raise ConfigurationError(f"the function {function_name(given)} is not a tool; decorate it with `@tool`")
    kind = type(given).__name__
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        raise ConfigurationError(f"{kind} is not a tool; give each tool as an argument of its own")
    means = "`@tool` makes one of a function, `SubagentTool` of an agent, `FlowTool` of a workflow"
    raise ConfigurationError(f"{kind} is not a tool; {means}")


def digest_below(code: Mapping[str, object]) -> str | None:
    """Return the digests of the workflows that code runs, in the order of its names; None where it runs none."""
    digests = [getattr(code[name], "digest", None) for name in sorted(code)]
    return "\n".join(each for each in digests if isinstance(each, str)) or None


def _check_parameters(spec: ToolSpec) -> None:
    """Refuse what no provider takes, and what only a provider would refuse, when the model is asked."""
    schema = spec.parameters
    properties, required = schema.get("properties", {}), cast("object", schema.get("required", []))
    if schema.get("type", "object") != "object":
        wrong = f"`type` is {schema['type']!r}, and arguments are an object"
    elif not isinstance(properties, dict):
        wrong = f"`properties` is a mapping from names to schemas, not {type(properties).__name__}"
    elif named := [name for name, each in properties.items() if not isinstance(each, dict | bool)]:
        wrong = f"`properties.{named[0]}` is a schema such as {{'type': 'string'}}, not {properties[named[0]]!r}"
    elif not isinstance(required, list) or not all(isinstance(each, str) for each in cast("list[object]", required)):
        wrong = f"`required` is a list of names, not {required!r}"
    else:
        return
    raise ConfigurationError(f"the parameters of the tool {spec.name!r} are no JSON schema of an object: {wrong}")
