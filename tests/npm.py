"""Packages of npm for tests that need a real client: installed once, into a folder that Git ignores."""

import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

__all__ = ["NODE_FOLDER", "command", "installed"]

NODE_FOLDER = Path(__file__).parents[1] / ".node"


def command(name: str) -> str:
    """Return the path of `node` or `npm`."""
    found = shutil.which(name)
    assert found is not None, f"this test needs {name}: install Node.js 20 or newer"
    return found


def installed(*packages: str) -> Path:
    """Return a folder whose scripts find these packages, such as `left-pad@1.3.0`. Workers of a test run take turns."""
    name = "+".join(packages).replace("/", "_").replace("@", "-").lstrip("-")
    folder = NODE_FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(NODE_FOLDER / f"{name}.lock"):
        done = folder / "installed"
        if not done.exists():
            flags = ["--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(folder)]
            made = subprocess.run([command("npm"), "install", *flags, *packages], capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
            done.touch()
    return folder
