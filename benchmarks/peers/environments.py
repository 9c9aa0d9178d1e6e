"""An environment of its own for each peer, made once: their requirements do not agree with each other or with ours."""

import subprocess
import venv
from pathlib import Path

from benchmarks.peers.catalogue import Peer


class NotInstalled(Exception):
    """The packages of a peer could not be installed; says why."""


def python_of(peer: Peer, folder: Path) -> Path:
    """Return the interpreter of the peer's environment below `folder`; make it when it is not there.

    Raises `NotInstalled`.
    """
    home = folder / peer.name
    python, stamp = home / "bin" / "python", home / "installed"
    wanted = "\n".join(peer.packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *peer.packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NotInstalled(last)
    stamp.write_text(wanted)
    return python


def installed_versions(peer: Peer, python: Path) -> str:
    """Return the names and versions of the peer's packages as they are installed."""
    names = [package.partition(">")[0] for package in peer.packages]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    said = subprocess.run([str(python), "-c", code, *names], check=True, capture_output=True, text=True).stdout
    return ", ".join(f"{name} {version}" for name, version in zip(names, said.split(), strict=True))
