"""The whole run still works, from the command line to the files it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_run_measures_everything_and_leaves_its_results(tmp_path: Path) -> None:
    out = tmp_path / "results"
    environment = {name: value for name, value in os.environ.items() if name != "STEPTRAIL_BENCH_POSTGRES"}
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
    assert found["importing"]["heavy"] == []
    assert ([store["name"] for store in found["stores"]], found["absent"]) == (["SQLite", "PostgreSQL"], {})

    report = (out / "bench.md").read_text(encoding="utf-8")
    bars = report.rpartition("## Bars\n\n")[2]
    assert bars.strip()
    assert done.stdout.endswith(bars)
    assert str(tmp_path) not in report
    assert "<svg" in (out / "bench.svg").read_text(encoding="utf-8")


def test_the_floor_and_steptrail_run_as_the_peers_do(tmp_path: Path) -> None:
    for variant in ("floor", "default"):
        folder = tmp_path / variant
        folder.mkdir()
        command = [sys.executable, "-m", "benchmarks.peers.run_steptrail", variant, "2", str(folder)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
        assert figures["wall"] > 0
        assert figures["cpu"] > 0
        assert (figures["bytes"] > 0) is (variant == "default")
