"""Run the code blocks of a Markdown file: the blocks of one file share a namespace and a scratch directory."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from steptrail import Steptrail
from tests.harness.ready_python import ready_commands

ROOT = Path(__file__).parents[2]
PROMPT = "$ "
EXPECTED_EXIT = re.compile(r"\s# exit (\d+)\s*$")
SECONDS = 90
"""For one command. Below the limit of a test, so that the message names the command."""


VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8,}(-[0-9a-f]+)*\b"), "ID"),
    (re.compile(r"\d+\.\d+ ?(s|ms)\b"), "DURATION"),
    (re.compile(r"\b(process|pid) \d+"), "PROCESS"),
    (re.compile(r"\s+"), " "),
)
"""What is another in every run: instants, ids, durations, processes, and the width of columns that hold them."""


def without_what_varies(line: str) -> str:
    """Return the line as it is in every run."""
    for pattern, instead in VARIES:
        line = pattern.sub(instead, line)
    return line.strip()


def run_console(example: Example) -> str | None:
    """Run each line after a prompt; what is printed below one is what it has to print, but for what always varies."""
    source: str = example.parsed
    path = os.pathsep.join([str(ready_commands()), str(Path(sys.executable).parent), os.environ["PATH"]])
    before, *commands = re.split(rf"^{re.escape(PROMPT)}", source, flags=re.MULTILINE)
    if before.strip() or not commands:
        return f"a console block begins with {PROMPT!r}"
    for block in commands:
        command, *printed = block.splitlines()
        expected = EXPECTED_EXIT.search(command)
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PATH": path},
        )
        wanted = int(expected.group(1)) if expected else 0
        if done.returncode != wanted:
            return f"`{command}` exited with {done.returncode}, not {wanted}:\n{done.stdout}"
        seen = [without_what_varies(line) for line in done.stdout.splitlines()]
        if printed and [line for line in seen if line] != [without_what_varies(line) for line in printed if line]:
            return f"`{command}` printed something else:\n{done.stdout}"
    return None


@pytest.fixture
def run_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], int]:
    """Return a function that runs a file's `python` and `console` blocks in order and counts them."""

    def run(path: Path) -> int:
        document = Document.parse(str(path), PythonCodeBlockParser(), CodeBlockParser("console", run_console))
        document.namespace["__name__"] = "__main__"
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        # Documents name the examples as a reader in a checkout does, and an example reads the guides.
        shutil.copytree(ROOT / "examples", scratch / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs" / "guides", scratch / "docs" / "guides")
        monkeypatch.chdir(scratch)
        examples = list(document.examples())
        for example in examples:
            example.evaluate()
        # The trail of a service is closed where the service ends, which is beyond the page.
        for trail in document.namespace.values():
            if isinstance(trail, Steptrail):
                asyncio.run(trail.close())
        return len(examples)

    return run
