"""A process is killed at every named point of the runner; another one goes on, and nothing is lost or done twice."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.trail import Steptrail
from steptrail.runtime.control import Environment
from steptrail.runtime.faults import FAULT_POINTS
from steptrail.testing.crash import Fault, PointCounter, repeated
from tests.processes.agents.agents import errands
from tests.processes.agents.site import Site
from tests.processes.stage import COMPLETED, Stage

SIGKILLED = -9
ORDINALS = {
    "before-append": (1, 3, 6),
    "after-append": (1, 2, 5, 7),
    "before-inference": (1, 3),
    "after-inference": (1, 2),
    "before-tool": (1, 2, 3, 4),
    "after-tool": (1, 2, 3),
    "before-hooks": (1, 7),
    "after-hooks": (2, 9),
}
CUTS = [str(Fault(point, ordinal)) for point, ordinals in ORDINALS.items() for ordinal in ordinals]


def reached_undisturbed(folder: Path) -> Counter[str]:
    """Return how often a run that nobody kills comes by each point."""
    counter = PointCounter()
    site = Site(folder)

    async def run() -> None:
        async with Steptrail(Environment(store=open_store(site.url), reach=counter)) as trail:
            await trail.run(errands(site, {}), "Run the errands.")

    asyncio.run(run())
    return counter.reached


def test_the_matrix_has_every_point_and_the_run_comes_by_every_cut(tmp_path: Path) -> None:
    reached = reached_undisturbed(tmp_path)
    assert set(ORDINALS) == set(FAULT_POINTS)
    assert {point: max(ordinals) for point, ordinals in ORDINALS.items() if max(ordinals) > reached[point]} == {}


@pytest.mark.parametrize("cut", CUTS)
def test_a_run_killed_at_a_point_goes_on_in_another_process(stage: Stage, cut: str) -> None:
    killed = stage.perform("run", "errands", fault=cut)
    assert killed.code == SIGKILLED
    before = stage.records()

    # The same command again: it resumes what is there, and starts where nothing is.
    resumed = stage.perform("run", "errands")

    assert resumed.result == COMPLETED
    after = stage.records()
    assert after[: len(before)] == before
    assert repeated(stage.ledger.entries(), after) == []
    done = stage.ledger.counts()
    # An unsafe tool is never repeated: where its process died just before it, it has not run at all.
    assert done["pay"] == (0 if cut == "before-tool:3" else 1)
    assert [record.version for record in after] == list(range(1, len(after) + 1))
