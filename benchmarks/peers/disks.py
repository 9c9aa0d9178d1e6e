"""The two disks that the peers are measured on: the one that is there, and the same one made slow.

A slow disk is made by `slow_sync.c`, a library that is loaded before the C library into the process that is measured:
each `fsync` and `fdatasync` really syncs, and then sleeps. It counts them too, on both disks, so that how often each
peer syncs is a figure and not a claim; a server that the process starts counts with it. Reads, writes and the locks of
files are as quick as they are.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = Path(__file__).with_name("slow_sync.c")


class NoShim(Exception):
    """Syncs can be neither counted nor slowed here; says why."""


def build_shim(folder: Path) -> Path:
    """Compile the library into a folder and return its path. Raises `NoShim`."""
    compiler = shutil.which("cc")
    if compiler is None:
        msg = "there is no C compiler (cc)"
        raise NoShim(msg)
    library = folder / "slow_sync.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        msg = f"its library does not compile: {(done.stderr.strip().splitlines() or ['no reason given'])[0]}"
        raise NoShim(msg)
    _count(library).write_bytes(bytes(8))
    return library


def with_shim(environment: Mapping[str, str], shim: Path | None, delay_ms: float) -> dict[str, str]:
    """Return an environment in which each sync of a process counts and lasts `delay_ms` longer, where there is a shim.

    Raises `ValueError` for a delay without one.
    """
    if shim is None:
        if delay_ms:
            msg = "without the library no sync can be made slower"
            raise ValueError(msg)
        return dict(environment)
    preloaded = ":".join(filter(None, (str(shim), os.environ.get("LD_PRELOAD"))))
    return {
        **environment,
        "LD_PRELOAD": preloaded,
        "STEPTRAIL_SYNC_COUNT": str(_count(shim)),
        "STEPTRAIL_SYNC_DELAY_US": str(round(delay_ms * 1000)),
    }


def _count(library: Path) -> Path:
    return library.with_suffix(".count").resolve()
