"""What it costs to begin: to import the package, and to take up a killed run in a new process.

Each figure is of fresh processes. Importing is compared with an interpreter that does nothing; taking up a run with a
process that reads the same rows and parses each.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.child import KILLED
from benchmarks.meter import Compared, Cost, Pair, compared, keeping_bytecode, progress, run_process
from benchmarks.places import Place, Site
from benchmarks.work import session_name
from steptrail.domain.agent.ids import checked_session_id, stream_of

__all__ = ["ImportFigures", "ResumeFigures", "measure_import", "measure_resume"]

_NOT_BEFORE_USED = frozenset(
    {
        "eventsourcing.postgres",
        "eventsourcing.sqlite",
        "http.server",
        "httpx",
        "openai",
        "psycopg",
        "psycopg_pool",
        "socketserver",
        "sqlite3",
        "xllamacpp",
    }
)
_LIST = "import sys; before = set(sys.modules); import steptrail; print(*sorted(set(sys.modules) - before))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFigures:
    """`process` is a process that imports against one that does not; `import_ms` is their difference.

    `packages` counts the modules that came along, the standard library as one; `modules` names them all; `heavy` names
    the drivers, servers and databases among them.
    """

    process: Compared
    import_ms: float
    packages: dict[str, int]
    modules: Sequence[str]
    heavy: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeFigures:
    """From the start of a process to the first model call of a run of `steps` steps that was killed in its last.

    `after_import_ms` is the part of it after everything was imported.
    """

    steps: int
    process: Compared
    after_import_ms: float


def measure_import(passes: int) -> ImportFigures:
    """Measure `import steptrail`."""
    progress("the import")
    with keeping_bytecode() as environment:

        def python(code: str) -> tuple[Cost, str]:
            return run_process([sys.executable, "-c", code], environment=environment)

        names = python(_LIST)[1].split()  # the first import of all compiles
        pairs = [Pair(python("import steptrail")[0], python("pass")[0]) for _ in range(passes)]
    return ImportFigures(
        process=compared(pairs),
        import_ms=median(pair.ours.wall - pair.floor.wall for pair in pairs) * 1000,
        packages=dict(Counter(map(_package, names)).most_common()),
        modules=names,
        heavy=sorted(_NOT_BEFORE_USED.intersection(names)),
    )


def measure_resume(site: Site, steps: int, passes: int) -> ResumeFigures:
    """Measure a resume. Each pass kills a run of its own, because a resume leaves its mark in the log."""
    progress(f"{site.name}: a new process takes up {steps:,} steps")
    pairs: list[Pair] = []
    after_import: list[float] = []
    with keeping_bytecode() as environment:
        for _ in range(passes):
            place = site.fresh()
            try:
                _child("kill", place, steps, environment, accept=KILLED)
                ours, after = _resumed(place, steps, environment)
                pairs.append(Pair(ours, _read(place, environment)))
                after_import.append(after)
            finally:
                place.remove()
    return ResumeFigures(steps=steps, process=compared(pairs), after_import_ms=median(after_import) * 1000)


def _package(module: str) -> str:
    top = module.partition(".")[0]
    own = top in sys.stdlib_module_names or top.startswith("_sysconfigdata")
    return "standard library" if own else top


def _resumed(place: Place, steps: int, environment: Mapping[str, str]) -> tuple[Cost, float]:
    cost, printed = _child("resume", place, steps, environment)
    read: dict[str, float] = json.loads(printed)
    if read["call"] != steps:
        msg = f"the run went on with model call {read['call']}, not {steps}"
        raise RuntimeError(msg)
    return cost, read["called"] - read["imported"]


def _child(mode: str, place: Place, steps: int, environment: Mapping[str, str], *, accept: int = 0) -> tuple[Cost, str]:
    command = [sys.executable, "-m", "benchmarks.child", mode, place.url, str(steps)]
    return run_process(command, accept=[accept], environment=environment)


def _read(place: Place, environment: Mapping[str, str]) -> Cost:
    reader = Path(__file__).with_name("bare_reader.py")
    stream = stream_of(checked_session_id(session_name(0)))
    return run_process([sys.executable, str(reader), place.url, stream], environment=environment)[0]
