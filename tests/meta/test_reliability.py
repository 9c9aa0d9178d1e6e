"""The page of the crash matrix has the rows of the code, and its check notices when it does not."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from steptrail.runtime.faults import FAULT_POINTS


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("crash_matrix_script", root / "scripts" / "crash_matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stored(root: Path) -> str:
    return (root / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_the_page_has_the_rows_of_the_code(root: Path) -> None:
    command = [sys.executable, "scripts/crash_matrix.py", "--check"]
    checked = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_another_fault_point_makes_the_page_stale(
    script: ModuleType, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(script.complaints(stored)) == []
    monkeypatch.setattr(script, "FAULT_POINTS", (*FAULT_POINTS, "before-breakfast"))
    assert any("its rows for sqlite" in complaint for complaint in script.complaints(stored))


def test_a_broken_promise_on_the_page_is_no_page_to_publish(script: ModuleType, stored: str) -> None:
    lines = script.read_rows(stored)
    for broken in (
        lines[0]._replace(events_lost=1),
        lines[0]._replace(same_outcome=lines[0].kills - 1),
        lines[0]._replace(kills=0, log_whole=0, same_outcome=0),
    ):
        text = script.page([broken, *lines[1:]])
        assert any("a promise is broken" in complaint for complaint in script.complaints(text))


@pytest.mark.parametrize(
    "change", [("# Reliability", "# Wishes"), ("| sqlite |", "| sqlite  |"), ("| ---: |", "| --- |")]
)
def test_a_page_that_was_edited_by_hand_is_noticed(script: ModuleType, stored: str, change: tuple[str, str]) -> None:
    assert list(script.complaints(stored.replace(*change, 1))) != []
    assert list(script.complaints("")) != []
