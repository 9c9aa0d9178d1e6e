"""The page of public views says what the code makes, and no column that people use goes unnoticed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("views_page", root / "scripts" / "views_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_list_of_columns_are_fresh(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert (script.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_a_column_that_is_gone_moved_or_of_another_type_is_noticed_and_a_new_one_is_not(script: ModuleType) -> None:
    before = ["runs id text", "runs cost dollars", "tools name text"]
    assert list(script.broken(before, before)) == []
    assert list(script.broken(before, [*before[:2], "runs new text", before[2], "more name text"])) == []
    assert list(script.broken(before, before[1:])) == ["runs"]
    assert list(script.broken(before, [before[1], before[0], before[2]])) == ["runs"]
    assert list(script.broken(before, ["runs id integer", *before[1:]])) == ["runs"]
    assert list(script.broken(before, before[:2])) == ["tools"]


def test_a_view_less_is_refused_and_nothing_is_written(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    face = script.RUNS_FACE
    for name in ("PAGE", "COLUMNS"):
        copy = tmp_path / name
        copy.write_text(getattr(script, name).read_text("utf-8"), "utf-8")
        monkeypatch.setattr(script, name, copy)
    monkeypatch.setattr(script, "RUNS_FACE", face._replace(views=face.views[1:]))
    before = (tmp_path / "COLUMNS").read_text("utf-8")
    assert script.main([]) == 1
    assert "are gone or have moved: executions" in capsys.readouterr().err
    assert (tmp_path / "COLUMNS").read_text("utf-8") == before
    assert script.main(["--break"]) == 0
    assert "\nexecutions " not in "\n" + (tmp_path / "COLUMNS").read_text("utf-8")
    assert script.main(["--chekc"]) == 2
