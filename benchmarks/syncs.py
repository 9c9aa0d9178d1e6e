"""How often a step waits for the disk: the syncs of a process that runs the work, over its steps.

Counted by strace, which sees every `fsync` and `fdatasync` of the process, the making of the file included. Where there
is no strace, or it may not trace, SQLite's own requests are counted, which leaves out the syncs of folders.
"""

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.meter import run_process
from benchmarks.places import Place, Site
from benchmarks.sync_counter import counted_syncs
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

_CALL = re.compile(r"\bf(?:data)?sync\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFigures:
    """Syncs a step over a run of `steps` steps, and how they were counted."""

    steps: int
    a_step: float
    how: str


async def measure_syncs(site: Site, steps: int) -> SyncFigures | None:
    """Count the syncs of one run; nothing when they cannot be counted here."""
    place = site.fresh()
    try:
        if (traced := _traced(place, steps)) is not None:
            return SyncFigures(steps=steps, a_step=traced / steps, how="strace")
    finally:
        place.remove()
    place = site.fresh()
    try:
        with counted_syncs() as counter:
            async with Steptrail.open(place.url) as trail:
                await run(trail, agent(steps), session_name(0))
    except OSError:
        return None
    finally:
        place.remove()
    return SyncFigures(steps=steps, a_step=counter.count / steps, how="requests of SQLite")


def syncs_in(trace: str) -> int:
    """Return how many syncs were begun in the output of strace; the line on which one ends is not another."""
    return len(_CALL.findall(trace))


def _traced(place: Place, steps: int) -> int | None:
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        command = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
        try:
            run_process([*command, sys.executable, "-m", "benchmarks.child", "run", place.url, str(steps)])
        except RuntimeError:
            return None
        return syncs_in(trace.read_text())
