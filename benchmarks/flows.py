"""What a durable node of a workflow costs, and whether long chains and wide fan-outs stay cheap, bounded and right.

Every node is a function that answers at once, so all the time is the library's. A chain is one visit after another; a
fan-out is as many branches between two nodes, or as many items of one map, with at most eight under way.
"""

import asyncio
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from statistics import median

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.rows import Rows
from steptrail import Steptrail
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.machine import FLOW
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.workflow import BuiltWorkflow, Envelope, NodeContext, RunOptions, Workflow

_AT_ONCE = 8
_SAID = "What a node says that has looked something up, in about a hundred characters, so that a row is no stub."
_EVENT_BY_EVENT = FLOW._replace(snapshots=None)
_numbers = count()
"""Each fan-out has a name of its own: what a process has kept of an equal one would be missing in its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFigures:
    """Figures for a chain of `nodes` nodes. All but `nodes` and `fold_ms`, which is of the whole, are for one node."""

    nodes: int
    time: Compared
    fold_ms: float
    file_bytes: float
    events: float
    commits: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FanFigures:
    """Figures for a fan-out: how it ended, how many failures it recorded, and how many ran at once at most.

    `cpu_ms` is for each of `size`. `memory_ratio` is the peak of one of twice the size against this one; None where it
    was not measured.
    """

    shape: str
    what: str
    size: int
    status: str
    recorded: int
    at_most: int
    cpu_ms: float
    memory_ratio: float | None


async def measure_chains(site: Site, sizes: Sequence[int], passes: int) -> list[ChainFigures]:
    """Measure chains of each of `sizes` nodes.

    They are folded in turn, so that a machine that becomes slower meanwhile makes none of them look worse.
    """
    with ExitStack() as places:
        chains: list[_Chain] = []
        for nodes in sizes:
            progress(f"{site.name}: a chain of {nodes:,} nodes")
            chains.append(await _run_chain(site, nodes, passes))
            places.callback(chains[-1].place.remove)
        progress(f"{site.name}: the folds of these chains")
        for _ in range(passes):
            for chain in chains:
                chain.folds.append(await _folded(chain.place))
        return [chain.figures for chain in chains]


async def measure_fans(site: Site, size: int) -> list[FanFigures]:
    """Measure fan-outs of `size`, as branches and as a map: all well, every third failing, one failing fast."""
    progress(f"{site.name}: fan-outs of {size:,}")
    kinds: list[tuple[str, Callable[[int], bool], bool]] = [
        ("all well", lambda _: False, False),
        ("every third fails and is recorded", lambda number: number % 3 == 0, True),
        ("one fails the run", lambda number: number == size // 10, False),
    ]
    return [
        await _fan_figures(site, size, shape, make, *kind)
        for shape, make in (("branches", _branches), ("items of a map", _items))
        for kind in kinds
    ]


@dataclass(frozen=True, slots=True)
class _Chain:
    """What was measured of a chain of `nodes` nodes, and where its newest run is stored."""

    nodes: int
    place: Place
    times: Sequence[Pair]
    rows: Rows
    folds: list[Cost] = field(default_factory=list[Cost])

    @property
    def figures(self) -> ChainFigures:
        return ChainFigures(
            nodes=self.nodes,
            time=compared(self.times, self.nodes),
            fold_ms=1000 * median(fold.cpu for fold in self.folds),
            file_bytes=self.place.size() / self.nodes,
            events=sum(map(len, self.rows.commits)) / self.nodes,
            commits=len(self.rows.commits) / self.nodes,
        )


async def _run_chain(site: Site, nodes: int, passes: int) -> _Chain:
    flow, times = _chain(nodes), list[Pair]()
    floor: Cost | None = None
    while True:
        place = site.fresh()
        try:
            cost = await _run(place, flow)
            rows = place.rows()
            before, floor = floor, place.write_floor(rows)
            if before is not None:
                times.append(Pair(cost, between(before, floor)))
        except BaseException:
            place.remove()
            raise
        if len(times) == passes:
            return _Chain(nodes, place, times, rows)
        place.remove()


async def _run(place: Place, flow: BuiltWorkflow) -> Cost:
    async with Steptrail.open(place.url) as trail:
        with stopwatch() as watch:
            result = await trail.run(flow, session="chain")
    if result.status != "completed" or result.output != _SAID:
        raise RuntimeError(f"the chain ended as {result.status} with {result.output!r}")
    return watch.cost


async def _folded(place: Place) -> Cost:
    store = open_store(place.url)
    try:
        with stopwatch() as watch:
            await fold_stream(_EVENT_BY_EVENT, store, flow_stream("chain"))
    finally:
        await store.close()
    return watch.cost


async def _fan_figures(
    site: Site,
    size: int,
    shape: str,
    make: Callable[[int, "_Work", bool], BuiltWorkflow],
    what: str,
    fails: Callable[[int], bool],
    tolerates: bool,
) -> FanFigures:
    async def run(many: int) -> tuple[str, int, int, Cost]:
        work, place = _Work(fails), site.fresh()
        try:
            flow = make(many, work, tolerates)
            async with Steptrail.open(place.url) as trail:
                with stopwatch() as watch:
                    result = await trail.run(flow, session="fan", options=RunOptions(concurrency=_AT_ONCE))
                return result.status.value, len(result.errors), work.at_most, watch.cost
        finally:
            place.remove()

    async def peak(many: int) -> int:
        tracemalloc.start()
        try:
            await run(many)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    status, recorded, at_most, cost = await run(size)
    ratio = None if fails(0) or fails(size // 10) else await peak(2 * size) / await peak(size)
    return FanFigures(
        shape=shape,
        what=what,
        size=size,
        status=status,
        recorded=recorded,
        at_most=at_most,
        cpu_ms=1000 * cost.cpu / size,
        memory_ratio=ratio,
    )


class _Work:
    """A node that gives way once, counts how many run, and fails where it is to."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self._fails, self._running, self.at_most = fails, 0, 0

    async def __call__(self, _: Envelope, context: NodeContext) -> int:
        number = int(context.node[1:]) if context.index is None else context.index
        self._running += 1
        self.at_most = max(self.at_most, self._running)
        await asyncio.sleep(0)
        self._running -= 1
        if self._fails(number):
            raise ValueError("no")
        return number


def _chain(nodes: int) -> BuiltWorkflow:
    names = [f"node-{number:06}" for number in range(nodes)]
    written = Workflow("chain")
    for name in names:
        written.function(name, lambda _: _SAID, output="said")
    return written.chain(*names).build()


def _fan() -> Workflow:
    return Workflow(f"fan-{next(_numbers):04}")


def _branches(size: int, work: _Work, tolerates: bool) -> BuiltWorkflow:
    names = [f"b{number}" for number in range(size)]
    written = _fan().noop("begin").noop("end")
    for name in names:
        written.function(name, work.__call__, on_error="continue" if tolerates else "fail")
    return written.edge("begin", *names).edge(tuple(names), "end").build()


def _items(size: int, work: _Work, tolerates: bool) -> BuiltWorkflow:
    return (
        _fan()
        .function("begin", lambda _: list(range(size)), output="numbers")
        .map(
            "each",
            over="numbers",
            concurrency=_AT_ONCE,
            function=work.__call__,
            on_item_error="record" if tolerates else "fail",
        )
        .chain("begin", "each")
        .build()
    )
