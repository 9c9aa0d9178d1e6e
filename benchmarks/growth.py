"""Whether step 10,000 costs what step 10 cost: two windows of one long run, compared by their means.

Means, so that what happens now and then (a checkpoint of the log, a round of the garbage collector) counts with its
share. Step 10 is where a run has settled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchmarks.meter import Cost

SETTLED = 10
"""The first step of the early window."""

SHORTEST = SETTLED + 1
"""The fewest steps in which two windows find room."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The mean of the early window, the mean of the late one, and how many steps each holds."""

    early: float
    late: float
    width: int

    @property
    def ratio(self) -> float:
        """How many times the early one the late one is."""
        return self.late / self.early


def step_costs(moments: Sequence[Cost]) -> list[Cost]:
    """Return the cost of each step from the readings of both clocks at every model call."""
    return [after - before for before, after in pairwise(moments)]


def growth(by_step: Sequence[float]) -> Growth:
    """Compare the steps from step 10 on with the last ones, a tenth of the run each.

    `by_step` begins with step 1. Raises `ValueError` for a run that is too short for two windows.
    """
    width = max(1, len(by_step) // 10)
    if len(by_step) < SHORTEST:
        msg = f"{len(by_step)} steps are too few to compare early ones with late ones"
        raise ValueError(msg)
    early = by_step[SETTLED - 1 : SETTLED - 1 + width]
    return Growth(fmean(early), fmean(by_step[-width:]), width)
