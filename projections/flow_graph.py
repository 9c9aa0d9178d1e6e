"""Draws a workflow, or a run of it from its events: which nodes ran, wait or failed, and which edges were taken."""

from collections import Counter
from collections.abc import Iterable

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.definition import FlowDefinition, read_definition
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import Node
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.flow_drawing import DrawnEdge, DrawnFlow, DrawnNode, NodeMark

DRAWN_TYPES = tuple(
    kind.TYPE
    for kind in (
        *(stored.FlowStarted, stored.FlowForked, stored.FlowRetried),
        *(stored.NodeOpened, stored.NodeCompleted, stored.NodeFailed),
        *(stored.NodeFailureRecorded, stored.NodeSkipped, stored.NodeCancelled, stored.NodeAttemptStarted),
        *(stored.NodeRetryScheduled, stored.NodeAttemptSuspended, stored.NodeAttemptInterrupted),
        *(stored.StepHeld, stored.StepAnswered, stored.HumanRequested, stored.HumanAnswered, stored.HumanExpired),
        *(stored.ApprovalRequested, stored.ApprovalGranted, stored.ApprovalDenied, stored.ApprovalExpired),
    )
)
"""The stored types of the events that change a drawing; the results of nodes are not among them."""


def drawn_flow(definition: FlowDefinition) -> DrawnFlow:
    """Return the drawing of a workflow that nobody has run."""
    return _Pen(a_kind_of(FlowDefinition, definition, "what is drawn")).drawing()


def drawn_run(events: Iterable[stored.FlowEvent]) -> DrawnFlow | None:
    """Return the drawing of the last execution among the events of a stream; None before the first one."""
    pen: _Pen | None = None
    for event in events:
        if isinstance(event, stored.FlowStarted):
            pen = _Pen(read_definition(event.definition))
        elif pen is not None:
            pen.apply(event)
    return pen.drawing() if pen is not None else None


_UNDER_WAY = frozenset({"open", "waiting", "failed", "cancelled"})
"""The marks of nodes whose newest visit has not ended well."""


class _Pen:
    """Counts what becomes of each node and edge. `asked` are the nodes of requests, by their ids.

    `before` is what had become of a node when its newest visit began, which counts in a fork that begins it anew.
    """

    def __init__(self, definition: FlowDefinition) -> None:
        self.definition = definition
        self.marks: dict[str, NodeMark] = {}
        self.counts: dict[str, Counter[str]] = {node.id: Counter() for node in definition.nodes}
        """The counts of each node, by the fields of `DrawnNode`."""
        self.taken = Counter[int]()
        self.asked: dict[str, str] = {}
        self.before: dict[str, tuple[NodeMark, Counter[str]]] = {}

    def apply(self, event: stored.FlowEvent) -> None:
        """Take the next event of the run in."""
        match event:
            case stored.NodeOpened(node=node):
                self.before[node] = self.marks.get(node, "untouched"), Counter(self.counts[node])
                self.marks[node] = "open"
            case stored.NodeAttemptStarted():
                self._mark(event.node, "open", "tries")
            case stored.NodeRetryScheduled():
                self._mark(event.node, "waiting", "waits")
            case (
                stored.NodeAttemptSuspended()
                | stored.StepHeld()
                | stored.NodeAttemptInterrupted(then=stored.NodeThen.PARK)
            ):
                self.marks[event.node] = "waiting"
            case stored.StepAnswered():
                self.marks[event.node] = "open"
            case stored.NodeCompleted():
                self._mark(event.node, "ran", "ran")
                self.counts[event.node]["errors_of_items"] += event.item_errors
                self.taken.update(event.enables)
            case stored.NodeFailureRecorded(item=None):
                self._mark(event.node, "tolerated", "tolerated")
                self.taken.update(event.enables)
            case stored.NodeSkipped():
                self._mark(event.node, "skipped", "skipped")
                self.taken.update(event.enables)
            case stored.NodeFailed():
                self.marks[event.node] = "failed"
            case stored.NodeCancelled():
                if self.marks.get(event.node) != "failed":
                    self.marks[event.node] = "cancelled"
            case stored.FlowForked(status=ExecutionStatus.PAUSED):
                for node in [node for node, mark in self.marks.items() if mark in _UNDER_WAY]:
                    self.marks[node], self.counts[node] = self.before[node]
            case stored.FlowRetried():
                again: dict[str, NodeMark] = {"failed": "open", "cancelled": "open"}
                self.marks = {node: again.get(mark, mark) for node, mark in self.marks.items()}
            case _:
                self._apply_answer(event)

    def _apply_answer(self, event: stored.FlowEvent) -> None:
        match event:
            case (
                stored.HumanRequested(request_id=request, node=node)
                | stored.ApprovalRequested(approval_id=request, node=str(node))
            ):
                self.asked[request] = node
                self.marks[node] = "waiting"
            case (
                stored.HumanAnswered(request_id=request)
                | stored.HumanExpired(request_id=request)
                | stored.ApprovalGranted(approval_id=request)
                | stored.ApprovalDenied(approval_id=request)
                | stored.ApprovalExpired(approval_id=request)
            ) if request in self.asked:
                self.marks[self.asked[request]] = "open"
            case _:
                pass

    def _mark(self, node: str, mark: NodeMark, counted: str) -> None:
        self.marks[node] = mark
        self.counts[node][counted] += 1

    def drawing(self) -> DrawnFlow:
        """Return what was drawn so far."""
        graph = Graph(self.definition)
        kept = [(number, graph.edges[number]) for number in sorted(edge for edges in graph.outgoing for edge in edges)]
        return DrawnFlow(
            name=self.definition.name,
            nodes=tuple(self._node(graph.nodes[number]) for number in graph.order),
            edges=tuple(
                DrawnEdge(
                    source=edge.source, target=edge.target, when=edge.when, loop=edge.loop, taken=self.taken[number]
                )
                for number, edge in kept
            ),
        )

    def _node(self, node: Node) -> DrawnNode:
        kind, mark = str(node.__struct_config__.tag), self.marks.get(node.id, "untouched")
        return DrawnNode(id=node.id, kind=kind, mark=mark, **self.counts[node.id])
