"""Adds the nodes of a document to a builder, with the code that the caller brings under the names that they use."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Final, NoReturn, cast

from pydantic import BaseModel

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.nodes import Expression
from steptrail.domain.inference import ModelInfo, ModelRequest
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.infrastructure.flow.document import (
    CaseEntry,
    CelForm,
    CheckEntry,
    Deciding,
    MapEntry,
    NodeForm,
    RuleEntry,
    UseForm,
)
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.flow.builder import FlowBuilder
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.flow.written import Case, Check, Rule, When

_FIRST: Final = {
    "conditional": "cases",
    "filter": "operation",
    "guardian": "checks",
    "rule_router": "rules",
    "transform": "operation",
    "webhook": "url",
}
"""Kind -> the setting that the method of the builder takes without its name; `use` of the other kinds that have it."""

_OF_INNER: Final = {"llm": "model", "webhook": "url"}
"""Kind of the inner node of a map -> the name of its code there, where that is not the kind."""


class UnknownUse(ConfigurationError):
    """A name is used that the caller does not bring."""

    def __init__(self, name: str, known: Mapping[str, object]) -> None:
        super().__init__(f"nothing is brought under the name {name!r}")
        self.name = name
        near = get_close_matches(name, known, 1)
        self.hint = f"did you mean {near[0]!r}?" if near else None


def add_entry(builder: FlowBuilder, entry: NodeForm, use: Mapping[str, object] | None) -> None:
    """Add a node, without `use` with stand-ins for code. Raises `ConfigurationError`, of which `UnknownUse` is one."""
    given = _given(entry)
    node_id, kind = given.pop("id"), given.pop("kind")
    if isinstance(entry, MapEntry):
        given |= _inner(cast("BaseModel", given.pop("node")), use)
    code = _brought(kind, given.pop("use"), use) if given.get("use") is not None else None
    made = {name: _made(value, use) for name, value in given.items()}
    if kind == "merge":
        made["function"] = code
    first = [made.pop(_FIRST[kind])] if kind in _FIRST else [code] if hasattr(entry, "use") and kind != "merge" else []
    getattr(builder, kind)(node_id, *first, **made)


def _given(form: BaseModel) -> dict[str, Any]:
    """Return what a form says, and nothing that it leaves unsaid."""
    return {name.rstrip("_"): getattr(form, name) for name in form.model_fields_set}


def _inner(form: BaseModel, use: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the settings of a map that are those of its inner node."""
    given = _given(form)
    kind = given.pop("kind")
    code = given.pop("url") if kind == "webhook" else _brought(kind, given.pop("use"), use)
    of_items = {f"item_{name}": given.pop(name) for name in ("timeout", "budget") if name in given}
    return {_OF_INNER.get(kind, kind): code, **given, **of_items}


def _brought(kind: str, name: str, use: Mapping[str, object] | None) -> object:
    return stand_in(kind) if use is None else brought_under(name, use)


def brought_under(name: str, use: Mapping[str, object]) -> object:
    """Return what the caller brings under a name. Raises `UnknownUse`."""
    if name not in use:
        raise UnknownUse(name, use)
    return use[name]


def _made(value: object, use: Mapping[str, object] | None) -> object:
    """Return a part of a form as the builder takes it."""
    match value:
        case UseForm():
            return _brought("function", value.use, use)
        case CelForm():
            return Expression(kind="cel", text=value.cel)
        case CaseEntry():
            return Case(_when(value.when, use), to=value.to, name=value.name)
        case RuleEntry():
            if value.when is not None and value.conditions:
                raise ConfigurationError("rules: a rule has conditions, or `when`")
            return Rule(value.conditions or (None if value.when is None else _when(value.when, use)), to=value.to)
        case CheckEntry():
            given = _given(value)
            if value.when is not None:
                given["when"] = _when(value.when, use)
            return Check(**given)
        case list():
            return [_made(each, use) for each in cast("list[object]", value)]
        case _:
            return value


def _when(deciding: Deciding, use: Mapping[str, object] | None) -> When:
    return cast("When", _made(deciding, use))


def stand_in(kind: str) -> object:
    """Return what can be added in place of the code of a node of this kind, to check and draw a text without that code.

    It cannot be run.
    """
    match kind:
        case "tool":
            return SimpleNamespace(spec=ToolSpec(name="tool", effect=ToolEffect.READ))
        case "llm" | "llm_router":
            return _NoModel()
        case "agent":
            return AgentBuilder("agent").with_model(_NoModel()).with_context(dict[str, Any]).build()
        case "flow":
            return BuiltWorkflow(definition=FlowDefinition(name="flow", nodes=()))
        case _:
            return _no_function


class _NoModel:
    def describe(self) -> ModelInfo:
        return ModelInfo(driver="none", model="model")

    async def infer(self, request: ModelRequest) -> NoReturn:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _no_function(*_: object) -> NoReturn:
    raise NotImplementedError
