"""What is wrong to call is refused before it runs: each marked line of `bad_calls.txt`, and no other."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = (Path(__file__).parent / "bad_calls.txt").read_text(encoding="utf-8")
MARK = re.compile(r"# mypy: (.+)$")
EXPECTED = {
    number: sorted(match[1].split(", "))
    for number, line in enumerate(SOURCE.splitlines(), 1)
    if (match := MARK.search(line))
}


@pytest.fixture
def bad_calls(tmp_path: Path) -> Path:
    # As a module of the repository it would fail every check that it is there to test.
    path = tmp_path / "bad_calls.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_mypy_refuses_each_bad_call_for_its_reason(bad_calls: Path) -> None:
    # Nobody reads the cache, and to write one is a tenth of what mypy takes.
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull]
    run = subprocess.run([*command, str(bad_calls)], cwd=ROOT, capture_output=True, text=True, check=False)
    found: defaultdict[int, list[str]] = defaultdict(list)
    for number, code in re.findall(r"bad_calls\.py:(\d+): error: .*\[([a-z-]+)\]$", run.stdout, re.MULTILINE):
        found[int(number)].append(code)
    assert EXPECTED
    assert {number: sorted(codes) for number, codes in found.items()} == EXPECTED, run.stdout + run.stderr
