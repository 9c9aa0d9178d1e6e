"""`make bench-peers`: the same work in other libraries, in the same run, so that the ratios mean something.

There are two works, the steps of an agent and the nodes of a workflow; each has contenders and tables of its own.

In every pass each of them runs once under each condition, in a new process with an empty folder; every other pass goes
the other way round. What does not install or does not run is named in the table.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from benchmarks.code import describe_code
from benchmarks.machine import describe_machine
from benchmarks.meter import progress
from benchmarks.peers.contenders import Condition, Contender, contenders, measure
from benchmarks.peers.disks import NoShim, build_shim
from benchmarks.peers.scenarios import Scenario
from benchmarks.peers.tables import condition_table, promise_table, rival_of, verdict
from benchmarks.tables import table

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Compared:
    """Who does a scenario, and under which conditions."""

    scenario: Scenario
    everybody: Sequence[Contender]
    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that a run found. `no_slow_disk` says why there is none, where there is none."""

    code: dict[str, str]
    machine: dict[str, str]
    passes: int
    compared: Sequence[Compared]
    no_slow_disk: str | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write `peers.json` and `peers.md`."""
    given = _parsed(arguments)
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    # Not the folder for temporary files, which may be memory: a sync would cost nothing there.
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=given.scratch or out) as scratch:
        found = _measured(given, Path(scratch))
    print(save(found, out))


def save(found: Found, out: Path) -> str:
    """Write `peers.json` and `peers.md` into a folder, and return the report."""
    (out / "peers.json").write_bytes(
        orjson.dumps(_as_fields(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )
    text = report(found)
    (out / "peers.md").write_text(text, encoding="utf-8")
    return text


def report(found: Found) -> str:
    """Return the whole report as Markdown."""
    return "\n\n".join(_sections(found)) + "\n"


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="steps of a session that is alone")
    parser.add_argument("--sessions", type=int, default=64, help="sessions at once")
    parser.add_argument("--session-steps", type=int, default=15, help="steps of each session that is not alone")
    parser.add_argument("--flows", type=int, default=100, help="runs of the workflow one after another")
    parser.add_argument("--flows-at-once", type=int, default=64, help="runs of the workflow at once")
    parser.add_argument("--delay", type=float, default=2.0, help="milliseconds more for a sync of the slow disk")
    parser.add_argument("--passes", type=int, default=5)
    every = list(Scenario)
    parser.add_argument("--scenarios", nargs="+", type=Scenario, choices=every, default=every, help="(default: all)")
    parser.add_argument("--peers", nargs="*", default=(), help="names of the libraries (default: all)")
    parser.add_argument("--out", type=Path, default=_ROOT / "benchmarks" / "results")
    parser.add_argument("--scratch", type=Path, help="folder on the disk to measure (default: in the one of results)")
    parser.add_argument("--environments", type=Path, default=_ROOT / ".peers")
    return parser.parse_args(arguments)


def _measured(given: argparse.Namespace, scratch: Path) -> Found:
    code, machine = describe_code(), describe_machine(scratch)
    shim, why_not, delays = None, None, [0.0]
    try:
        shim = build_shim(scratch)
        delays.append(given.delay)
    except NoShim as error:
        why_not = str(error)
    sizes = {
        Scenario.AGENT: ((1, given.steps), (given.sessions, given.session_steps)),
        Scenario.WORKFLOW: ((1, given.flows), (given.flows_at_once, 1)),
    }
    compared = [
        Compared(
            scenario,
            contenders(given.environments.resolve(), given.peers, scenario),
            [Condition(many, steps, delay, scenario) for delay in delays for many, steps in sizes[scenario]],
        )
        for scenario in dict.fromkeys(given.scenarios)
    ]
    turns = [(condition, one) for work in compared for condition in work.conditions for one in work.everybody]
    for number in range(given.passes):
        for condition, contender in turns if number % 2 == 0 else reversed(turns):
            if contender.why_not(condition) is None:
                progress(f"pass {number + 1}, {condition}: {contender.name}")
                measure(contender, condition, scratch, shim)
    return Found(code=code, machine=machine, passes=given.passes, compared=compared, no_slow_disk=why_not)


def _sections(found: Found) -> Iterator[str]:
    code = ", ".join(f"{name} {value}" for name, value in found.code.items())
    yield "# The same work in other libraries"
    yield (
        f"Figures of {code}. SQLite, {found.passes} passes, each library in a process and a folder of its own; "
        "medians, and ratios against Steptrail in the same pass. A library that syncs as often is compared with "
        "durability `full`, one that syncs less with `normal`. They do not promise the same: read what each makes "
        "durable too."
    )
    yield table([["machine", ""], *([name, value] for name, value in found.machine.items())])
    for work in found.compared:
        for condition in work.conditions:
            yield f"## {str(condition)[0].upper()}{str(condition)[1:]}"
            yield table(condition_table(work.everybody, condition, work.conditions))
            yield _said(verdict(work.everybody, condition, work.conditions))
        yield f"## What each makes durable: {work.scenario}"
        yield table(promise_table(work.everybody))
    if found.no_slow_disk is not None:
        yield f"There is no slow disk, and syncs were not counted: {found.no_slow_disk}."


def _said(verdicts: dict[str, bool | None]) -> str:
    behind = [name for name, ahead in verdicts.items() if ahead is False]
    missing = [name for name, ahead in verdicts.items() if ahead is None]
    said = f"behind {', '.join(behind)}" if behind else "yes"
    rest = f"; not measured: {', '.join(missing)}" if missing else ""
    return f"Ahead of every library that syncs as often, in processor time and by the clock: {said}{rest}."


def _as_fields(found: Found) -> dict[str, object]:
    """Return what is written down: everything but where this machine keeps its interpreters."""
    return {
        "code": found.code,
        "machine": found.machine,
        "passes": found.passes,
        "no_slow_disk": found.no_slow_disk,
        "scenarios": {work.scenario.value: _work_fields(work) for work in found.compared},
    }


def _work_fields(work: Compared) -> dict[str, object]:
    return {
        "contenders": [
            {"name": one.name, "durable": one.durable, "version": one.version, "failed": one.failed.get(None)}
            for one in work.everybody
        ],
        "conditions": [
            {
                **asdict(condition),
                "ahead": verdict(work.everybody, condition, work.conditions),
                "contenders": {
                    one.name: {
                        "against": rival_of(one, work.everybody, work.conditions),
                        "failed": one.why_not(condition),
                        "passes": [asdict(figures) for figures in one.found.get(condition, ())],
                    }
                    for one in work.everybody
                },
            }
            for condition in work.conditions
        ],
    }


if __name__ == "__main__":
    main()
