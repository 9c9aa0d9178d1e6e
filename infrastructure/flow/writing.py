"""Writes a workflow as the text that `load_flow` reads. Each node uses its code under its own id."""

from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec
from msgspec import structs

from steptrail.domain.base import full_form
from steptrail.domain.flow.definition import FORMAT, Edge, FlowDefinition
from steptrail.domain.flow.nodes import (
    CaseSpec,
    CheckSpec,
    Expression,
    FilterNode,
    MapNode,
    MergeNode,
    Node,
    RuleSpec,
    ToolNode,
    TransformNode,
    WebhookNode,
)
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of
from steptrail.infrastructure.extras import from_extra
from steptrail.infrastructure.flow.strict_yaml import OLD_BREAKS

_CODE: Final = ("model", "tool", "agent", "flow", "function")
"""The fields that name the code of a node."""

_REQUIRED: Final = frozenset({"cases", "checks", "prompt", "routes", "rules"})
"""The fields that a text has to say, although a node has a default for them."""

_Object = dict[str, Any]


def flow_text(definition: FlowDefinition) -> str:
    """Return a workflow as YAML.

    `load_flow` makes the same of it if `use` holds the code of each node under the node's id, and each function that
    decides under its recorded name. Raises `MissingExtra` without the extra `flow`.
    """
    yaml = from_extra("yaml", "flow", "YAML", "PyYAML")
    a_kind_of(FlowDefinition, definition, "what is written")

    # Texts with characters that end a line in YAML 1.1 alone are quoted, or they would be read as spaces.
    def written(writer: Any, text: str) -> Any:
        style = '"' if any(each in text for each in OLD_BREAKS) else None
        return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
    dumper.add_representer(str, written)
    text: str = yaml.dump(flow_document(definition), Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def flow_document(definition: FlowDefinition) -> dict[str, JsonValue]:
    """Return a workflow as JSON in the form that `load_flow` reads."""
    said: _Object = {"steptrail": FORMAT, "name": definition.name}
    said |= {key: value for key in ("description", "result") if (value := getattr(definition, key)) is not None}
    if definition.options != RunOptions():
        said["options"] = _unlike(definition.options, RunOptions())
    said["entry"] = list(definition.entry)
    said["nodes"] = [_node(node) for node in definition.nodes]
    said["edges"] = [_edge(edge) for edge in definition.edges]
    return cast("dict[str, JsonValue]", said)


def _node(node: Node, *, is_inner: bool = False) -> _Object:
    said: _Object = {} if is_inner else {"id": node.id}
    said["kind"] = node.__struct_config__.tag
    if any(hasattr(node, name) for name in _CODE) and not isinstance(node, MergeNode):
        said["use"] = node.id
    elif isinstance(node, MergeNode) and node.function is not None:
        said["use"] = node.function
    for field in structs.fields(node):
        value = getattr(node, field.name)
        if field.name in {"id", *_CODE} or (value == _default(field) and field.name not in _REQUIRED):
            continue
        if isinstance(node, TransformNode | FilterNode) and field.name == "settings":
            said |= full_form(value)
        else:
            said[field.name] = _part(value)
    if isinstance(node, ToolNode):
        # The tool may say something else, and what was built has to be said.
        said |= {"approval": full_form(node.tool.approval) or False, "retry": full_form(node.retry)}
        said |= {"on_unknown": full_form(node.on_unknown), "timeout": node.timeout}
    if isinstance(node, WebhookNode):
        said |= {"effect": node.effect.value, "hosts": list(node.hosts)}
    if isinstance(node, MapNode):
        said["node"] = _node(node.node, is_inner=True)
    return said


def _part(value: Any) -> Any:
    """Return the value of a field in the form of the text."""
    match value:
        case Expression():
            return _expression(value)
        case CaseSpec() | RuleSpec() | CheckSpec():
            return _deciding(value)
        case tuple():
            return [_part(each) for each in cast("Iterable[Any]", value)]
        case _:
            return full_form(value)


def _deciding(value: CaseSpec | RuleSpec | CheckSpec) -> _Object:
    said: _Object = {}
    for field in structs.fields(value):
        part = getattr(value, field.name)
        if part == _default(field):
            continue
        if field.name == "settings":
            said |= full_form(part)
        else:
            said["when" if field.name == "expression" else field.name] = _part(part)
    return said


def _expression(expression: Expression) -> Any:
    if expression.kind == "function":
        return {"use": expression.text}
    return expression.text if Expression.of(expression.text) == expression else {expression.kind: expression.text}


def _edge(edge: Edge) -> _Object:
    said: _Object = {"source": edge.source, "target": edge.target, "when": edge.when.value}
    return said | ({"loop": True} if edge.loop else {})


def _unlike(value: RunOptions, default: RunOptions) -> _Object:
    names = [name for name in value.__struct_fields__ if getattr(value, name) != getattr(default, name)]
    return {name: full_form(getattr(value, name)) for name in names}


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
