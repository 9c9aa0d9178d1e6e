"""The crash matrix: a run is killed at every fault point, every time it comes by, and gone on with in another process.

    with WorkerPool() as pool:
        cells = kill_everywhere(pool, "sqlite:////tmp/runs.db", folder, VARIANTS[0])
    print(table(rows("sqlite", cells)))

Every cell is a session of its own; all of them share the store, and as many run at once as there are processors.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from steptrail.domain.tools import ToolEffect
from steptrail.runtime.kernel.faults import FAULT_POINTS
from steptrail.testing.crash import Fault, PointCounter
from tests.harness.crash_audit import Finding, audit, faults_of_blobs, read_log, undisturbed
from tests.harness.crash_workload import VARIANTS, Variant, Workload, go
from tests.harness.flow_audit import audit_flow, read_flow, undisturbed_flow
from tests.harness.flow_workload import FLOW_VARIANTS, FlowVariant, FlowWorkload, go_flow
from tests.harness.store_urls import with_short_leases
from tests.harness.worker_pool import WorkerPool

SUBJECTS: Final[Mapping[str, Sequence[Variant | FlowVariant]]] = {"agents": VARIANTS, "workflows": FLOW_VARIANTS}
"""What is run and killed, in all its variants."""

COLUMNS: Final = (
    "fault point",
    "store",
    "effect class",
    "kills",
    "events lost",
    "finished tools repeated",
    "`keyed` without its id",
    "`unsafe` repeated",
    "log whole",
    "same outcome",
)


class _Subject(NamedTuple):
    """How a workload is made, run in a process of its own or undisturbed, read and judged."""

    new: Callable[[str, Path, Any], Any]
    go: Callable[..., Any]
    undisturbed: Callable[..., Coroutine[Any, Any, Any]]
    read: Callable[[str, str], Coroutine[Any, Any, Any]]
    audit: Callable[..., Finding]


_AGENT: Final = _Subject(Workload.new, go, undisturbed, read_log, audit)
_FLOW: Final = _Subject(FlowWorkload.new, go_flow, undisturbed_flow, read_flow, audit_flow)


class Cell(NamedTuple):
    """One kill and what it did."""

    fault: Fault
    variant: Variant | FlowVariant
    finding: Finding


class Row(NamedTuple):
    """All kills of one effect class at one point, in the order of `COLUMNS`; empty where nothing can be counted.

    The effect class of a workflow says first what takes effect in it.
    """

    point: str
    store: str
    effect_class: str
    kills: int
    events_lost: int
    tools_repeated: int
    keyed_without_id: int | None
    unsafe_repeated: int | None
    log_whole: int
    same_outcome: int


def kill_everywhere(
    pool: WorkerPool,
    url: str,
    folder: Path,
    variant: Variant | FlowVariant,
    *,
    points: Sequence[str] | None = None,
    most: int | None = None,
    later: int = 0,
) -> list[Cell]:
    """Kill a run at every point and go on with it; at each at most `most` times, the first and the last among them.

    It is so many times `later`, where after the last comes the first again. `points` leaves the others out. `folder` is
    for the ledgers. Fails when a process does not come to the point it was to be killed at, when the one that goes on
    does not end, and when bodies or files are left in the store that are damaged, or that no event names.
    """
    subject = _AGENT if isinstance(variant, Variant) else _FLOW
    url = with_short_leases(url)
    counter = PointCounter()
    whole = asyncio.run(subject.undisturbed(url, folder, variant, counter))
    assert set(counter.reached) == set(variant.points), f"a run comes by {sorted(counter.reached)}"
    cuts = [Fault(point, n) for point in points or variant.points for n in _spread(counter.reached[point], most, later)]
    cells: list[Cell] = []
    for batch in _batches(cuts, os.cpu_count() or 1):
        workloads = [subject.new(url, folder, variant) for _ in batch]
        dying = [pool.start(subject.go, workload, fault) for workload, fault in zip(workloads, batch, strict=True)]
        for fault, worker in zip(batch, dying, strict=True):
            ended = worker.end()
            assert ended.code == -signal.SIGKILL, f"{fault}: it ended with {ended.code}: {ended.said}"
        killed = [asyncio.run(subject.read(url, workload.session)) for workload in workloads]
        resumed = [pool.start(subject.go, workload) for workload in workloads]
        endings = [worker.end().answer() for worker in resumed]
        for fault, workload, before, ending in zip(batch, workloads, killed, endings, strict=True):
            after = asyncio.run(subject.read(url, workload.session))
            cells.append(Cell(fault, variant, subject.audit(workload, [before], after, ending, whole)))
    assert not (left := asyncio.run(faults_of_blobs(url))), left
    return cells


def rows(store: str, cells: Iterable[Cell]) -> list[Row]:
    """Add up the cells of one store: one row for each fault point and effect class."""
    found = list(cells)
    variants = [each for of in SUBJECTS.values() for each in of if any(cell.variant == each for cell in found)]
    return [
        _row(store, point, variant, [cell.finding for cell in found if (cell.fault.point, cell.variant) == key])
        for point in FAULT_POINTS
        for variant in variants
        if point in variant.points and (key := (point, variant))
    ]


def table(lines: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = (COLUMNS, ("---",) * 3 + ("---:",) * (len(COLUMNS) - 3))
    texts = [*head, *(tuple("" if value is None else str(value) for value in line) for line in lines)]
    return "".join(f"| {' | '.join(text)} |\n" for text in texts)


def _row(store: str, point: str, variant: Variant | FlowVariant, found: Sequence[Finding]) -> Row:
    return Row(
        point=f"`{point}`",
        store=store,
        effect_class=str(variant),
        kills=len(found),
        events_lost=sum(each.events_lost for each in found),
        tools_repeated=sum(each.tools_repeated for each in found),
        keyed_without_id=_counted(variant, ToolEffect.KEYED, [each.keyed_without_id for each in found]),
        unsafe_repeated=_counted(variant, ToolEffect.UNSAFE, [each.unsafe_repeated for each in found]),
        log_whole=sum(each.log_is_whole for each in found),
        same_outcome=sum(each.same_outcome for each in found),
    )


def _counted(variant: Variant | FlowVariant, effect: ToolEffect, counts: Sequence[int]) -> int | None:
    return sum(counts) if variant.effect is effect else None


def _spread(reached: int, most: int | None, later: int) -> list[int]:
    """Return which times out of `reached` to die, evenly spread, from the first to the last, and so many later."""
    if most is None or reached <= most:
        return list(range(1, reached + 1))
    return sorted({1 + (round(i * (reached - 1) / max(1, most - 1)) + later) % reached for i in range(most)})


def _batches(cuts: Sequence[Fault], size: int) -> Iterator[Sequence[Fault]]:
    for start in range(0, len(cuts), size):
        yield cuts[start : start + size]
