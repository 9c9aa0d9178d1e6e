"""`make bench-peers`: the same work in other libraries, in the same run, so that the ratios mean something.

Every pass runs each of them once, one after another, each in a new process with an empty folder. What does not install
or does not run is named in the table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import orjson

from benchmarks.machine import describe_machine
from benchmarks.meter import Cost, progress
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.environments import NotInstalled, installed_versions, python_of
from benchmarks.tables import table

__all__ = ["Contender", "main", "peers_table"]

_ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 900
_OURS = Path(sys.executable)


@dataclass(slots=True)
class Contender:
    """One line of the table: how it is run, and the figures of each pass; `failed` says why there are none."""

    name: str
    durable: str
    version: str = ""
    script: tuple[str, ...] = ()
    python: Path = _OURS
    costs: list[Cost] = field(default_factory=list[Cost])
    bytes: int = 0
    failed: str | None = None

    def figures(self) -> dict[str, object]:
        """Return what is written down: everything but where this machine keeps its interpreters."""
        return {name: value for name, value in asdict(self).items() if name != "python"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write `peers.json` and `peers.md`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--out", type=Path, default=_ROOT / "benchmarks" / "results")
    parser.add_argument("--environments", type=Path, default=_ROOT / ".peers")
    given = parser.parse_args(arguments)
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    contenders = _contenders(given.environments.resolve())
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=out) as scratch:
        machine = describe_machine(Path(scratch))
        for number in range(given.passes):
            for contender in contenders:
                if contender.failed is None:
                    progress(f"pass {number + 1}: {contender.name}")
                    _run(contender, given.steps, Path(scratch))
    found = {
        "machine": machine,
        "steps": given.steps,
        "passes": given.passes,
        "contenders": [one.figures() for one in contenders],
    }
    (out / "peers.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    text = _markdown(contenders, machine, given.steps, given.passes)
    (out / "peers.md").write_text(text, encoding="utf-8")
    print(text)


def peers_table(contenders: Sequence[Contender], steps: int) -> list[list[str]]:
    """Return the lines of the table, its head first. Ratios are medians over the passes, against the same pass.

    The first two of `contenders` are the floor and Steptrail.
    """
    floor, ours = contenders[:2]
    lines = [["library", "time, ms a step", "x floor", "x Steptrail", "processor, ms a step", "KB a step"]]
    for one in contenders:
        if one.failed is not None:
            lines.append([one.name, f"not measured: {one.failed}", "", "", "", ""])
            continue
        lines.append(
            [
                one.name,
                f"{median(cost.wall for cost in one.costs) * 1000 / steps:.2f}",
                _ratio(one, floor),
                _ratio(one, ours),
                f"{median(cost.cpu for cost in one.costs) * 1000 / steps:.2f}",
                f"{one.bytes / 1000 / steps:.1f}" if one.bytes else "-",
            ]
        )
    return lines


def _contenders(environments: Path) -> list[Contender]:
    script = "benchmarks.peers.run_steptrail"
    contenders = [
        Contender("floor", "plain sqlite3 that writes the rows of Steptrail", script=(script, "floor")),
        Contender(
            "steptrail",
            "the reply and the start of the tool before it runs; its result, every vote and the next start before the "
            "next model call",
            script=(script, "default"),
        ),
    ]
    for peer in PEERS:
        try:
            python, failed = python_of(peer, environments), None
            version = installed_versions(peer, python)
        except NotInstalled as error:
            python, failed, version = Path(), f"does not install: {error}", ""
        for variant, durable in peer.variants.items():
            name = f"{peer.name}, {variant}"
            contenders.append(Contender(name, durable, version, (peer.script, variant), python, failed=failed))
    return contenders


def _run(contender: Contender, steps: int, scratch: Path) -> None:
    # What leads to our own code must not lead into the environment of a peer, or the other way round.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if contender.python is _OURS:
        environment = dict(os.environ)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        command = [str(contender.python), "-m", *contender.script, str(steps), folder]
        try:
            done = subprocess.run(
                command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_LONGEST_SECONDS
            )
        except subprocess.TimeoutExpired:
            contender.failed = f"took more than {_LONGEST_SECONDS} seconds"
            return
    if done.returncode:
        contender.failed = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return
    figures = json.loads(done.stdout.splitlines()[-1])
    contender.costs.append(Cost(figures["wall"], figures["cpu"]))
    contender.bytes = figures["bytes"]


def _ratio(one: Contender, other: Contender) -> str:
    if other.failed is not None:
        return "-"
    return f"{median(a.wall / b.wall for a, b in zip(one.costs, other.costs, strict=True)):.2f}"


def _markdown(contenders: Sequence[Contender], machine: dict[str, str], steps: int, passes: int) -> str:
    durable = [["library", "durable, and when", "version"]]
    durable += [[one.name, one.durable, one.version] for one in contenders]
    sections = [
        "# The same work in other libraries",
        f"One run of {steps:,} steps on SQLite, {passes} passes, each library in a process and a folder of its own; "
        "medians, and ratios against the same pass. They do not promise the same: read both tables.",
        table([["machine", ""], *([name, value] for name, value in machine.items())]),
        table(peers_table(contenders, steps)),
        table(durable),
    ]
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    main()
