"""Run the fast tests on every other Python that we say we support and that this machine has.

python -m scripts.pythons [--newest] [arguments of pytest]

`--newest` takes only the newest of those that are here.
Each gets an environment beside ours, `.venv-3.12` and so on, made and kept up to date by `make setup`. That a version
is not here is said, and is no failure.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# A shim of pyenv has the name of a Python that does not answer.
_ASKED = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.')"


def supported(pyproject: Path = _ROOT / "pyproject.toml") -> list[str]:
    """Return the versions of Python that the classifiers name, such as 3.12, in their order."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in project["classifiers"])
    return [match[1] for match in found if match]


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder) / f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for found in sorted(pyenv.glob(f"versions/{version}*")):
        yield found / "bin" / f"python{version}"


def interpreter(version: str) -> Path | None:
    """Return a Python of this version that answers, in PATH or among those of pyenv, or None."""
    for path in _candidates(version):
        if path.is_file():
            asked = subprocess.run([path, "-c", _ASKED], cwd="/", capture_output=True, text=True)
            if asked.returncode == 0 and asked.stdout.strip() == version:
                return path
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when the tests passed on each Python that is here."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    failed: list[str] = []
    here: dict[str, Path] = {}
    for version in supported():
        if version == "{}.{}".format(*sys.version_info[:2]):
            continue
        if (python := interpreter(version)) is None:
            print(f"pythons: no Python {version} on this machine", flush=True)
            continue
        here[version] = python
    if given[:1] == ["--newest"]:
        given, here = given[1:], dict(list(here.items())[-1:])
    for version, python in here.items():
        ours = os.environ.get("VENV", ".venv")
        venv = f"{ours}-{version}"
        print(f"pythons: {version} in {venv}", flush=True)
        variables = [f"VENV={venv}", f"PYTHON={python}", f"UV={ours}/bin/uv", "LOCAL_MODEL=no"]
        setup = ["make", "--no-print-directory", *variables, "setup"]
        tests = [f"{venv}/bin/python", "-m", "pytest", "--fast", "-q", *given]
        if any(subprocess.run(command, cwd=_ROOT).returncode for command in (setup, tests)):
            failed.append(version)
    if failed:
        print(f"pythons: failed on {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
