"""The bars of any life say of calls and rests what the state and the rows of the read model say."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given

from steptrail.domain.agent.events import StepCompleted
from steptrail.domain.agent.step import AgentStep, CallStatus
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.agent_waterfall import agent_waterfall
from steptrail.projections.flow_waterfall import flow_waterfall
from steptrail.projections.runs_view.tables import RESTS
from steptrail.projections.runs_view.view import RunsView
from steptrail.projections.waterfall import Waterfall, WaterfallRow
from tests.harness.projecting import entries, projected
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives
from tests.properties.flow_driving import FLOW_ID, FlowLife, worked_lives

OUTCOMES = {
    CallStatus.BLOCKED: "refused",
    CallStatus.CANCELLED: "refused",
    CallStatus.COMPLETED: "completed",
    CallStatus.DENIED: "refused",
    CallStatus.FAILED: "failed",
    CallStatus.INTERRUPTED: "interrupted",
}


@examples(60)
@given(lives())
def test_each_call_of_a_step_has_a_lane_that_ends_as_the_call_did_and_rests_are_those_of_the_rows(life: Life) -> None:
    drawn, states = agent_waterfall(life.committed), life.states()
    ended = [row for row in drawn.rows if isinstance(row, WaterfallRow) and row.outcome != "interrupted"]
    steps = [states[each.version].current_step for each in life.committed if isinstance(each.event, StepCompleted)]
    for row, step in zip(ended, steps, strict=False):
        assert step is not None
        _lanes_are_those_of(row, step)
    _rests_are_those_of_the_rows(drawn, f"agent:{SESSION}", life.committed)


@examples(40)
@given(worked_lives())
def test_rests_of_a_workflow_are_those_of_the_rows(life: FlowLife) -> None:
    _rests_are_those_of_the_rows(flow_waterfall(life.committed), f"flow:{FLOW_ID}", life.committed)


def _lanes_are_those_of(row: WaterfallRow, step: AgentStep) -> None:
    answers = {call.name for call in step.tool_executions if call.is_answer}
    lanes = [lane for lane in row.lanes if lane.kind == "tool" and lane.name not in answers]
    assert all(bar.ended is not None for lane in lanes for bar in lane.bars)
    assert Counter((lane.name, lane.bars[-1].outcome) for lane in lanes) == Counter(
        (call.name, OUTCOMES[call.status]) for call in step.tool_executions if not call.is_answer
    )


def _rests_are_those_of_the_rows(drawn: Waterfall, stream: str, records: Sequence[Recorded[Any]]) -> None:
    kinds = {"crashed": "crash", "for a worker": "pause or worker", "paused": "pause or worker", "taken over": "crash"}
    told = Counter[object]((kinds.get(rest.kind, rest.kind), rest.began, rest.ended) for rest in drawn.rests())
    rows = projected(RunsView(), entries(stream, records)).of(RESTS)
    expected = Counter[object](
        ("pause or worker" if row["kind"] in {"pause", "worker"} else row["kind"], row["started_at"], row["ended_at"])
        for row in rows
        # Guards end a run in its wait a little before the run ends.
        if row["ending"] != "stop"
    )
    assert not expected - told
    assert told.total() == len(rows)
