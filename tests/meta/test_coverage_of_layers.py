"""Each layer is held to the share of its lines and branches that tests run."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.coverage_of_layers import Layer, complaints, main, measured


def file(lines: tuple[int, int], branches: tuple[int, int]) -> dict[str, Any]:
    numbers = zip(
        ("covered_lines", "num_statements", "covered_branches", "num_branches"), lines + branches, strict=True
    )
    return {"summary": {**dict(numbers), "percent_covered": 12.5, "percent_covered_display": "12"}}


REPORT = {
    "files": {
        "domain/agent/state.py": file((8, 8), (2, 4)),
        "domain/__init__.py": file((0, 0), (0, 0)),
        "domain/usage.py": file((1, 2), (1, 2)),
        "runtime/loop.py": file((3, 4), (0, 0)),
    }
}


def test_lines_and_branches_of_a_layer_are_summed_and_not_averaged() -> None:
    assert measured(REPORT) == [
        Layer("domain", lines=90.0, branches=50.0, percent=75.0),
        Layer("runtime", lines=75.0, branches=100.0, percent=75.0),
    ]


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
    assert main(json.dumps(REPORT), {"domain": 70, "runtime": 74}) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.endswith("raise it") for line in told] == [False, True, False]
    assert main(json.dumps(REPORT), {"domain": 76, "runtime": 74}) == 1
    assert capsys.readouterr().err == "coverage: domain: 75.0 percent is less than the 76 of pyproject.toml\n"


def test_each_layer_has_a_number(root: Path) -> None:
    asked = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["steptrail"]["coverage"]
    layers = {path.name for path in (root / "src" / "steptrail").iterdir() if path.is_symlink()}
    assert asked.keys() == layers | {"src"}
    assert all(0 < number <= 100 for number in asked.values())
