"""The whole run still works, from the command line to the files it leaves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.contenders import FLOOR, FULL, NORMAL, Condition, contenders, measure
from benchmarks.peers.disks import build_shim
from benchmarks.peers.scenarios import Scenario
from benchmarks.servers import VARIABLE, open_postgres
from tests.harness.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]


# Half a minute of processor time, of which a machine with much else to do may give it a tenth.
@pytest.mark.timeout(900)
def test_a_run_measures_everything_and_leaves_its_results(tmp_path: Path, postgres_server: PostgresServer) -> None:
    out = tmp_path / "results"
    environment = {**os.environ, VARIABLE: postgres_server.url("postgres")}
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["bench.json", "bench.md", "bench.svg"]

    found = json.loads((out / "bench.json").read_bytes())
    sqlite = found["stores"][0]
    assert sqlite["name"] == "SQLite"
    assert [figures["steps"] for figures in sqlite["steps"]] == found["plan"]["sizes"]
    assert [figures["sessions"] for figures in sqlite["sessions"]] == found["plan"]["sessions"]
    assert sqlite["syncs"]["a_step"] >= 2
    assert sqlite["growth"]["steps"] == max(found["plan"]["sizes"])
    assert [each["sessions"] for each in sqlite["waiting"]] == found["plan"]["waiting"]
    assert sqlite["followers"]["time"]["floor_cpu_ms"] > 0
    assert [each["nodes"] for each in sqlite["chains"]] == found["plan"]["chains"]
    fans = [(each["status"], each["recorded"], each["at_most"]) for each in sqlite["fans"]]
    assert fans == 2 * [("completed", 0, 8), ("completed", 7, 8), ("failed", 0, 8)]
    assert re.match(r"[0-9a-f]{7,} of \d{4}-\d\d-\d\d", found["code"]["commit"])
    ways_in = {each["what"]: set(each["heavy"]) for each in found["importing"]}
    assert list(ways_in) == ["import steptrail", "steptrail --help", "steptrail runs", "steptrail why"]
    assert ways_in["import steptrail"] <= {"pydantic"}
    assert "sqlite3" in ways_in["steptrail why"]
    assert ([store["name"] for store in found["stores"]], found["absent"]) == (["SQLite", "PostgreSQL"], {})

    several = found["stores"][1]["several"]
    assert [(each["fleet"]["processes"], each["commit_ms"]) for each in several] == [(2, 1)]

    report = (out / "bench.md").read_text(encoding="utf-8")
    bars = report.partition("## Bars\n\n")[2].partition("\n\n")[0]
    assert done.stdout.endswith(f"{bars}\n")
    assert [bar["what"] for bar in found["bars"]] == [
        line.split(" | ")[0].strip("| ") for line in bars.splitlines()[2:]
    ]
    assert {bar["what"] for bar in found["bars"] if bar["held"] is None} == {
        bar["what"] for bar in found["bars"] if bar["absent"]
    }
    assert str(tmp_path) not in report
    assert "<svg" in (out / "bench.svg").read_text(encoding="utf-8")


async def test_without_a_server_to_measure_on_one_is_started_that_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    async with open_postgres() as site:
        assert site.settings()["fsync"] == "on"


@pytest.mark.parametrize("scenario", Scenario)
def test_the_floor_and_steptrail_run_as_the_peers_do(tmp_path: Path, scenario: Scenario) -> None:
    alone = Condition(sessions=1, steps=4, delay_ms=0.5, scenario=scenario)
    together = Condition(sessions=2, steps=1, delay_ms=0, scenario=scenario)
    everybody = contenders(tmp_path / "environments", ["nobody"], scenario)
    shim = build_shim(tmp_path)
    # At once only the default: what the variants change is seen of one session.
    turns = [*((each, alone) for each in everybody), (everybody[1], together)]
    for each, condition in turns:
        measure(each, condition, tmp_path, shim)
        assert each.why_not(condition) is None
    syncs = {each.name: each.syncs_a_step(alone) or 0 for each in everybody}
    assert list(syncs) == [FLOOR, FULL, NORMAL]
    assert syncs[NORMAL] <= syncs[FULL] / 2
    sizes = {each.name: each.found[alone][0].bytes for each in everybody}
    assert sizes[FLOOR] == 0 < sizes[FULL]
