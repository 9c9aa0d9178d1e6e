"""Who takes part, and what was measured of each: the floor, Steptrail with both durabilities, and the peers."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.meter import Cost
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.child import Figures
from benchmarks.peers.disks import with_shim
from benchmarks.peers.environments import NotInstalled, installed_versions, python_of
from benchmarks.peers.scenarios import Scenario

FLOOR, FULL, NORMAL = "floor", "steptrail, full", "steptrail, normal"

_ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 900
_OURS = Path(sys.executable)


@dataclass(frozen=True, slots=True)
class Condition:
    """So many sessions at once, so many steps in each, and syncs that last `delay_ms` longer than the disk takes.

    For a workflow, steps are runs one after another, and sessions are how many such chains of runs there are at once.
    """

    sessions: int
    steps: int
    delay_ms: float
    scenario: Scenario = Scenario.AGENT

    @property
    def total(self) -> int:
        """The steps of all sessions, or the nodes of all runs."""
        return self.scenario.units(self.sessions * self.steps)

    def __str__(self) -> str:
        disk = f"a slow disk (+{self.delay_ms:g} ms a sync)" if self.delay_ms else "the disk as it is"
        return f"{self.scenario.described(self.sessions, self.steps)}, {disk}"


@dataclass(slots=True)
class Contender:
    """One line of the tables: how it is run, and the figures of its passes.

    `failed` says why there are none under a condition; under None, under any.
    """

    name: str
    durable: str
    version: str = ""
    script: tuple[str, ...] = ()
    python: Path = _OURS
    found: dict[Condition, list[Figures]] = field(default_factory=dict[Condition, list[Figures]])
    failed: dict[Condition | None, str] = field(default_factory=dict[Condition | None, str])

    def why_not(self, condition: Condition) -> str | None:
        """Return why it was not measured under a condition; None when it was."""
        return self.failed.get(None) or self.failed.get(condition)

    def syncs_a_step(self, condition: Condition) -> float | None:
        """Return the syncs of a step under a condition; None where they were not counted."""
        counted = [figures.syncs for figures in self.found.get(condition, ()) if figures.syncs is not None]
        return median(counted) / condition.total if counted else None


def contenders(environments: Path, chosen: Sequence[str] = (), scenario: Scenario = Scenario.AGENT) -> list[Contender]:
    """Return the floor, Steptrail, and the peers of a scenario, or those `chosen` by name, each installed."""
    names, ours = {"floor": FLOOR, "full": FULL, "normal": NORMAL}, OURS[scenario]
    found = [
        Contender(names[variant], durable, script=(ours.script, variant)) for variant, durable in ours.variants.items()
    ]
    for peer in PEERS:
        work = peer.works.get(scenario)
        if work is None or (chosen and peer.name not in chosen):
            continue
        failed: dict[Condition | None, str] = {}
        python, version = _OURS, ""
        try:
            python = python_of(peer, environments)
            version = installed_versions(peer, python)
        except NotInstalled as error:
            failed[None] = f"does not install: {error}"
        for variant, durable in work.variants.items():
            name = f"{peer.name}, {variant}"
            found.append(Contender(name, durable, version, (work.script, variant), python, failed=dict(failed)))
    return found


def measure(contender: Contender, condition: Condition, scratch: Path, shim: Path | None) -> None:
    """Run a contender once in a process and a folder of its own, and keep its figures, or why there are none."""
    # What leads to our own code must not lead into the environment of a peer, or the other way round.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if contender.python is _OURS:
        environment = dict(os.environ)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        sizes = (str(condition.steps), str(condition.sessions))
        try:
            done = subprocess.run(
                [str(contender.python), "-m", *contender.script, *sizes, folder],
                cwd=_ROOT,
                env=with_shim(environment, shim, condition.delay_ms),
                capture_output=True,
                text=True,
                timeout=_LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            contender.failed[condition] = f"took more than {_LONGEST_SECONDS} seconds"
            return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        contender.failed[condition] = last.replace(str(scratch), "…")
        return
    read = json.loads(done.stdout.splitlines()[-1])
    figures = Figures(Cost(read["wall"], read["cpu"]), read["syncs"], read["bytes"])
    contender.found.setdefault(condition, []).append(figures)
