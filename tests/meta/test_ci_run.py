"""Whatever fails in `.ci/run`, before the tests, in them or aside, fails the run; and what is aside is shown."""

import subprocess
from pathlib import Path

import pytest

STUB = """#!/bin/sh
for target; do :; done
case "$*" in *PYTEST_ARGS*) target=$(printf '%s' "$*" | cut -d' ' -f2);; esac
echo "made $target"
[ "$target" != coverage ] || [ "$FAILING" = silence ] || echo '10 passed, 2 warnings in 0.1s'
[ "$target" != "$FAILING" ]
"""
PYTHON = """#!/bin/sh
echo "made fragment"
echo "compiles ${PYTHONDONTWRITEBYTECODE:+not }into $PYTHONPYCACHEPREFIX"
[ "$FAILING" != fragment ]
"""
STEPS = ("setup", "lint", "contracts", "fragment", "types", "smoke", "pythons", "coverage", "demo")


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    files = {
        ".ci/run": (root / ".ci" / "run").read_text(encoding="utf-8"),
        "bin/make": STUB,
        "venv/bin/python": PYTHON,
        "examples/demo/demo.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


def run(checkout: Path, failing: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{checkout / 'bin'}:/usr/bin:/bin", "VENV": str(checkout / "venv"), "FAILING": failing}
    environment |= variables
    return subprocess.run([checkout / ".ci" / "run"], env=environment, capture_output=True, text=True)


def test_when_nothing_fails_every_step_was_made_and_the_tests_are_counted(checkout: Path) -> None:
    done = run(checkout, "nothing")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert sorted(line.removeprefix("made ") for line in lines if line.startswith("made ")) == sorted(STEPS)
    assert lines[-1] == "10 passed, 0 failed"


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_fails_the_run(step: str, checkout: Path) -> None:
    done = run(checkout, step)
    assert done.returncode != 0
    assert f"made {step}" in done.stdout
    assert "0 failed" not in done.stdout


def test_a_run_in_which_no_test_passed_fails(checkout: Path) -> None:
    done = run(checkout, "silence")
    assert done.returncode == 1
    assert "no test passed" in done.stderr


def test_what_fails_aside_does_not_hide_that_tests_failed(checkout: Path) -> None:
    aside, tests = run(checkout, "types"), run(checkout, "coverage")
    assert "failed: what is above" in aside.stderr
    assert "10 passed" in aside.stdout
    assert "failed: tests" in tests.stderr
    assert "made demo" in tests.stdout


def test_what_is_compiled_is_kept_in_the_environment_whatever_a_variable_says(checkout: Path) -> None:
    done = run(checkout, "nothing", PYTHONDONTWRITEBYTECODE="1")
    assert f"compiles into {checkout / 'venv' / 'bytecode'}" in done.stdout.splitlines()
