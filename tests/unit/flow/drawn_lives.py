"""Runs of workflows drawn at random, as records: each visit writes something, some fail, people answer."""

from random import Random

from hypothesis import strategies as st

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.definition import FlowDefinition, definition_text
from steptrail.domain.flow.envelope import Artifact, NodeError
from steptrail.domain.flow.events import (
    ExecutionFinished,
    FlowEvent,
    FlowStarted,
    HumanAnswered,
    HumanRequested,
    NodeCompleted,
    NodeEvaluated,
    NodeFailureRecorded,
    NodeOpened,
    SessionStarted,
    StepAnswered,
    StepHeld,
)
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from tests.properties.flow_graphs import Routed, routed_flows

FLOW_ID = "f"
_SHARED = ("a", "b", "c")
"""Variables that all visits write and remove."""


class _Life:
    def __init__(self, drawn: Routed, concurrency: int, many: int, *, is_plain: bool = False) -> None:
        self.is_plain = is_plain
        self.graph, self.drawn, self.concurrency = Graph(drawn.flow), drawn, concurrency
        self.random = Random(drawn.seed)  # noqa: S311 - the same run each time
        self.records: list[Recorded[FlowEvent]] = []
        self.state: FlowState = initial(FLOW_ID)
        self.add(SessionStarted(name="drawn", metadata={"team": "a"}))
        text = definition_text(drawn.flow)
        given: dict[str, JsonValue] = {f"given{number}": [number] for number in range(many)}
        self.add(
            FlowStarted(
                execution_id="f:1", ordinal=1, segment=1, worker="w", library="0", flow="drawn", definition=text,
                digest=digest_of(text), options=RunOptions(), input={"n": 1}, messages=(Message.user("go"),), by="ana",
                vars={**given, "a": 0}, key="k",
            )
        )  # fmt: skip

    def add(self, *events: FlowEvent) -> None:
        for event in events:
            at = 10**15 + self.state.version * 1000
            self.records.append(Recorded(self.state.version + 1, at, event))
            self.state = evolve_all(self.state, self.records[-1:])

    def live(self) -> None:
        while True:
            run = self.state.run
            assert run is not None
            for opening in run.marking.ready(self.graph):
                if len(self.state.open_visits) == self.concurrency:
                    break
                node = self.graph.nodes[opening.node].id
                visit = run.visits_of.get(node, 0) + 1
                self.add(NodeOpened(node=node, visit=visit, number=run.visits + 1, inputs=opening.inputs))
                run = self.state.run
                assert run is not None
            if not self.state.open_visits:
                break
            self.end(self.random.choice(list(run.tasks))[0])
        self.add(
            ExecutionFinished(
                status=ExecutionStatus.COMPLETED, stop_reason=StopReason.COMPLETED, resolved_by="WorkDone"
            )
        )

    def end(self, node: str) -> None:
        if self.is_plain:
            enables = self.graph.outgoing[self.graph.numbers[node]]
            self.add(NodeEvaluated(node=node, visit=1, sets={node: f"value of {node}"}))
            self.add(NodeCompleted(node=node, visit=1, enables=enables))
            return
        visit, random = next(each.visit for each in self.state.open_visits if each.node == node), self.random
        chosen = self.drawn.route(node, visit)
        outgoing = self.graph.outgoing[self.graph.numbers[node]]
        enables = tuple(edge for edge in outgoing if self.graph.nodes[self.graph.targets[edge]].id in chosen)
        name = f"{node}-{visit}"
        if random.random() < 0.15:
            error = NodeError(
                node_id=node, kind="tool", message=name, attempt=1, visit=visit, failure=FailureClass.TOOL, tier="node",
                at=5,
            )  # fmt: skip
            self.add(
                NodeFailureRecorded(node=node, visit=visit, error=error, rule="x", output_key=node, enables=enables)
            )
            return
        if random.random() < 0.2:
            self.add(StepHeld(node=node, visit=visit, point="before"))
            sets: dict[str, JsonValue] = {random.choice(_SHARED): f"held {name}"}
            self.add(StepAnswered(node=node, visit=visit, point="before", action="continue", sets=sets, by="ana"))
        if random.random() < 0.2:
            asked = f"f:1:{node}:{visit}"
            self.add(
                HumanRequested(
                    request_id=asked, node=node, visit=visit, type="approval", prompt="?", digest="0", on_timeout="fail"
                )
            )
            self.add(HumanAnswered(request_id=asked, by="ana", approved=True, key=name))
        run = self.state.run
        assert run is not None
        inputs = run.open[node].inputs
        self.add(
            NodeEvaluated(
                node=node,
                visit=visit,
                output={"of": [name]},
                sets={key: name for key in _SHARED if random.random() < 0.3},
                unsets=tuple(key for key in _SHARED if random.random() < 0.3),
                messages=(Message.user(name),) if random.random() < 0.5 else (),
                artifacts=(Artifact(id=name),) if random.random() < 0.3 else (),
                kept=inputs[0][1] if len(inputs) > 1 and random.random() < 0.3 else None,
            )
        )
        self.add(NodeCompleted(node=node, visit=visit, enables=enables))


@st.composite
def flow_lives(draw: st.DrawFn) -> list[Recorded[FlowEvent]]:
    """Draw the records of a run of a workflow, from its first to its last event."""
    life = _Life(draw(routed_flows()), draw(st.integers(1, 5)), draw(st.sampled_from([0, 3, 40])))
    life.live()
    return life.records


def life_of(flow: FlowDefinition) -> list[Recorded[FlowEvent]]:
    """Return the records of a run of a workflow in which each node writes a value of its own, and no more."""
    life = _Life(Routed(flow, 0), concurrency=8, many=0, is_plain=True)
    life.live()
    return life.records
