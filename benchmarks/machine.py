"""The machine that was measured on, as far as it explains figures: no names of hosts, users or folders."""

import os
import platform
import sqlite3
import time
from pathlib import Path
from statistics import median


def describe_machine(folder: Path) -> dict[str, str]:
    """Return processor, cores, Python, SQLite, and the disk that holds `folder` with how long it takes to sync."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "sqlite": sqlite3.sqlite_version,
        "disk": _disk(folder),
        "sync of 4 KiB": f"{_sync_seconds(folder) * 1000:.2f} ms",
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _disk(folder: Path) -> str:
    """Return the file system and, where the kernel says so, the kind of the device below it."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo")
    lines = [line.split() for line in mounts.read_text().splitlines()] if mounts.exists() else []
    kinds = [line[line.index("-") + 1] for line in lines if line[2] == number]
    # A partition has no queue of its own: the one of its disk stands a folder higher.
    block = Path("/sys/dev/block", number).resolve()
    turning = [path for path in (block / "queue/rotational", block.parent / "queue/rotational") if path.exists()]
    if not kinds:
        return "unknown"
    return kinds[0] + {"0": ", no moving parts", "1": ", rotational or virtual"}.get(_first_line(turning), "")


def _first_line(files: list[Path]) -> str:
    return files[0].read_text().strip() if files else ""


def _sync_seconds(folder: Path) -> float:
    path = folder / "sync-probe"
    taken: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"\0" * 4096)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    path.unlink()
    return median(taken)
