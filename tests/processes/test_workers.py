"""Workers as real processes: killed and told to end while they work, beside each other, on both stores."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from steptrail import Steptrail
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.python.sync import SyncSteptrail
from tests.examples.running import ROOT, environment, until
from tests.harness.ready_python import KILL, ready_python
from tests.harness.store_urls import with_short_leases

AGENT = '''
import os, sys, time
from pathlib import Path
from steptrail import AgentBuilder, ToolContext, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

FOLDER = Path(__file__).parent

@tool(effect=ToolEffect.IDEMPOTENT)
def serve(context: ToolContext) -> str:
    """Serve somebody."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{os.getpid()} {context.effect_id}\\n")
    while (FOLDER / "gate").exists():
        time.sleep(0.01)
    time.sleep(0.02)
    return "served"

model = ScriptedModel([call("serve"), call("serve"), "Done."])
agent = AgentBuilder("server").with_model(model).with_tools(serve).build()
'''

OPENS_FOR_EVER = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

@asynccontextmanager
async def agent():
    Path(__file__).with_name("opening").touch()
    await asyncio.Event().wait()
    yield None
"""

DEAF = """
import asyncio
from pathlib import Path
from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.hooks import CallableHook, HookType
from steptrail.testing import ScriptedModel, call

async def run_on():
    Path(__file__).with_name("running").touch()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@tool(effect=ToolEffect.IDEMPOTENT)
async def serve() -> str:
    await run_on()
    return "served"

async def before_step(state):
    await run_on()
    return state

agent = AgentBuilder("server").with_model(ScriptedModel([call("serve"), "Done."])).with_tools(serve)
"""
HOOKED = "agent = agent.with_hook(HookType.BEFORE_STEP, CallableHook(before_step))"


class Shop:
    """A store, the agent in a file, and the workers on it."""

    def __init__(self, url: str, engine: str, folder: Path) -> None:
        self.url, self.engine, self.folder, self.workers = url, engine, folder, list[subprocess.Popen[str]]()
        (folder / "app.py").write_text(AGENT, encoding="utf-8")
        (folder / "ledger").touch()
        self.log = folder / "workers.log"

    def command(self, *words: str) -> list[str]:
        engine = ["--engine", self.engine] if self.engine else []
        return [ready_python(), "-m", "steptrail", *words, "--store", self.url, *engine]

    def start(self, session: str) -> None:
        line = self.command("start", str(self.folder / "app.py"), "Serve.", "--id", session)
        subprocess.run(line, cwd=ROOT, env=environment(), check=True, capture_output=True)

    def work(self, *options: str, output: str = "") -> "subprocess.Popen[str]":
        """Start a worker; `output` says to a shell where its standard output goes."""
        line = self.command("work", str(self.folder / "app.py"), *options)
        if output:
            line = ["sh", "-c", f'exec env -u PYTHONUNBUFFERED "$@" {output}', "sh", sys.executable, *line[1:]]
        with self.log.open("a") as log:
            worker = subprocess.Popen(line, cwd=ROOT, env=environment(), text=True, stdout=log, stderr=log)
        self.workers.append(worker)
        return worker

    def ledger(self) -> list[str]:
        return (self.folder / "ledger").read_text(encoding="utf-8").splitlines()

    def __enter__(self) -> "Shop":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(KILL)
            worker.wait()
        assert "Traceback" not in self.log.read_text(encoding="utf-8")


class Place(NamedTuple):
    """A store, and the engine that wakes its workers, if one does."""

    url: str
    engine: str

    def opened(self) -> SyncSteptrail:
        return Steptrail.open_sync(self.url, engine=self.engine or None)


@pytest.fixture(params=["sqlite", "postgres", "procrastinate"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path / 'runs.db'}", "")
    woken = "procrastinate?heartbeat=0.3&stalled_after=1.5" if request.param == "procrastinate" else ""
    return Place(str(request.getfixturevalue("postgres_url")), woken)


def are_done(trail: SyncSteptrail, count: int) -> bool:
    return len(trail.runs(status="completed", limit=1000)) == count


def test_a_session_started_here_is_carried_on_by_a_worker_there_though_the_first_is_killed_in_the_middle(
    place: Place, tmp_path: Path
) -> None:
    with Shop(with_short_leases(place.url), place.engine, tmp_path) as shop, place.opened() as trail:
        (tmp_path / "gate").touch()
        shop.start("s")
        assert trail.session("s").state().status is ExecutionStatus.PENDING
        first = shop.work()
        until(lambda: shop.ledger(), first)
        first.send_signal(KILL)
        first.wait()
        (tmp_path / "gate").unlink()
        second = shop.work()
        until(lambda: are_done(trail, 1), second)
        state = trail.session("s").state()
        assert (state.output, state.fold.segment) == ("Done.", 2)
        assert Counter(line.split()[1] for line in shop.ledger()) == {"s:1:1:0": 2, "s:1:2:0": 1}


def test_a_worker_that_is_told_to_end_in_the_middle_of_a_tool_lets_it_end_and_another_goes_on_by_itself(
    place: Place, tmp_path: Path
) -> None:
    with Shop(place.url, place.engine, tmp_path) as shop, place.opened() as trail:
        (tmp_path / "gate").touch()
        shop.start("s")
        first = shop.work("--grace", "30")
        until(lambda: shop.ledger(), first)
        second = shop.work()
        first.send_signal(signal.SIGTERM)
        until(lambda: trail.session("s").state().pause_request is not None, first)
        (tmp_path / "gate").unlink()
        assert first.wait(60) == 0
        until(lambda: are_done(trail, 1), second)
        assert set(Counter(line.split()[1] for line in shop.ledger()).values()) == {1}
        assert len({line.split()[0] for line in shop.ledger()}) == 2
        second.send_signal(signal.SIGHUP)  # as a terminal does that is closed
        assert second.wait(60) == 0
        assert shop.log.read_text(encoding="utf-8").count("draining") == 2


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_worker_ends_when_it_is_told_to_while_what_its_agent_opens_does_not_answer(
    tmp_path: Path, how: signal.Signals, code: int
) -> None:
    with Shop(f"sqlite:///{tmp_path / 'runs.db'}", "", tmp_path) as shop:
        (tmp_path / "app.py").write_text(OPENS_FOR_EVER, encoding="utf-8")
        worker = shop.work()
        until(lambda: (tmp_path / "opening").exists(), worker)
        worker.send_signal(how)
        assert worker.wait(60) == code


@pytest.mark.parametrize("is_hook", [False, True], ids=["a tool", "a hook"])
def test_a_worker_ends_when_it_is_told_to_though_what_it_runs_takes_no_notice_of_that(
    tmp_path: Path, is_hook: bool
) -> None:
    with Shop(f"sqlite:///{tmp_path / 'runs.db'}", "", tmp_path) as shop:
        (tmp_path / "app.py").write_text(DEAF + (HOOKED if is_hook else ""), encoding="utf-8")
        shop.start("s")
        worker = shop.work("--grace", "0.1")
        until(lambda: (tmp_path / "running").exists(), worker)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        said = shop.log.read_text(encoding="utf-8")
        # A tool is left behind by its run already.
        assert ("takes no notice of it and runs on: the process ends without it" in said) is is_hook
        assert ("session s was cut off, does not end" in said) is is_hook
        with Steptrail.open_sync(shop.url) as trail:
            assert (trail.session("s").state().status is ExecutionStatus.PAUSED) is not is_hook


@pytest.mark.parametrize("output", [">&-", ">/dev/full"], ids=["closed", "full"])
def test_a_worker_that_leaves_code_behind_ends_though_it_has_nothing_to_print_on(tmp_path: Path, output: str) -> None:
    with Shop(f"sqlite:///{tmp_path / 'runs.db'}", "", tmp_path) as shop:
        (tmp_path / "app.py").write_text("print('brought')\n" + DEAF + HOOKED, encoding="utf-8")
        shop.start("s")
        worker = shop.work("--grace", "0.1", output=output)
        until(lambda: (tmp_path / "running").exists(), worker)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


@pytest.mark.acceptance("9.2-2")
def test_workers_that_are_killed_again_and_again_finish_every_session_and_start_no_step_twice(
    place: Place, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(24)]
    # Also on a machine that is busy no worker that lives loses a lease of five seconds.
    with Shop(with_short_leases(place.url, 5.0), place.engine, tmp_path) as shop, place.opened() as trail:
        agent = runpy.run_path(str(tmp_path / "app.py"))["agent"]
        for name in names:
            trail.start(agent, "Serve.", session=name)
        working = [shop.work("--concurrency", "3") for _ in range(3)]
        for blow in range(4):
            time.sleep(0.7)
            if are_done(trail, len(names)):
                break
            working[blow % 3].send_signal(KILL)
            working[blow % 3].wait()
            working[blow % 3] = shop.work("--concurrency", "3")
        until(lambda: are_done(trail, len(names)))
        for name in names:
            records = trail.session(name).events()
            ends = [r.event for r in records if r.event.TYPE == "tool.execution.completed.v1"]
            assert len(ends) == 2, name
        # Each of the 4 kills cuts off 3 sessions at most, and what was cut off may run once more.
        times = Counter(line.split()[1] for line in shop.ledger())
        assert len(times) == 2 * len(names)
        assert times.total() <= 2 * len(names) + 12


@pytest.mark.acceptance("9.2-3")
@pytest.mark.parametrize("place", ["postgres", "procrastinate"], indirect=True)  # SQLite frees only what has died
def test_a_worker_that_was_stopped_past_its_lease_wakes_beside_the_one_that_took_over_and_does_nothing_more_to_it(
    place: Place, tmp_path: Path
) -> None:
    with Shop(with_short_leases(place.url, 1.0), place.engine, tmp_path) as shop, place.opened() as trail:
        (tmp_path / "gate").touch()
        shop.start("s")
        first = shop.work()
        until(lambda: shop.ledger(), first)
        stopped = int(shop.ledger()[0].split()[0])
        os.kill(stopped, signal.SIGSTOP)
        until(lambda: subprocess.check_output(["ps", "-o", "stat=", "-p", str(stopped)], text=True).startswith("T"))
        (tmp_path / "gate").unlink()
        second = shop.work()
        until(lambda: are_done(trail, 1), second)
        os.kill(stopped, signal.SIGCONT)
        second.send_signal(KILL)
        second.wait()
        shop.start("t")
        until(lambda: are_done(trail, 2), first)
        assert (trail.session("s").state().output, trail.session("s").state().fold.segment) == ("Done.", 2)
        calls = [(effect, int(pid) == stopped) for pid, effect in map(str.split, shop.ledger())]
        # Of its own it had begun one call before it was stopped. It begins no other one, and goes on with what is new.
        assert [call for call in calls if call[0] < "t"] == [("s:1:1:0", True), ("s:1:1:0", False), ("s:1:2:0", False)]
        assert [call for call in calls if call[0] > "t"] == [("t:1:1:0", True), ("t:1:2:0", True)]
