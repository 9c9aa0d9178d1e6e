"""The pipeline, from process to process: tried again, killed, answered days later, and `why` for each ending."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.workflow_events import NodeAttemptStarted
from tests.examples.running import EXAMPLES, environment, run, until

FLOW = str(EXAMPLES / "pipeline" / "flow.py")
DOCUMENT = json.dumps({"document": "On tea\nTea is made of leaves."})
STORE = "sqlite:///runs.db"

DAYS_LATER = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from examples.pipeline.flow import flow
from steptrail import Steptrail
from steptrail.testing import ManualClock

async def main(days, answer):
    clock = ManualClock(datetime.now(UTC) + timedelta(days=float(days)), running=True)
    async with Steptrail.open("sqlite:///runs.db", clock=clock) as trail:
        if answer != "nobody":
            await trail.flow("doc").answer("review", approved=answer == "yes", by="ana")
        result = await trail.flow("doc").resume(flow)
        print(result.status)

asyncio.run(main(*sys.argv[1:]))
"""
"""A process with a clock that is days ahead: somebody answers, or nobody, and the run goes on."""


class Desk:
    """A folder with a store, and what the pipeline has done there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outside = folder, folder / "pipeline"
        self.outside.mkdir()

    def steptrail(self, *command: str, exits: int = 0, **given: str) -> str:
        """Run a command, and return what it has printed."""
        done = run("-m", "steptrail", *command, "--store", STORE, cwd=self.folder, **given)
        assert done.returncode == exits, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def begin(self, exits: int = 4, **given: str) -> str:
        """Run the pipeline until it asks a person, or to its end."""
        return self.steptrail("run", FLOW, DOCUMENT, "--id", "doc", exits=exits, **given)

    def later(self, days: float, answer: str = "nobody") -> str:
        """Go on with it days later, in another process, after an answer."""
        done = run("-c", DAYS_LATER, str(days), answer, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def why(self) -> list[str]:
        """Return what `why` says, line by line."""
        return self.steptrail("why", "doc").splitlines()

    def files(self, kind: str) -> list[str]:
        """Return the effects that the world has seen."""
        return sorted(path.stem for path in (self.outside / kind).glob("*.json"))

    def starts(self, node: str) -> list[tuple[str, int]]:
        """Return effect id and attempt of each try of a node."""
        with Steptrail.open_sync(f"sqlite:///{self.folder / 'runs.db'}") as trail:
            stored = [record.event for record in trail.flow("doc").events()]
        made = [event for event in stored if isinstance(event, NodeAttemptStarted) and event.node == node]
        return [(event.effect_id, event.attempt) for event in made]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_flaky_index_a_yes_days_later_and_a_lost_message(desk: Desk) -> None:
    (desk.outside / "index-is-away").write_text("2")
    (desk.outside / "mail-is-away").touch()
    desk.begin(PIPELINE_MODEL="local")
    assert [attempt for _, attempt in desk.starts("index")] == [1, 2, 3]
    assert desk.why()[0].startswith('flow:doc: waiting for an answer to "review"')
    assert desk.files("published") == []

    assert desk.later(5, "yes") == "completed"

    assert (desk.files("index"), desk.files("published"), desk.files("mails")) == (
        ["doc_1_index_1"],
        ["doc_1_release_1"],
        [],
    )
    assert len(desk.starts("summary")) == 1
    lines = desk.why()
    assert lines[0] == "flow:doc: completed with 1 recorded error (completed): nothing was left to do"
    assert any("notify" in line and "mail.example is not there" in line for line in lines), lines


def test_a_kill_in_the_middle_of_a_release_publishes_once(desk: Desk) -> None:
    desk.begin()
    desk.steptrail("answer", "doc", "review", "--approve", "--by", "ana")
    command = [sys.executable, "-m", "steptrail", "resume", FLOW, "doc", "--store", STORE]
    slow = subprocess.Popen(
        command, cwd=desk.folder, env=environment(PIPELINE_SLOW="60"), stdout=subprocess.DEVNULL, text=True
    )
    until(lambda: desk.files("published"), slow)
    slow.send_signal(signal.SIGKILL)
    slow.wait()

    # The lease of the dead process is free at once on this machine.
    desk.steptrail("resume", FLOW, "doc")

    assert desk.starts("release") == [("doc:1:release:1", 1), ("doc:1:release:1", 2)]
    assert (desk.files("published"), desk.files("mails")) == (["doc_1_release_1"], ["doc_1_notify_1"])
    assert [len(desk.starts(node)) for node in ("parse", "summary", "index", "notify")] == [1, 1, 1, 1]
    assert desk.why()[0] == "flow:doc: completed (completed): nothing was left to do"


def test_an_index_that_stays_away_fails_the_run_and_a_retry_goes_on_there(desk: Desk) -> None:
    (desk.outside / "index-is-away").write_text("5")
    desk.begin(exits=1)
    lines = desk.why()
    assert lines[0] == (
        'flow:doc: failed, node "index" failed after 5 attempts (retry_limit), decided by RunPolicy: '
        "continue_on_error is off"
    )
    desk.steptrail("retry", FLOW, "doc", exits=4)
    assert len(desk.starts("summary")) == 1
    assert desk.files("index") == ["doc_1_index_1"]


def test_a_no_is_a_stop_and_nobody_in_time_is_a_failure(desk: Desk) -> None:
    desk.begin()
    assert desk.later(1, "no") == "failed"
    assert desk.why()[0] == (
        'flow:doc: failed, node "approved" failed (guard), decided by RunPolicy: continue_on_error is off'
    )
    assert (desk.files("published"), desk.files("mails")) == ([], [])


def test_nobody_in_time(desk: Desk) -> None:
    desk.begin()
    assert desk.later(6) == "waiting"
    assert desk.later(8) == "failed"
    assert 'node "review" failed' in desk.why()[0]


def test_a_stop_says_who_and_why(desk: Desk) -> None:
    desk.begin()
    desk.steptrail("stop", "doc", "--by", "ana", "--reason", "the wrong document")
    desk.steptrail("resume", FLOW, "doc", exits=3)
    assert "the wrong document" in "\n".join(desk.why())
    assert desk.why()[0].startswith("flow:doc: stopped")


def test_a_document_without_a_text_fails_at_once(desk: Desk) -> None:
    desk.steptrail("run", FLOW, '{"document": "On tea"}', "--id", "doc", exits=1)
    assert any("a document has a title on its first line" in line for line in desk.why())
    assert desk.starts("summary") == []
