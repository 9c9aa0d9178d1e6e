"""The command line in the process of the tests, so that it is quick."""

import sys
from pathlib import Path

import pytest

from steptrail.interfaces.cli.main import main
from tests.unit.cli.command import Type, Typed


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Carries out a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("STEPTRAIL_STORE", raising=False)

    def run(*words: str) -> Typed:
        code = main(words)
        out, err = capsys.readouterr()
        return Typed(code, out, err)

    return run
