"""Run the code blocks of a Markdown file: the blocks of one file share a namespace and a scratch directory."""

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

ROOT = Path(__file__).parents[2]
PROMPT = "$ "
EXPECTED_EXIT = re.compile(r"\s# exit (\d+)\s*$")
SECONDS = 90
"""For one command. Below the limit of a test, so that the message names the command."""


def run_console(example: Example) -> str | None:
    """Run each line after a prompt; what stands between is sample output and is not compared."""
    source: str = example.parsed
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = [line.removeprefix(PROMPT) for line in source.splitlines() if line.startswith(PROMPT)]
    if not commands:
        return f"a console block needs a line that begins with {PROMPT!r}"
    for command in commands:
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
        return len(examples)

    return run
