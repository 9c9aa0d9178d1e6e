"""The benchmark of a fleet still works: sessions are started, workers carry them on, and each says what that cost."""

import json
from pathlib import Path

import pytest

from benchmarks.fleet.__main__ import main
from benchmarks.servers import VARIABLE
from tests.harness.postgres_server import PostgresServer


def test_workers_carry_on_the_sessions_of_a_database_and_the_report_says_how_many_steps_a_second(
    tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, postgres_server.url("postgres"))
    sizes = "--workers 2 --sessions 3 --steps 2 --passes 1 --commit-ms 1 --waiting 2 --waiting-seconds 0.2"
    main(["--alone", *sizes.split(), "--out", str(tmp_path)])
    written = json.loads((tmp_path / "fleet.json").read_bytes())
    ways = [(each["way"], each["sessions"], each["wakes"]) for each in written["idle"]]
    assert ways == [("work", 0, 0), ("work", 2, 0), ("woken", 0, 0), ("woken", 2, 0)]
    found = written["contenders"]
    assert [(each["name"], each["failed"]) for each in found] == [
        ("the rows of Steptrail, written by as many processes", None),
        ("Steptrail, work", None),
    ]
    for contender in found:
        (condition,) = contender["conditions"]
        (cost,) = condition["passes"]
        assert cost["cpu"] > 0 < cost["wall"]
    assert "3 sessions of 2 steps, commits that last 1 ms longer" in (tmp_path / "fleet.md").read_text()
