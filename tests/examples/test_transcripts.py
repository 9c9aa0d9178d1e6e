"""What the README shows of the demo is what it prints, but for what another model or machine has other numbers of."""

import re
from pathlib import Path

import pytest

from demo import a_limit, an_order
from folder import Folder
from model import ModelKind

README = Path(__file__).parents[2] / "README.md"
MEASURED = re.compile(r"process \d+|[\d,]*\d(\.\d+)? (tokens|s)\b|\d+\.\d+s|\d+/32768")


def shown(beginning: str) -> list[str]:
    """Return the lines of the README's transcript that begins like that."""
    blocks = re.findall(r"^```text\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return told(found)


def told(text: str) -> list[str]:
    """Return the lines as they are in every run."""
    return [" ".join(MEASURED.sub("N", line).split()) for line in text.splitlines() if line.strip()]


def test_the_transcript_of_a_kill_has_lines_of_the_demo_in_their_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert all(proof.holds for proof in an_order(Folder(tmp_path), ModelKind.SCRIPTED))
    printed = iter(told(capfd.readouterr().out))
    # What is left out of the README is left out between these lines.
    missing = [line for line in shown("#8 ") if line not in printed]
    assert missing == []


def test_the_transcript_of_why_is_what_why_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert all(proof.holds for proof in a_limit(Folder(tmp_path), ModelKind.SCRIPTED))
    printed = told(capfd.readouterr().out)
    expected = shown("$ steptrail why endless")
    assert printed[printed.index(expected[0]) :] == expected
