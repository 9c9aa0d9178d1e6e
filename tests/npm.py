"""Packages of npm for tests that need a real server or client: installed once, into a folder that Git ignores.

`STEPTRAIL_NPM` names another folder: to write some ten thousand files takes a disk longer than npm takes to get them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

_FOLDER = Path(os.environ.get("STEPTRAIL_NPM") or Path(__file__).parents[1] / ".npm")


def command(name: str) -> str:
    """Return the path of `node` or `npm`."""
    found = shutil.which(name)
    assert found is not None, f"this test needs {name}: install Node.js 20 or newer"
    return found


def installed(name: str, packages: Mapping[str, str], *, overrides: Mapping[str, str] | None = None) -> Path:
    """Return the folder `node_modules` with these versions of packages. Workers of a test run take turns.

    `overrides` are packages to take in the place of what those need.
    """
    wanted = json.dumps({"private": True, "dependencies": dict(packages), "overrides": dict(overrides or {})}, indent=1)
    folder = _FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        stamp = folder / "installed.json"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            # What an earlier list left out or replaced would stay so.
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            (folder / "package.json").write_text(wanted, encoding="utf-8")
            install = [command("npm"), "install", "--omit=dev", "--no-audit", "--no-fund", "--no-package-lock"]
            done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=280)
            assert done.returncode == 0, done.stderr
            stamp.write_text(wanted, encoding="utf-8")
    return folder / "node_modules"
