"""A run that died at any fault point and went on is replayed to the same events: the log is all that a replay needs."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.runtime.kernel.faults import no_faults
from steptrail.testing import Recording, normalise, replay
from tests.harness.crash_workload import VARIANTS, Variant, Workload, perform
from tests.runner.kit import Crash, crash_at

_MOST = 2
"""Deaths at one point. A class of effects meets one with its calls in turn, the other with them side by side."""
_OF_CALLS = {"before-append", "after-append", "before-tool", "after-tool"}
CELLS = [
    (variant, point)
    for number, variant in enumerate(VARIANTS)
    for place, point in enumerate(variant.points)
    if point in _OF_CALLS or (number + place) % 3 == 0
]
"""What a death at another point leaves in the log is the same for most classes: there every third one dies."""


async def die_and_replay(workload: Workload, point: str, number: int) -> None:
    """Let a run die at the point and go on, and replay it."""
    with pytest.raises(Crash):
        await perform(workload, crash_at(point, number))
    ending = await perform(workload, no_faults)
    async with Steptrail.open(workload.url) as trail:
        recording = Recording(workload.session, await trail.session(workload.session).history())
    again = await replay(workload.agent(), recording)
    assert normalise(again.events) == normalise(recording.events), (point, number)
    assert (again.result.status, again.result.output) == (ending.status, ending.output)


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Variant], Counter[str]]:
    """Return a function that tells how often a run that nobody kills comes by each point."""

    @cache
    def count(variant: Variant) -> Counter[str]:
        folder, seen = tmp_path_factory.mktemp("whole"), list[str]()
        asyncio.run(perform(Workload.new(f"sqlite:///{folder / 'runs.db'}", folder, variant), seen.append))
        return Counter(seen)

    return count


@pytest.mark.parametrize(("variant", "point"), CELLS, ids=str)
def test_given_a_death_at_a_fault_point_then_a_replay_comes_to_the_same(
    variant: Variant, point: str, reached: Callable[[Variant], Counter[str]], tmp_path: Path
) -> None:
    times = min(reached(variant)[point], _MOST)
    assert times > 0
    number = 1 + (VARIANTS.index(variant) + variant.concurrent) % times
    workload = Workload.new(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path, variant)
    asyncio.run(die_and_replay(workload, point, number))
