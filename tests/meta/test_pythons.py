"""The Pythons that we say we support are those that are tested."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts import pythons
from scripts.pythons import interpreter, main, supported


@pytest.fixture
def project(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


@pytest.fixture
def workflow(root: Path) -> str:
    return (root / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def shim(folder: Path, version: str, answer: str) -> Path:
    path = folder / f"python{version}"
    path.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_oldest_python_is_the_first_that_is_named(project: dict[str, Any]) -> None:
    assert project["requires-python"] == f">={supported()[0]}"
    minors = [int(version.removeprefix("3.")) for version in supported()]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_the_hosted_workflow_tests_each_of_them_and_all_on_the_oldest(workflow: str) -> None:
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", workflow, re.MULTILINE)
    assert [version.strip(' "') for version in matrix.split(",")] == supported()
    assert re.findall(r"if: matrix\.python ([!=]=) '(.+)'", workflow) == [
        ("==", supported()[0]),
        ("!=", supported()[0]),
        ("==", supported()[0]),
    ]


def test_the_hosted_workflow_runs_commands_that_exist(workflow: str, root: Path) -> None:
    ci, *made = re.findall(r"^ +run: (.+)$", workflow, re.MULTILINE)
    assert (root / ci).stat().st_mode & 0o100
    for command in made:
        subprocess.run([*command.split(), "--dry-run"], cwd=root, check=True, capture_output=True)


def test_an_interpreter_is_one_that_answers_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("path", "pyenv/versions/3.90.1/bin"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert interpreter("3.90") is None
    shim(tmp_path / "path", "3.90", "echo 'command not found' >&2; exit 127")
    assert interpreter("3.90") is None
    shim(tmp_path / "path", "3.90", "echo 3.9")
    assert interpreter("3.90") is None
    answers = shim(tmp_path / "pyenv" / "versions" / "3.90.1" / "bin", "3.90", "echo 3.90")
    assert interpreter("3.90") == answers


def test_that_no_other_python_is_here_is_said_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(version: str) -> None:
        del version

    monkeypatch.setattr(pythons, "interpreter", nothing)
    monkeypatch.setattr(pythons, "supported", lambda: ["3.90", "3.91"])
    assert main([]) == 0
    assert "no Python 3.90 on this machine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "tried"),
    [
        (["-k", "x"], ["python3.90", "python3.91"]),
        (["--newest", "-k", "x"], ["python3.91"]),
        (["--newest"], ["python3.91"]),
    ],
)
def test_each_that_is_here_is_tried_or_only_the_newest(
    arguments: list[str], tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], *, cwd: Path) -> subprocess.CompletedProcess[str]:
        del cwd
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    def found(version: str) -> Path | None:
        return None if version == "3.92" else Path(f"/nowhere/python{version}")

    monkeypatch.setattr(pythons, "interpreter", found)
    monkeypatch.setattr(pythons, "supported", lambda: ["3.90", "3.91", "3.92"])
    monkeypatch.setattr("subprocess.run", run)
    assert main(arguments) == 0
    makes, tests = ran[::2], ran[1::2]
    assert [next(word for word in make if word.startswith("PYTHON=")) for make in makes] == [
        f"PYTHON=/nowhere/{name}" for name in tried
    ]
    assert all(command[-2:] == ["-k", "x"] or command[-1] == "-q" for command in tests)


@pytest.mark.parametrize("failing", ["make", "pytest"])
def test_a_python_on_which_the_tests_fail_is_named(
    failing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *, cwd: Path) -> subprocess.CompletedProcess[str]:
        del cwd
        return subprocess.CompletedProcess(command, int(failing in command))

    def found(version: str) -> Path:
        return Path(f"/nowhere/python{version}")

    monkeypatch.setattr(pythons, "interpreter", found)
    monkeypatch.setattr(pythons, "supported", lambda: ["3.90"])
    monkeypatch.setattr("subprocess.run", run)
    assert main([]) == 1
    assert "failed on 3.90" in capsys.readouterr().err
