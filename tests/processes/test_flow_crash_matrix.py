"""A workflow is killed wherever it writes or does something; another process goes on, and nothing is done twice."""

from pathlib import Path

import pytest

from steptrail.domain.tools import OnUnknown, ToolEffect
from tests.harness.crash_matrix import kill_everywhere
from tests.harness.flow_answering import FlowsAnswered, answer_flows_at_once
from tests.harness.flow_workload import FlowVariant
from tests.harness.worker_pool import WorkerPool

PARKED = FlowVariant("4 branches", ToolEffect.UNSAFE, OnUnknown.PARK)
SOME = ("after-append", "after-node")
CELLS = [
    ("sqlite", PARKED, ("before-append", "before-node", *SOME)),
    *(("sqlite", FlowVariant(shape), SOME) for shape in ("child agent", "map of 3", "open request")),
    ("postgres", PARKED, SOME),
]
"""`make crash-matrix` runs all variants on both stores, and kills each every time that it comes by a point.

Here it is the first, the last, and one in the middle, where what takes effect is under way.
"""


@pytest.mark.parametrize(
    ("store_url", "variant", "points"),
    [pytest.param(*cell, id=f"{cell[0]}, {cell[1]}") for cell in CELLS],
    indirect=["store_url"],
)
def test_a_workflow_that_is_killed_goes_on_in_another_process(
    store_url: str, variant: FlowVariant, points: tuple[str, ...], tmp_path: Path, pool: WorkerPool
) -> None:
    cells = kill_everywhere(pool, store_url, tmp_path, variant, points=points, most=3)
    assert [cell for cell in cells if not cell.finding.is_good] == []
    assert {cell.fault.point for cell in cells} == set(points)


def test_of_people_in_several_processes_who_answer_at_once_one_is_heard(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    answered = answer_flows_at_once(pool, store_url, tmp_path, runs=6)
    assert answered == FlowsAnswered(requests=12, accepted_once=12, completed=6)
