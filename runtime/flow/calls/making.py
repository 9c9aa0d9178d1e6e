"""Makes the calls of nodes that leave the process. A kind that leaves it is one case here."""

from steptrail.domain.flow import nodes
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.task import Task
from steptrail.runtime.flow.calls.function import FunctionCall
from steptrail.runtime.flow.calls.llm import LlmCall
from steptrail.runtime.flow.calls.port import NodeCall
from steptrail.runtime.flow.calls.tool import ToolCall
from steptrail.runtime.flow.calls.webhook import WebhookCall
from steptrail.runtime.flow.means import FlowMeans


def call_of(node: nodes.Node, code: object, seen: Seen, task: Task, means: FlowMeans) -> NodeCall:
    """Return what a try of a node does. Raises `NodeFault` for a node that cannot run as it is written."""
    match node:
        case nodes.FunctionNode():
            return FunctionCall(node, code)
        case nodes.ToolNode():
            return ToolCall(node, code, seen, task.arguments)
        case nodes.LlmNode() | nodes.LlmRouterNode():
            return LlmCall(node, code, seen, means.schemas)
        case nodes.WebhookNode():
            return WebhookCall(node, seen, means.http)
        case nodes.AgentNode():
            from steptrail.runtime.flow.calls.child import AgentCall

            return AgentCall(node, code, seen)
        case nodes.FlowNode():
            from steptrail.runtime.flow.calls.child import FlowCall

            return FlowCall(node, code, seen, means)
        case _:
            raise AssertionError(f"{node.id} is evaluated in place")
