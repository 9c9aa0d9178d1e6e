"""The command line on a server: the same commands, and what is different when something is wrong with it."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cli import Cli, until
from tests.harness.postgres_server import PostgresServer
from tests.harness.ready_python import KILL
from tests.harness.worker_pool import WorkerPool

WAITING = """
import time
from pathlib import Path

from steptrail.events import ToolExecutionStarted
from steptrail.projections import Column, ColumnKind, Projection, Table

WHERE = Column("position", ColumnKind.INTEGER, "where")
CALLS = Table(name="v1_waiting", says="one row for each call", columns=(WHERE,), key=("position",))


class Waiting(Projection):
    name, version, prefixes, types, tables = "waiting", 1, ("agent:",), (ToolExecutionStarted.TYPE,), (CALLS,)

    def begin(self, stream):
        return 0

    def apply(self, fold, entry, changes):
        Path("at-work").touch()
        while not Path("open").exists():
            time.sleep(0.01)
        return fold
"""
EXPIRE = "UPDATE steptrail.leases SET expires = clock_timestamp()"


@pytest.fixture
def cli(tmp_path: Path, pool: WorkerPool, postgres_url: str) -> Iterator[Cli]:
    made = Cli(tmp_path, pool, postgres_url)
    yield made
    made.close()


def test_given_a_run_on_a_server_then_every_command_reads_it_and_nothing_lies_in_the_folder(cli: Cli) -> None:
    ran = cli("run", "agents.py", "hi", "--id", "s1")
    assert (ran.code, ran.err, ran.lines[-1]) == (0, "", "hello")
    assert cli("send", "agents.py", "s1", "and again").lines[-1] == "hello again"
    assert [row["sessionId"] for row in cli("runs", "--json").json] == ["s1"]
    assert cli("show", "s1", "--json").json["status"] == "completed"
    assert cli("show", "s1", "--at", "3").code == 0
    assert cli("why", "s1").lines[0].startswith("s1: completed")
    tailed = cli("tail", "s1", "--json")
    assert (tailed.code, len(tailed.lines)) == (0, cli("show", "s1", "--json").json["version"])
    assert cli("doctor").lines[-1].endswith(": healthy")
    assert cli.files == {"agents.py", "ledger"}


def test_given_a_killed_run_on_a_server_then_it_is_owned_until_its_lease_expires_and_then_goes_on(
    cli: Cli, postgres_server: PostgresServer, postgres_database: str
) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    running.send_signal(KILL)
    running.wait()
    busy = cli("resume", "agents.py:steps", "s1")
    assert busy.code == 5
    assert "whose lease ends in " in busy.err

    postgres_server.execute(EXPIRE, database=postgres_database)
    found = {finding["check"]: finding["what"] for finding in cli("doctor", "--json").json["findings"]}
    assert found["leases"].startswith("left behind by ")
    assert found["open effects"].startswith("gated (s1:1:1:1) was started and has not ended")
    (cli.folder / "open").touch()
    assert cli("resume", "agents.py:steps", "s1").lines[-1] == "all three"
    assert cli("doctor", "--json").json["findings"] == []


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_given_a_rebuild_on_a_server_that_is_told_to_end_then_it_leaves_no_lease_behind(
    cli: Cli, how: signal.Signals, code: int
) -> None:
    (cli.folder / "waiting.py").write_text(WAITING, encoding="utf-8")
    cli("run", "agents.py", "hi", "--id", "s1")
    rebuild = ("rebuild", "--projection", "waiting.py:Waiting")
    running = cli.start(*rebuild)
    while not (cli.folder / "at-work").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    running.send_signal(how)
    (cli.folder / "open").touch()  # what is under way is ended first
    assert running.communicate() == ("", "")
    assert running.returncode == code
    again = cli(*rebuild)
    assert (again.code, again.err) == (0, "")
    assert cli("doctor", "--json").json["findings"] == []


def test_given_a_running_session_on_a_server_then_others_can_stop_it(cli: Cli) -> None:
    running = cli.start("run", "agents.py:slow", "hi", "--id", "s1")
    until(running, "called")
    assert cli("why", "s1", "--json").json["owned"] is True
    assert cli("stop", "s1").code == 0
    running.communicate()
    assert running.returncode == 3
    assert cli("show", "s1", "--json").json["stopReason"] == "user_requested"


def test_given_damage_on_a_server_then_the_doctor_names_it(
    cli: Cli, postgres_server: PostgresServer, postgres_database: str
) -> None:
    assert cli("run", "agents.py", "hi", "--id", "s1").code == 0
    postgres_server.execute(
        "UPDATE steptrail.events SET state = '' WHERE version = 5",
        "DELETE FROM steptrail.events WHERE version = 8",
        database=postgres_database,
    )
    seen = cli("doctor", "--json")
    assert (seen.code, seen.json["healthy"]) == (1, False)
    assert ("records", "agent:s1", 5) in {(f["check"], f["stream"], f["position"]) for f in seen.json["findings"]}
    assert "digest chain" in {finding["check"] for finding in seen.json["findings"]}


@pytest.mark.parametrize("words", [["runs"], ["why", "s1"], ["doctor"], ["tail"], ["pause", "s1"]])
def test_given_a_database_without_a_store_then_one_line_says_so_and_none_is_made(
    cli: Cli, words: list[str], postgres_server: PostgresServer, postgres_database: str
) -> None:
    refused = cli(*words)
    assert (refused.code, refused.out) == (2, "")
    assert len(refused.err.splitlines()) == 1
    assert "there is no store in postgresql://postgres@" in refused.err
    assert postgres_server.execute("SELECT to_regnamespace('steptrail')", database=postgres_database) == [(None,)]


def test_given_a_server_that_is_not_there_then_one_line_says_so_without_the_password(cli: Cli) -> None:
    refused = cli("runs", "--store", "postgresql://ana:s3cr3t@127.0.0.1:1/runs")
    assert (refused.code, refused.out) == (7, "")
    assert len(refused.err.splitlines()) == 1
    assert "postgresql://ana@127.0.0.1:1/runs cannot be reached" in refused.err
    assert "s3cr3t" not in refused.err
