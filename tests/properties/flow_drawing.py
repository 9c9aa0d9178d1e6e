"""Workflows of nodes that do something, drawn at random, and the ends that their tries may come to."""

from hypothesis import strategies as st

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.definition import Edge, EdgeWhen, FlowDefinition
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptSuspended,
)
from steptrail.domain.flow.failing import stream_kind, working_node
from steptrail.domain.flow.files import form_of
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import (
    FlowNode,
    FunctionNode,
    GateNode,
    HumanNode,
    Join,
    LlmRouterNode,
    MapNode,
    MergeNode,
    Node,
    NoopNode,
    OnFail,
    ToolNode,
    WorkingNode,
)
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import Budget, Cache, FailureClass, OnError, OnUnknownOutcome, RetryPolicy
from steptrail.domain.flow.route import Route
from steptrail.domain.flow.task import Task, of_try
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolSpec
from steptrail.domain.usage import BilledUsage
from steptrail.testing.scenario import SECOND
from tests.properties.bills import billed
from tests.properties.drawing import SHOT, rarely
from tests.properties.flow_graphs import routed_flows

ITEMS = "items"
"""The variable that maps go over."""

_effects = st.sampled_from(ToolEffect)
_seconds = rarely(st.sampled_from([0.5, 30.0]))
_failures = st.sampled_from(
    [FailureClass.TOOL, FailureClass.ERROR, FailureClass.RATE_LIMIT, FailureClass.UNAVAILABLE, FailureClass.VALIDATION]
)
_tokens = rarely(st.builds(Budget, max_total_tokens=st.integers(1, 40)))
_tolerance = {
    "on_error": st.sampled_from([None, None, OnError.CONTINUE, OnError.FAIL]),
    "continue_on": st.sampled_from([(), (), (FailureClass.TOOL, FailureClass.UNKNOWN_OUTCOME)]),
    "critical": st.booleans(),
    "output": st.sampled_from([None, "out"]),
}
_of_work = {
    **_tolerance,
    "retry": st.builds(
        RetryPolicy,
        max_attempts=st.sampled_from([3, 3, 2, 1]),
        backoff=st.sampled_from([0.0, 1.0, 100.0]),
        count_interrupted=st.booleans(),
        retry_on=st.sampled_from([None, None, (FailureClass.TOOL, FailureClass.TIMEOUT)]),
    ),
    "timeout": _seconds,
    "budget": _tokens,
    "on_unknown": st.none() | st.sampled_from(OnUnknownOutcome),
}
_cached = {**_of_work, "cache": rarely(st.builds(Cache, key=st.just((ITEMS,)), ttl=st.sampled_from([None, 1.0])))}


def _tools(approval: st.SearchStrategy[ApprovalRule | None]) -> st.SearchStrategy[ToolSpec]:
    return st.builds(
        ToolSpec,
        name=st.just("act"),
        effect=_effects,
        on_unknown=st.sampled_from([OnUnknown.TELL, OnUnknown.FAIL]),
        approval=approval,
        runs_children=rarely(st.just("agent")),
    )


_rules = st.builds(ApprovalRule, expires=st.sampled_from([5.0, 3600.0]))


def _working(name: str) -> st.SearchStrategy[WorkingNode]:
    at = st.just(name)
    return st.one_of(
        st.builds(FunctionNode, id=at, function=st.just("f"), effect=_effects, **_cached),
        st.builds(ToolNode, id=at, tool=_tools(st.none() | _rules), **_of_work),
        st.builds(FlowNode, id=at, flow=st.just("below"), **_of_work),
    )


def _people(name: str) -> st.SearchStrategy[HumanNode]:
    expires = st.sampled_from([None, 5.0, 3600.0])
    plain = st.builds(HumanNode, id=st.just(name), expires=expires, **_tolerance)
    late = [
        st.builds(
            HumanNode,
            id=st.just(name),
            type=st.just("choice"),
            options=st.just(("yes", "no")),
            expires=st.just(5.0),
            on_timeout=st.just(on_timeout),
            default=st.just(default),
            on_reject=st.sampled_from(["continue", "fail"]),
        )
        for on_timeout, default in (("default", "no"), ("skip", None))
    ]
    return st.one_of(plain, *late)


def _node(name: str, targets: list[str]) -> st.SearchStrategy[Node]:
    """Draw a node that leads to these targets."""
    at, join = st.just(name), st.sampled_from([Join.ALL, Join.ALL, Join.ANY, Join.EACH])
    kinds: list[st.SearchStrategy[Node]] = [
        _working(name),
        _working(name),
        st.builds(
            MapNode,
            id=at,
            over=st.sampled_from([ITEMS, ITEMS, ITEMS, "missing"]),
            node=_working(name),
            concurrency=st.integers(1, 3),
            on_item_error=st.sampled_from(["fail", "record"]),
            **_of_work,
        ),
        _people(name),
        st.builds(NoopNode, id=at, join=join, output=st.none()),
        st.builds(MergeNode, id=at, strategy=st.sampled_from(["json", "all"]), output=st.just("out")),
        st.builds(GateNode, id=at, on_fail=st.sampled_from([OnFail.BLOCK, OnFail.SKIP]), critical=st.booleans()),
    ]
    if targets:
        routes = st.just({target: target for target in targets})
        kinds.append(st.builds(LlmRouterNode, id=at, routes=routes, **_cached))
    return st.one_of(kinds)


@st.composite
def worked_flows(draw: st.DrawFn) -> FlowDefinition:
    """Draw a workflow of a few nodes of most kinds, with loops, and edges that are taken after failures."""
    shape = draw(routed_flows(most_nodes=6, most_loops=2)).flow
    ends = st.sampled_from([EdgeWhen.DONE, EdgeWhen.DONE, EdgeWhen.SUCCESS, EdgeWhen.ERROR])
    edges = tuple(Edge(source=edge.source, target=edge.target, loop=edge.loop, when=draw(ends)) for edge in shape.edges)
    # A route along an edge that is only taken after a failure is refused when a workflow is built.
    ahead = [edge for edge in edges if not edge.loop and edge.when is not EdgeWhen.ERROR]
    nodes = [
        draw(_node(node.id, sorted({edge.target for edge in ahead if edge.source == node.id}))) for node in shape.nodes
    ]
    return FlowDefinition(name="drawn", nodes=tuple(nodes), edges=edges)


def options(flow: FlowDefinition) -> st.SearchStrategy[RunOptions]:
    """Draw settings for a run of a workflow."""
    some = st.lists(st.sampled_from([node.id for node in flow.nodes]), max_size=2, unique=True).map(tuple)
    held = st.sampled_from([(), (), ("*",)]) | some
    return st.builds(
        RunOptions,
        continue_on_error=st.sampled_from([False, True, (FailureClass.TOOL,)]),
        concurrency=st.integers(1, 4),
        max_visits=st.sampled_from([5, 5, 2, 1]),
        timeout=rarely(st.sampled_from([10.0, 1000.0])),
        cumulative_timeout=rarely(st.sampled_from([10.0, 300.0])),
        budget=_tokens,
        stop_grace=st.sampled_from([0.0, 2.0]),
        longest_wait=st.sampled_from([0.0, 60.0]),
        max_unproductive_segments=st.sampled_from([None, 1, 3]),
        pause_before=rarely(held).map(lambda chosen: chosen or ()),
        pause_after=rarely(held).map(lambda chosen: chosen or ()),
        step_timeout=rarely(st.just(5.0)),
    )


def effect_of(node: Node) -> ToolEffect:
    """Return what a try of a node does to the outside world."""
    match node:
        case ToolNode():
            return node.tool.effect
        case FunctionNode():
            return node.effect
        case FlowNode():
            return ToolEffect.KEYED
        case _:
            return ToolEffect.READ


def tried(graph: Graph, task: Task, now: int) -> st.SearchStrategy[FlowEvent | CutReason]:
    """Return how a try may end by itself; a `CutReason` when it is cut off because its own time is up."""
    outer = graph.node(task.node)
    node, of = working_node(outer, task.item), of_try(task.key, task.attempt)
    route = None
    if isinstance(outer, LlmRouterNode):
        route = Route(targets=tuple(list(outer.routes.values())[:1]), reason="drawn")
    usage: st.SearchStrategy[BilledUsage | None] = st.none() | billed
    took = st.sampled_from([0.0, 0.5, 20.0])
    ended: list[st.SearchStrategy[FlowEvent | CutReason]] = [
        usage.flatmap(
            lambda bill: took.map(
                lambda seconds: NodeAttemptCompleted(
                    **of,
                    output=[1] if seconds else [form_of(SHOT)],
                    files=() if seconds else (SHOT,),
                    route=route,
                    usage=bill,
                    duration_seconds=seconds,
                )
            )
        )
    ] * 2
    ended += [
        st.tuples(_failures, usage, took, st.sampled_from([None, 0.0, 2.0])).map(
            lambda drawn: NodeAttemptFailed(
                **of,
                failure=drawn[0],
                error=ErrorInfo(type=ErrorType.TOOL, error_class="x:Y", message="no", retry_after=drawn[3]),
                may_retry=node.retry.covers(drawn[0], is_retryable=True),
                usage=drawn[1],
                duration_seconds=drawn[2],
            )
        )
    ] * 2
    if task.effect is ToolEffect.UNSAFE and (node.timeout or outer.timeout):
        ended.append(st.just(CutReason.TIMEOUT))
    if stream_kind(node) is not None:
        until = st.sampled_from([None, now, now + SECOND, now + 3600 * SECOND])
        ended += [
            until.map(
                lambda at: NodeAttemptSuspended(
                    **of, stream="flow:below", reason="waiting", until=at, duration_seconds=0.0
                )
            )
        ] * 2
    return st.one_of(ended)
