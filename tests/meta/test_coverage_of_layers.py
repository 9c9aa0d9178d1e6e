"""Each layer is held to the share of its lines and branches that tests run."""

import json
import sys
import tomllib
from contextlib import suppress
from importlib import util
from pathlib import Path
from typing import Any

import pytest

import steptrail.domain
from scripts.coverage_of_layers import Layer, complaints, main, measured, report_of
from scripts.measuring import Finder, compiled, measured_library


def file(lines: tuple[int, int], branches: tuple[int, int]) -> dict[str, Any]:
    """What was run and what was missed."""
    names = ("covered_lines", "missing_lines", "covered_branches", "missing_branches")
    return {"summary": {**dict(zip(names, lines + branches, strict=True)), "percent_covered": 12.5}}


REPORT = {
    "files": {
        "src/steptrail/domain/agent/state.py": file((8, 0), (2, 2)),
        "src/steptrail/domain/__init__.py": file((0, 0), (0, 0)),
        "src/steptrail/domain/usage.py": file((1, 1), (1, 1)),
        "src/steptrail/runtime/loop.py": file((3, 1), (0, 0)),
    }
}


def test_lines_and_branches_of_a_layer_are_summed_and_not_averaged() -> None:
    assert measured(REPORT) == [
        Layer("domain", lines=90.0, branches=50.0, percent=75.0),
        Layer("runtime", lines=75.0, branches=100.0, percent=75.0),
    ]


def test_what_is_beside_the_layers_is_src_also_in_a_folder() -> None:
    report = {"files": {f"src/steptrail/{name}.py": file((1, 1), (0, 0)) for name in ("agent", "tools/__init__")}}
    assert measured(report) == [Layer("src", lines=50.0, branches=100.0, percent=50.0)]


def seen(when: str) -> dict[str, Any]:
    """Return what a worker tells that read this instant, and imported nothing else."""
    measuring = measured_library()
    spec = Finder(measuring).find_spec("steptrail.domain.instants", steptrail.domain.__path__)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with suppress(ValueError):
        module.from_iso(when)
    told: dict[str, Any] = json.loads(json.dumps(measuring.get_coverage()))
    return told


def test_what_workers_saw_is_added_up(tmp_path: Path) -> None:
    (report,) = seen("2026-01-01T00:00:00Z")["files"].values()
    (other,) = seen("2026-01-01T00:00:00")["files"].values()
    (missing,) = report["missing_branches"]
    assert other["executed_branches"] == [missing]
    assert other["missing_branches"] == report["executed_branches"]
    for name, when in (("gw0", "2026-01-01T00:00:00Z"), ("gw1", "2026-01-01T00:00:00")):
        (tmp_path / f"{name}.json").write_text(json.dumps(seen(when)), encoding="utf-8")
    (both,) = report_of(tmp_path)["files"].values()
    assert both["missing_branches"] == []
    assert set(both["executed_lines"]) == {*report["executed_lines"], *other["executed_lines"]}
    assert both["missing_lines"], "nobody asked for the seconds between two instants"


def test_what_was_compiled_is_kept_until_the_text_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    module = tmp_path / "module.py"
    module.write_text("if __name__:\n    x = 1\n", encoding="utf-8")
    first = compiled(str(module))
    assert (first.lines, first.branches) == ({1, 2}, {(1, 2), (1, 0)})
    with monkeypatch.context() as without_slipcover:
        without_slipcover.delattr("scripts.measuring.preinstrument")
        assert compiled(str(module)) == first

    module.write_text("if __name__:\n    x = 1\n    y = 2\n", encoding="utf-8")
    second = compiled(str(module))
    assert second.lines == {1, 2, 3}

    (kept,) = (path for path in (tmp_path / "kept").rglob("*") if path.is_file())
    kept.write_bytes(kept.read_bytes()[:100])
    assert compiled(str(module)) == second


def test_a_run_without_workers_measures_nothing_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no worker wrote into"):
        report_of(tmp_path)


def test_a_layer_below_its_number_is_named() -> None:
    assert list(complaints(measured(REPORT), {"domain": 75, "runtime": 75})) == []
    assert list(complaints(measured(REPORT), {"domain": 75.1, "runtime": 75})) == [
        "domain: 75.0 percent is less than the 75.1 of pyproject.toml"
    ]


def test_a_layer_without_a_number_and_a_number_without_a_layer_are_named() -> None:
    assert list(complaints(measured(REPORT), {"domain": 0, "projections": 0})) == [
        "projections is in pyproject.toml only",
        "runtime is in the report only",
    ]


def test_the_run_fails_below_a_number_and_says_what_could_be_raised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(REPORT, {"domain": 70, "runtime": 74}) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.endswith("raise it") for line in told] == [False, True, False]
    assert main(REPORT, {"domain": 76, "runtime": 74}) == 1
    assert capsys.readouterr().err == "coverage: domain: 75.0 percent is less than the 76 of pyproject.toml\n"


def test_each_layer_has_a_number(root: Path) -> None:
    asked = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["steptrail"]["coverage"]
    layers = {path.name for path in (root / "src" / "steptrail").iterdir() if path.is_symlink()}
    assert asked.keys() == layers | {"src"}
    assert all(0 < number <= 100 for number in asked.values())
