"""Workflows: graphs of nodes whose runs are recorded, with one owner of what happens after a failure."""

from steptrail.domain.flow.definition import Edge, EdgeWhen, FlowDefinition
from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.flow.envelope import Artifact, Envelope, NodeError
from steptrail.domain.flow.nodes import (
    AgentNode,
    CaseSpec,
    CheckSpec,
    Condition,
    ConditionalNode,
    Expression,
    FilterNode,
    FlowNode,
    FunctionNode,
    GateNode,
    GuardianNode,
    HumanNode,
    Join,
    LlmNode,
    LlmRouterNode,
    MapNode,
    MergeNode,
    NoopNode,
    OnFail,
    RuleRouterNode,
    RuleSpec,
    ToolNode,
    TransformNode,
    WebhookNode,
)
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import Budget, Cache, FailureClass, OnError, OnUnknownOutcome, RetryPolicy
from steptrail.infrastructure.flow.building import Workflow
from steptrail.infrastructure.flow.loading import check_flow, flow_schema, load_flow
from steptrail.infrastructure.flow.writing import flow_text
from steptrail.infrastructure.tools.flows import FlowTool
from steptrail.projections.flow_drawing import DrawnEdge, DrawnFlow, DrawnNode
from steptrail.projections.flow_graph import drawn_flow
from steptrail.projections.lifecycle.flow_fold import flow_lifecycle_events
from steptrail.runtime.flow.functions import NodeContext, Update
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.flow.written import Case, Check, Rule

__all__ = [
    "AgentNode",
    "Artifact",
    "Budget",
    "BuiltWorkflow",
    "Cache",
    "Case",
    "CaseSpec",
    "Check",
    "CheckSpec",
    "Condition",
    "ConditionalNode",
    "Diagnostic",
    "DrawnEdge",
    "DrawnFlow",
    "DrawnNode",
    "Edge",
    "EdgeWhen",
    "Envelope",
    "Expression",
    "FailureClass",
    "FilterNode",
    "FlowDefinition",
    "FlowNode",
    "FlowResult",
    "FlowTool",
    "FunctionNode",
    "GateNode",
    "GuardianNode",
    "HumanNode",
    "Join",
    "LlmNode",
    "LlmRouterNode",
    "MapNode",
    "MergeNode",
    "NodeContext",
    "NodeError",
    "NoopNode",
    "OnError",
    "OnFail",
    "OnUnknownOutcome",
    "RetryPolicy",
    "Rule",
    "RuleRouterNode",
    "RuleSpec",
    "RunOptions",
    "ToolNode",
    "TransformNode",
    "Update",
    "WebhookNode",
    "Workflow",
    "check_flow",
    "drawn_flow",
    "flow_lifecycle_events",
    "flow_schema",
    "flow_text",
    "load_flow",
]
