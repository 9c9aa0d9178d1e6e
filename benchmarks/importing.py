"""What it costs to load the package and the command line: processor time of fresh processes, and the modules they load.

Each is compared with a process that imports what every such program needs: `asyncio`, `sqlite3` and `json`. Bytecode is
kept from one process to the next, as it is where the package is installed.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, run_process
from benchmarks.places import Place, Site
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

_NOT_BEFORE_USED = frozenset(
    {
        "eventsourcing.postgres",
        "eventsourcing.sqlite",
        "http.server",
        "httpx2",
        "openai",
        "psycopg",
        "psycopg_pool",
        "pydantic",
        "socketserver",
        "sqlite3",
        "xllamacpp",
    }
)
_FLOOR = "import asyncio, sqlite3, json"
_PACKAGE = "import steptrail"
_COMMAND = "import sys; from steptrail.interfaces.cli.main import main; main(sys.argv[1:])"
_LISTING = "import sys; before = set(sys.modules); {code}; print(*sorted(set(sys.modules) - before))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFigures:
    """A process that runs `what`, against the floor; `beyond_ms` is the processor time that it takes longer.

    `packages` counts the modules that it loads, the standard library as one package, and `modules` names them all.
    `heavy` names those among them that nothing should load before it is used: pydantic, drivers, servers, databases. A
    command that opens a store has used the driver of that store.
    """

    what: str
    process: Compared
    beyond_ms: float
    packages: dict[str, int]
    modules: Sequence[str]
    heavy: Sequence[str]


async def measure_imports(site: Site, passes: int, environment: Mapping[str, str]) -> list[ImportFigures]:
    """Measure the import of the package, and commands in a store that holds one session of three steps.

    `environment` is one that keeps bytecode.
    """
    progress("the import and the command line")
    place = site.fresh()
    try:
        async with Steptrail.open(place.url) as trail:
            await run(trail, agent(3), session_name(0))
        return _measured(place, passes, environment)
    finally:
        place.remove()


def _measured(place: Place, passes: int, environment: Mapping[str, str]) -> list[ImportFigures]:
    programs: dict[str, tuple[str, ...]] = {
        "import steptrail": (_PACKAGE,),
        "steptrail --help": (_COMMAND, "--help"),
        "steptrail runs": (_COMMAND, "runs", "--store", place.url),
        "steptrail why": (_COMMAND, "why", session_name(0), "--store", place.url),
    }
    # The first process of each kind compiles, so that none of those that are measured does.
    loaded = {what: _modules(program, environment) for what, program in programs.items()}
    pairs: dict[str, list[Pair]] = {what: [] for what in programs}
    before = _cost((_FLOOR,), environment)
    for _ in range(passes):
        for what, program in programs.items():
            ours = _cost(program, environment)
            after = _cost((_FLOOR,), environment)
            pairs[what].append(Pair(ours, between(before, after)))
            before = after
    return [
        ImportFigures(
            what=what,
            process=compared(pairs[what]),
            beyond_ms=median(pair.ours.cpu - pair.floor.cpu for pair in pairs[what]) * 1000,
            packages=dict(Counter(map(_package, names)).most_common()),
            modules=names,
            heavy=sorted(_NOT_BEFORE_USED.intersection(names)),
        )
        for what, names in loaded.items()
    ]


def _cost(program: Sequence[str], environment: Mapping[str, str]) -> Cost:
    return run_process([sys.executable, "-c", *program], environment=environment)[0]


def _modules(program: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    code, *arguments = program
    command = [sys.executable, "-c", _LISTING.format(code=code), *arguments]
    return run_process(command, environment=environment)[1].splitlines()[-1].split()


def _package(module: str) -> str:
    top = module.partition(".")[0]
    own = top in sys.stdlib_module_names or top.startswith("_sysconfigdata")
    return "standard library" if own else top
