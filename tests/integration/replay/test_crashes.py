"""A run that died at any fault point and went on is replayed to the same events: the log is all that a replay needs."""

import asyncio
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.runtime.faults import FAULT_POINTS, no_faults
from steptrail.testing import Recording, normalise, replay
from steptrail.testing.errand import VARIANTS, Errand, Variant, perform
from tests.runner.kit import Crash, crash_at

_MOST = 4
"""Deaths at one point."""


async def died_and_replayed(errand: Errand, point: str, number: int) -> bool:
    """Let a run die at the point and go on, and replay it; tell whether it came by there so often."""
    try:
        await perform(errand, crash_at(point, number))
        return False
    except Crash:
        ending = await perform(errand, no_faults)
    async with Steptrail.open(errand.url) as trail:
        recording = Recording(errand.session, await trail.session(errand.session).history())
    again = await replay(errand.agent(), recording)
    assert normalise(again.events) == normalise(recording.events), (point, number)
    assert (again.result.status, again.result.output) == (ending.status, ending.output)
    return True


@pytest.mark.parametrize("point", FAULT_POINTS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_given_a_death_at_a_fault_point_then_a_replay_comes_to_the_same(
    point: str, variant: Variant, tmp_path: Path
) -> None:
    async def every_time() -> int:
        died = 0
        while died < _MOST:
            errand = Errand.new(f"sqlite:///{tmp_path / f'{died}.db'}", tmp_path, variant)
            if not await died_and_replayed(errand, point, died + 1):
                return died
            died += 1
        return died

    assert asyncio.run(every_time()) > 0
