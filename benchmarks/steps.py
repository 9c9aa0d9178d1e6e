"""What one durable step costs, in time and in bytes, at several lengths of a run, and whether it grows.

A pass runs the work in a new store, then the floor writes the rows of that run, then the session is folded between two
readings of its rows. The floor of the pass before counts as well, so a run stands between two floors; the first pass of
all only makes that floor. Short runs are repeated within a pass until enough steps have gone by to be measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Self

from benchmarks.content import content_bytes
from benchmarks.growth import SHORTEST, growth, step_costs
from benchmarks.meter import Compared, Cost, Pair, between, compared, now, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.rows import bytes_by_step
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail
from steptrail.domain.agent.events import EvaluationsRecorded
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.journal import fold_stream

_EVENT_BY_EVENT = AGENT._replace(snapshots=None)
_POINTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """Figures for runs of `steps` steps. Bytes and votes are for one step, `folding` is for one event."""

    steps: int
    time: Compared
    folding: Compared
    file_bytes: float
    content_bytes: float
    state_bytes: float
    events: float
    commits: float
    votes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFigures:
    """The late steps of the longest run as multiples of its early ones, and the run in a few points for the plot."""

    steps: int
    wall_ratio: float
    cpu_ratio: float
    bytes_ratio: float
    points: Sequence[int]
    wall_ms: Sequence[float]
    cpu_ms: Sequence[float]
    bytes: Sequence[float]


async def measure_steps(
    site: Site, sizes: Sequence[int], least: int, passes: int
) -> tuple[list[StepFigures], GrowthFigures | None]:
    """Measure runs of each of `sizes` steps, as many in a pass as make `least` steps.

    Growth is that of the longest, None when even that is too short.
    """
    await _warm_up(site)
    figures: list[StepFigures] = []
    grown: GrowthFigures | None = None
    for steps in sorted(sizes):
        progress(f"{site.name}: runs of {steps:,} steps")
        length = await _Length.measured(site, steps, max(1, -(-least // steps)), passes)
        figures.append(length.figures())
        grown = length.growth() if steps >= SHORTEST else None
    return figures, grown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """What a run left behind, counted; every pass leaves the same."""

    file: int
    content: int
    state: int
    events: int
    commits: int
    votes: int
    by_step: Sequence[int]


class _Length:
    """The passes over runs of one length."""

    def __init__(self, steps: int, runs: int) -> None:
        self._steps, self._runs = steps, runs
        self._times: list[Pair] = []
        self._folds: list[Pair] = []
        self._floor: Cost | None = None
        self._by_step: list[list[Cost]] = []
        self._sizes: list[_Sizes] = []

    @classmethod
    async def measured(cls, site: Site, steps: int, runs: int, passes: int) -> Self:
        length = cls(steps, runs)
        for _ in range(passes + 1):
            place = site.fresh()
            try:
                await length._run(place)
                # By now nothing of the run is left in memory, where the garbage collector would walk through it.
                length._folds.append(await _folded(place))
            finally:
                place.remove()
        return length

    async def _run(self, place: Place) -> None:
        moments: list[Cost] = []
        who = agent(self._steps, at_call=lambda _: moments.append(now()))
        async with Steptrail.open(place.url) as trail:
            with stopwatch() as watch:
                results = [await run(trail, who, session_name(number)) for number in range(self._runs)]
            events = await trail.session(session_name(0)).events()
        rows = place.rows()
        state = rows.columns.index("state")
        self._sizes.append(
            _Sizes(
                file=place.size(),
                content=sum(content_bytes(result.state.messages) for result in results),
                state=sum(_length(row[state]) for commit in rows.commits for row in commit),
                events=sum(map(len, rows.commits)),
                commits=len(rows.commits),
                votes=max(len(each.event.votes) for each in events if isinstance(each.event, EvaluationsRecorded)),
                by_step=bytes_by_step(rows)[: self._steps],
            )
        )
        del results, events
        before, self._floor = self._floor, place.write_floor(rows)
        if before is not None:
            self._times.append(Pair(watch.cost, between(before, self._floor)))
            self._by_step.append(step_costs(moments[: self._steps + 1]))

    def figures(self) -> StepFigures:
        steps, sizes = self._steps * self._runs, self._sizes[-1]
        return StepFigures(
            steps=self._steps,
            time=compared(self._times, steps),
            folding=compared(self._folds, sizes.events // self._runs),
            file_bytes=sizes.file / steps,
            content_bytes=sizes.content / steps,
            state_bytes=sizes.state / steps,
            events=sizes.events / steps,
            commits=sizes.commits / steps,
            votes=sizes.votes,
        )

    def growth(self) -> GrowthFigures:
        sizes = self._sizes[-1].by_step
        walls = [[cost.wall * 1000 for cost in costs] for costs in self._by_step]
        cpus = [[cost.cpu * 1000 for cost in costs] for costs in self._by_step]
        return GrowthFigures(
            steps=self._steps,
            wall_ratio=median(growth(costs).ratio for costs in walls),
            cpu_ratio=median(growth(costs).ratio for costs in cpus),
            bytes_ratio=growth(sizes).ratio,
            points=[bucket.start + 1 for bucket in _buckets(self._steps)],
            wall_ms=_course(walls),
            cpu_ms=_course(cpus),
            bytes=_course([sizes]),
        )


async def _warm_up(site: Site) -> None:
    """Run once what the first run of a process makes for all of them."""
    place = site.fresh()
    async with Steptrail.open(place.url) as trail:
        await run(trail, agent(2), session_name(0))
    place.remove()


async def _folded(place: Place) -> Pair:
    stream = stream_of(checked_session_id(session_name(0)))
    before = place.read_floor(stream)
    store = open_store(place.url)
    try:
        await store.version(stream)  # connects, which the floor has done before its clock starts
        with stopwatch() as watch:
            state, head = await fold_stream(_EVENT_BY_EVENT, store, stream)
        if state.version != head.version:
            msg = f"{head.version} events fold to version {state.version}"
            raise RuntimeError(msg)
    finally:
        await store.close()
    return Pair(watch.cost, between(before, place.read_floor(stream)))


def _course(passes: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of each stretch of the run, the median of the passes."""
    stretches = _buckets(len(passes[0]))
    return [median(fmean(costs[part.start : part.stop]) for costs in passes) for part in stretches]


def _buckets(steps: int) -> list[range]:
    count = min(_POINTS, steps)
    return [range(i * steps // count, (i + 1) * steps // count) for i in range(count)]


def _length(value: object) -> int:
    return len(value) if isinstance(value, bytes) else 0
