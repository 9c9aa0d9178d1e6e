"""The table of what nodes do outside. A kind that leaves the process is one line in it."""

from collections.abc import Callable
from typing import Any

from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.nodes import (
    AgentNode,
    FlowNode,
    FunctionNode,
    LlmNode,
    LlmRouterNode,
    Node,
    ToolNode,
    WebhookNode,
)
from steptrail.domain.flow.task import Task
from steptrail.runtime.flow.calls.function import FunctionCall
from steptrail.runtime.flow.calls.llm import LlmCall
from steptrail.runtime.flow.calls.port import NodeCall
from steptrail.runtime.flow.calls.tool import ToolCall
from steptrail.runtime.flow.calls.webhook import WebhookCall
from steptrail.runtime.flow.means import FlowMeans


def _function(node: FunctionNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    return FunctionCall(node, code)


def _tool(node: ToolNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    return ToolCall(node, code, seen, task.arguments)


def _llm(node: LlmNode | LlmRouterNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    return LlmCall(node, code, seen, means.schemas)


def _agent(node: AgentNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    from steptrail.runtime.flow.calls.child import AgentCall

    return AgentCall(node, code, seen)


def _flow(node: FlowNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    from steptrail.runtime.flow.calls.child import FlowCall

    return FlowCall(node, code, seen, means)


def _webhook(node: WebhookNode, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    return WebhookCall(node, seen, means.http)


_CALLS: dict[type[Node], Callable[[Any, object, Seen, Task, FlowMeans], NodeCall]] = {
    AgentNode: _agent,
    FlowNode: _flow,
    FunctionNode: _function,
    ToolNode: _tool,
    LlmNode: _llm,
    LlmRouterNode: _llm,
    WebhookNode: _webhook,
}


def call_of(node: Node, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    """Return what a try of a node does. Raises `NodeFault` for a node that cannot run as it is written."""
    return _CALLS[type(node)](node, code, seen, task, means)
