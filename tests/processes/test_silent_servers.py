"""A worker that is told to end while its server is silent, as behind a firewall that drops everything.

The server would be waited for a quarter of an hour, and who deploys waits for half a minute.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail import Steptrail
from tests.examples.running import until
from tests.harness.postgres_server import PostgresServer
from tests.processes.test_workers import Shop, are_done

PATIENT = "?answer_timeout=1000&connect_timeout=1000"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be stopped without anybody else noticing."""
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("engine", ["", "procrastinate?heartbeat=0.3&stalled_after=1.5"], ids=["looking", "woken"])
def test_a_worker_that_is_told_to_end_while_its_server_is_silent_ends_and_says_what_it_left(
    server: PostgresServer, tmp_path: Path, engine: str
) -> None:
    url = server.url(server.create_database())
    with Shop(url + PATIENT + "&lease_seconds=1", engine, tmp_path) as shop:
        (tmp_path / "gate").touch()
        shop.start("s")
        worker = shop.work("--grace", "1")
        until(lambda: shop.ledger(), worker)
        with server.silent():
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        said = shop.log.read_text(encoding="utf-8")
        assert "draining 1 sessions" in said
        assert "session s was cut off, does not end, and is left behind" in said
        assert "session s was not paused for its caller" in said
        assert "rollback" not in said
        assert "psycopg" not in said
        (tmp_path / "gate").unlink()
        another = shop.work()
        with Steptrail.open_sync(url) as trail:
            until(lambda: are_done(trail, 1), another)
