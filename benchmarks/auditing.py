"""What it costs to ask of many recorded runs what other limits, and another error policy, would have changed.

The commits of one real run are stored again under other names. Each question is asked of all of them, in one process.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.listing import store_again
from benchmarks.meter import progress, stopwatch
from benchmarks.places import Site
from benchmarks.work import agent
from steptrail import ErrorPolicy, Steptrail
from steptrail.audit import WhatIf, WhatIfAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfFigures:
    """One question about `runs` runs of `steps` steps: seconds of the processor and by the clock."""

    what: str
    runs: int
    steps: int
    cpu_s: float
    wall_s: float


async def measure_what_if(site: Site, runs: int, steps: int) -> Sequence[WhatIfFigures]:
    """Measure the questions. Raises `RuntimeError` where an answer is not the one that it has to be."""
    progress(f"{site.name}: what-if over {runs:,} runs of {steps} steps")
    place = site.fresh()
    try:
        async with Steptrail.open(place.url, durability="normal") as trail:
            await store_again(trail, runs, agent(steps - 1))
            asked: dict[str, tuple[Callable[[], Awaitable[WhatIf]], WhatIfAnswer]] = {
                "a limit that ends each in its middle": (
                    lambda: trail.what_if(limits={"max_steps": steps // 2}),
                    WhatIfAnswer.STOPS_EARLIER,
                ),
                "a limit that ends none": (lambda: trail.what_if(limits={"max_steps": 2 * steps}), WhatIfAnswer.SAME),
                "another policy and limits on time": (
                    lambda: trail.what_if(limits={"timeout": 1e5}, error_policy=ErrorPolicy.retry_all(3)),
                    WhatIfAnswer.SAME,
                ),
            }
            return [await _asked(what, ask, answer, runs, steps) for what, (ask, answer) in asked.items()]
    finally:
        place.remove()


async def _asked(
    what: str, ask: Callable[[], Awaitable[WhatIf]], answer: WhatIfAnswer, runs: int, steps: int
) -> WhatIfFigures:
    with stopwatch() as watch:
        found = await ask()
    if found.count(answer) != runs:
        msg = f"what-if, {what}: {found.count(answer)} of {runs} runs are {answer}"
        raise RuntimeError(msg)
    return WhatIfFigures(what=what, runs=runs, steps=steps, cpu_s=watch.cost.cpu, wall_s=watch.cost.wall)
