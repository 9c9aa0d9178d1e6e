"""A process is killed while resources are open: another one has the context, opens its own, and the end is the same."""

import sqlite3
from contextlib import closing

from steptrail.domain.agent.events import ExecutionStarted, ToolExecutionCompleted
from tests.processes.agents.agents import SECRET
from tests.processes.stage import COMPLETED, Stage, on_both_stores


@on_both_stores
def test_another_process_goes_on_without_the_data_given_and_opens_its_own(stage: Stage) -> None:
    assert stage.perform("run", "told").code == -9
    assert stage.ledger.counts() == {"open": 1, "look": 1}
    assert stage.perform("resume", "told").result == COMPLETED
    # What the killed process had open nobody closes; the other one closes its own.
    assert stage.ledger.counts() == {"open": 2, "look": 2, "close": 1}
    assert [event.context for event in stage.of(ExecutionStarted)] == [{"tenant": "acme"}]
    assert [event.result for event in stage.of(ToolExecutionCompleted)] == ["orders of acme"]


def test_the_secret_of_a_resource_is_nowhere_in_the_file(stage: Stage) -> None:
    assert stage.perform("run", "told").code == -9
    assert stage.perform("resume", "told").result == COMPLETED
    files = [file for file in stage.folder.glob("runs.db*") if file.is_file()]
    stored = b"".join(file.read_bytes() for file in files)
    with closing(sqlite3.connect(stage.folder / "runs.db")) as database:
        stored += "\n".join(database.iterdump()).encode()
    assert (b"orders of acme" in stored, SECRET.encode() in stored) == (True, False)
