"""The slow disk of the peers: each sync counts and is followed by a sleep."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers.disks import NoShim, build_shim, with_shim

COMMITS = """
import sqlite3
from benchmarks.peers.child import watched
connection = sqlite3.connect("a.db", isolation_level=None)
for setting in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t (a)"):
    connection.execute(setting).fetchall()
with watched() as figures:
    for _ in range(7):
        connection.execute("INSERT INTO t VALUES (1)")
print(figures.syncs)
"""


AROUND = """
import subprocess, sys
from benchmarks.peers.child import watched
with watched() as figures:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
print(figures.syncs)
"""


def printed(folder: Path, environment: dict[str, str], *before: str, code: str = COMMITS, given: str = "") -> str:
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [*before, sys.executable, "-c", code, given]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_each_sync_counts_and_sleeps_for_as_long_as_was_asked(tmp_path: Path) -> None:
    environment, trace = with_shim({}, build_shim(tmp_path), 1.25), tmp_path / "trace"
    preloaded = environment.pop("LD_PRELOAD")
    strace = ["strace", "-f", "-qq", "-E", f"LD_PRELOAD={preloaded}", "-o", str(trace)]
    calls = "-e", "trace=fsync,fdatasync,nanosleep,clock_nanosleep"
    assert printed(tmp_path, environment, *strace, *calls) == "7\n"
    made = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    pairs = list(zip(made[::2], made[1::2], strict=True))
    assert len(pairs) >= 7
    for sync, sleep in pairs:
        assert sync.startswith(("fsync(", "fdatasync("))
        assert "tv_nsec=1250000}" in sleep


def test_a_process_that_the_measured_one_starts_counts_with_it(tmp_path: Path) -> None:
    environment = with_shim({}, build_shim(tmp_path), 0)
    # The one that is started opens the database too, which takes syncs of its own.
    said = printed(tmp_path, environment, code=AROUND, given=COMMITS).split()
    assert int(said[1]) >= int(said[0]) == 7


def test_without_a_delay_syncs_only_count(tmp_path: Path) -> None:
    assert printed(tmp_path, with_shim({}, build_shim(tmp_path), 0)) == "7\n"


def test_without_the_library_nobody_counts_and_no_disk_is_slow(tmp_path: Path) -> None:
    assert printed(tmp_path, with_shim({}, None, 0)) == "None\n"
    with pytest.raises(ValueError, match="slower"):
        with_shim({}, None, 2)


def test_without_a_compiler_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoShim, match="no C compiler"):
        build_shim(tmp_path)
