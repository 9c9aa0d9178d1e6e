"""A process is killed at every named point of the runner; another one goes on, and nothing is lost or done twice."""

import asyncio
from collections import Counter
from typing import NamedTuple

import pytest

from steptrail.domain.agent.state import AgentState
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.trail import Steptrail
from steptrail.runtime.control import Environment
from steptrail.runtime.faults import FAULT_POINTS
from steptrail.testing.crash import Fault, PointCounter, repeated
from tests.processes.agents.agents import errands
from tests.processes.agents.site import SESSION, Site
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
CUTS_ON_A_SERVER = [str(Fault(point, ordinals[-1])) for point, ordinals in ORDINALS.items()]
"""Each point once: what differs there is the store, and its part in a crash is the same at every ordinal."""


WHILE_PAYING = {"before-tool:3", "after-tool:3"}
"""Where the process dies inside the unsafe tool, before or after its effect: the model is told that nobody knows."""


class Undisturbed(NamedTuple):
    """A run that nobody kills: how often it comes by each point, and what it leaves behind."""

    reached: Counter[str]
    state: AgentState


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    counter = PointCounter()
    site = Site(tmp_path_factory.mktemp("undisturbed"))

    async def run() -> AgentState:
        async with Steptrail(Environment(store=open_store(site.url), reach=counter)) as trail:
            return (await trail.run(errands(site, {}), "Run the errands.", session=SESSION)).state

    return Undisturbed(counter.reached, asyncio.run(run()))


def test_the_matrix_has_every_point_and_the_run_comes_by_every_cut(undisturbed: Undisturbed) -> None:
    assert set(ORDINALS) == set(FAULT_POINTS)
    far = {point: max(ordinals) for point, ordinals in ORDINALS.items()}
    assert {point: ordinal for point, ordinal in far.items() if ordinal > undisturbed.reached[point]} == {}


@pytest.mark.parametrize(
    ("stage", "cut"),
    [*(("sqlite", cut) for cut in CUTS), *(("postgresql", cut) for cut in CUTS_ON_A_SERVER)],
    indirect=["stage"],
)
def test_a_run_killed_at_a_point_goes_on_in_another_process(stage: Stage, cut: str, undisturbed: Undisturbed) -> None:
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
    state = stage.session(lambda session: session.state())
    assert dict(state.metadata) == dict(undisturbed.state.metadata)
    assert cut in WHILE_PAYING or list(state.messages) == list(undisturbed.state.messages)
    assert [record.version for record in after] == list(range(1, len(after) + 1))
