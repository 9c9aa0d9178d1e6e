"""What it costs to take up a killed run in a process, against a process that reads the same rows and parses each."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.child import KILLED
from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, run_process
from benchmarks.places import Place, Site
from benchmarks.work import session_name
from steptrail.domain.agent.ids import checked_session_id, stream_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeFigures:
    """From the start of a process to the first model call of a run of `steps` steps that was killed in its last.

    `after_import_ms` is the time by the clock after everything was imported, `after_import_cpu_ms` the processor time.
    """

    steps: int
    process: Compared
    after_import_ms: float
    after_import_cpu_ms: float


def measure_resume(site: Site, steps: int, passes: int, environment: Mapping[str, str]) -> ResumeFigures:
    """Measure a resume. Each pass kills a run of its own, because a resume leaves its mark in the log.

    `environment` is one that keeps bytecode.
    """
    progress(f"{site.name}: a new process takes up {steps:,} steps")
    pairs: list[Pair] = []
    after_import: list[Cost] = []
    for _ in range(passes):
        place = site.fresh()
        try:
            _child("kill", place, steps, environment, accept=KILLED)
            before = _read(place, environment)
            ours, after = _resumed(place, steps, environment)
            pairs.append(Pair(ours, between(before, _read(place, environment))))
            after_import.append(after)
        finally:
            place.remove()
    return ResumeFigures(
        steps=steps,
        process=compared(pairs),
        after_import_ms=median(cost.wall for cost in after_import) * 1000,
        after_import_cpu_ms=median(cost.cpu for cost in after_import) * 1000,
    )


def _resumed(place: Place, steps: int, environment: Mapping[str, str]) -> tuple[Cost, Cost]:
    cost, printed = _child("resume", place, steps, environment)
    read: dict[str, float] = json.loads(printed)
    if read["call"] != steps:
        msg = f"the run went on with model call {read['call']}, not {steps}"
        raise RuntimeError(msg)
    return cost, Cost(read["wall"], read["cpu"])


def _child(mode: str, place: Place, steps: int, environment: Mapping[str, str], *, accept: int = 0) -> tuple[Cost, str]:
    command = [sys.executable, "-m", "benchmarks.child", mode, place.url, str(steps)]
    return run_process(command, accept=[accept], environment=environment)


def _read(place: Place, environment: Mapping[str, str]) -> Cost:
    reader = Path(__file__).with_name("bare_reader.py")
    stream = stream_of(checked_session_id(session_name(0)))
    return run_process([sys.executable, str(reader), place.url, stream], environment=environment)[0]
