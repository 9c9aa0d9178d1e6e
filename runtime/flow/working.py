"""Makes the nodes that leave the process out of what people give: tools, models, agents, functions, requests.

Each function returns the recorded node and the code that it calls. What cannot be used is a `ConfigurationError`; the
builder says which node it is about.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import structs

from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError, shown
from steptrail.domain.flow import nodes
from steptrail.domain.flow.policies import CACHEABLE, OnUnknownOutcome, RetryPolicy
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_mapping, a_row, a_text
from steptrail.domain.policy.backoff import BackoffKind
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.runtime.flow.functions import NodeFunction, takes_context
from steptrail.runtime.flow.workflow import BuiltWorkflow, Code
from steptrail.runtime.kernel.given_code import a_model, spec_of_tool

if TYPE_CHECKING:
    from pydantic import BaseModel

    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.agent.tool_port import RunnableTool
    from steptrail.runtime.kernel.ports import ModelDriver

EffectName: TypeAlias = ToolEffect | Literal["read", "idempotent", "keyed", "unsafe"]
"""A member of `ToolEffect`."""
SchemaGiven: TypeAlias = "Mapping[str, object] | type[BaseModel]"
"""A JSON schema, or a pydantic model that has one."""
_READING = frozenset({"GET", "HEAD"})


def tool_node(
    node_id: str,
    tool: "RunnableTool",
    /,
    *,
    args: Mapping[str, object] | None = None,
    approval: ApprovalRule | bool | None = None,
    **settings: Any,
) -> tuple[nodes.ToolNode, Code]:
    """Return the node of a tool. What the tool says of retries and time holds, unless the node says otherwise."""
    spec = spec_of_tool(tool)
    if spec.external is not None:
        raise ConfigurationError(
            f"node {node_id!r}: tool {spec.name!r} has no body; a node that waits for an answer is `human`"
        )
    if approval is not None:
        spec = structs.replace(spec, approval=ApprovalRule() if approval is True else approval or None)
    if not isinstance(args, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"args: they are a mapping from the tool's parameters, not {type(args).__name__}")
    given = cast("dict[str, JsonValue]", dict(args or {}))  # checked when the workflow is built
    _check_arguments(spec, given)
    if spec.retry is not None:
        settings.setdefault("retry", _policy(spec.retry))
    if spec.timeout is not None or spec.runs_children is not None:
        settings.setdefault("timeout", None)  # its own bounds each try, and no other that of an agent or a workflow
    if spec.on_unknown is not OnUnknown.TELL:
        settings.setdefault("on_unknown", OnUnknownOutcome(spec.on_unknown.value))
    return nodes.ToolNode(id=node_id, tool=spec, args=given, **settings), tool


def llm_node(
    node_id: str,
    model: "ModelDriver",
    /,
    *,
    schema: "SchemaGiven | None" = None,
    messages: Sequence[Mapping[str, object]] = (),
    parameters: Mapping[str, object] | None = None,
    **settings: Any,
) -> tuple[nodes.LlmNode, Code]:
    """Return the node of a model call."""
    name = a_model(model, "a model call").describe().model
    if (settings.get("prompt") is None) is not bool(messages):
        raise ConfigurationError("give a prompt, or messages")
    said = tuple(_said(message, f"messages[{at}]") for at, message in enumerate(a_row(messages, "messages")))
    given = _json_object(parameters or {}, "parameters")
    node = nodes.LlmNode(
        id=node_id, model=name, schema=json_schema(schema), messages=said, parameters=given, **settings
    )
    return node, model


def llm_router_node(
    node_id: str,
    model: "ModelDriver",
    /,
    *,
    routes: Mapping[str, str],
    parameters: Mapping[str, object] | None = None,
    **settings: Any,
) -> tuple[nodes.LlmRouterNode, Code]:
    """Return the node in which a model chooses."""
    name = a_model(model, "a model call").describe().model
    if not isinstance(routes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"routes: they are a mapping from labels to nodes, not {type(routes).__name__}")
    if not routes:
        raise ConfigurationError("it has no routes")
    given = _json_object(parameters or {}, "parameters")
    return nodes.LlmRouterNode(id=node_id, model=name, routes=dict(routes), parameters=given, **settings), model


def agent_node(node_id: str, agent: "AnyAgent", /, **settings: Any) -> tuple[nodes.AgentNode, Code]:
    """Return the node of an agent."""
    from steptrail.runtime.agent.given import an_agent, refuse_unread

    refuse_unread(an_agent(agent), settings.get("context"))
    return nodes.AgentNode(id=node_id, agent=agent.name, **settings), agent


def flow_node(node_id: str, flow: object, /, **settings: Any) -> tuple[nodes.FlowNode, Code]:
    """Return the node of another workflow."""
    if not isinstance(flow, BuiltWorkflow):
        raise ConfigurationError(f"{type(flow).__name__} is no built workflow: `.build()` makes one")
    return nodes.FlowNode(id=node_id, flow=flow.name, **settings), flow


def function_node(
    node_id: str, function: NodeFunction, /, *, effect: EffectName = ToolEffect.READ, **settings: Any
) -> tuple[nodes.FunctionNode, Code]:
    """Return the node of a function."""
    if isinstance(spec := getattr(function, "spec", None), ToolSpec):
        raise ConfigurationError(f"{spec.name!r} is a tool: add it with `.tool`")
    takes_context(function)
    name = function_name(function)
    return nodes.FunctionNode(id=node_id, function=name, effect=cast("ToolEffect", effect), **settings), function


def webhook_node(
    node_id: str,
    url: str,
    /,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    effect: EffectName | None = None,
    **settings: Any,
) -> tuple[nodes.WebhookNode, None]:
    """Return the node of an HTTP request. The host may be asked that the URL names, or those of `hosts`."""
    verb = a_text(method, "the method").upper()
    if not re.fullmatch("[A-Z-]+", verb):
        raise ConfigurationError(f"{shown(method)} is no method of HTTP, such as POST")
    declared = (ToolEffect.READ if verb in _READING else ToolEffect.UNSAFE) if effect is None else effect
    node = nodes.WebhookNode(
        id=node_id,
        url=url,
        method=verb,
        headers=a_mapping(headers or {}, "headers"),
        hosts=a_row(hosts, "hosts") or (_host(a_text(url, "the URL")),),
        effect=cast("ToolEffect", declared),
        **settings,
    )
    return node, None


def refuse_unsafe_cache(node: nodes.Node) -> None:
    """Raise `ConfigurationError` for a cache of a node that may not be left out: one that changes the world."""
    match node:
        case nodes.ToolNode():
            effect = node.tool.effect
        case nodes.FunctionNode() | nodes.WebhookNode():
            effect = node.effect
        case _:
            return
    if node.cache is not None and effect not in CACHEABLE:
        raise ConfigurationError(f"what is {effect.value} is not cached, or it would not be done")


def _json_object(given: Mapping[str, object], what: str) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", a_mapping(given, what))  # checked as JSON when the workflow is built


def _said(message: Mapping[str, object], where: str) -> dict[str, JsonValue]:
    given = _json_object(message, "messages")
    if unknown := given.keys() - {"role", "content"}:
        raise ConfigurationError(f"{where}: a message has a role and a content, and no {min(unknown)!r}")
    a_text(given.get("content"), f"{where}.content")
    return given


def _check_arguments(spec: ToolSpec, args: Mapping[str, object]) -> None:
    known = spec.parameters.get("properties")
    is_closed = isinstance(known, dict) and not spec.parameters.get("additionalProperties")
    if is_closed and (unknown := args.keys() - cast("dict[str, JsonValue]", known)):
        raise ConfigurationError(f"the tool {spec.name!r} has no argument {min(unknown)!r}")
    required = spec.parameters.get("required")
    if isinstance(required, list) and (missing := [name for name in required if name not in args]):
        raise ConfigurationError(f"the tool {spec.name!r} needs the argument {missing[0]!r}")


def _policy(rule: ToolRetry) -> RetryPolicy:
    """Return the policy that is nearest to a tool's rule: the same tries, waits that grow by the same first wait."""
    waits = rule.backoff
    base = 0.0 if waits.kind is BackoffKind.NONE else waits.base_seconds
    longest = waits.max_seconds or None
    return RetryPolicy(max_attempts=rule.attempts, backoff=base, max_delay=longest, jitter=waits.jitter)


def json_schema(given: "SchemaGiven | None") -> dict[str, JsonValue] | None:
    """Return a schema as it is recorded; a pydantic model becomes the JSON schema of it."""
    if given is None or isinstance(given, Mapping):
        return None if given is None else cast("dict[str, JsonValue]", dict(given))
    made = getattr(given, "model_json_schema", None)
    if made is None:
        raise ConfigurationError(f"{given!r} is neither a JSON schema nor a pydantic model")
    from steptrail.runtime.agent.stored_types import SteadySchema

    return cast("dict[str, JsonValue]", made(schema_generator=SteadySchema))


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in {"http", "https"} and "{" not in parts.netloc else None
    except ValueError:
        host = None
    if not host:
        raise ConfigurationError("the URL names no host: say in `hosts` which may be asked")
    return host
