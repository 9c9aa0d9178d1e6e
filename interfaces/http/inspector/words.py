"""Words for the pages: times, statuses, sizes. A status is a sign, a word and a colour, so that none has to be seen."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.projections.asking.runs import RunRow


class Status(NamedTuple):
    """A status as it is shown: a sign, a word, and the name of a class of the style sheet."""

    sign: str
    word: str
    tone: str


_STATUSES: Final[Mapping[ExecutionStatus, Status]] = {
    ExecutionStatus.PENDING: Status("○", "pending", "quiet"),
    ExecutionStatus.IN_PROGRESS: Status("▶", "in progress", "busy"),
    ExecutionStatus.WAITING: Status("◐", "waiting", "asks"),
    ExecutionStatus.PAUSED: Status("‖", "paused", "asks"),
    ExecutionStatus.COMPLETED: Status("✓", "completed", "good"),
    ExecutionStatus.FAILED: Status("✕", "failed", "bad"),
    ExecutionStatus.STOPPED: Status("■", "stopped", "warn"),
}


def status_word(status: ExecutionStatus, *, is_crashed: bool = False, is_damaged: bool = False) -> Status:
    """Return how a status is shown; a crash or damage before all else."""
    if is_damaged:
        return Status("▲", "damaged", "bad")
    return Status("✕", "crashed", "bad") if is_crashed else _STATUSES[status]


def status_of(run: RunSummary) -> Status:
    """Return how the status of a run is shown."""
    return status_word(run.status, is_crashed=run.is_crashed, is_damaged=run.damage is not None)


def status_of_row(run: RunRow) -> Status:
    """Return how the status of an execution is shown that the read models know."""
    return status_word(ExecutionStatus(run.status), is_crashed=run.is_crashed, is_damaged=False)


def clock(at: int | Datetime) -> str:
    """Return an instant in UTC, to the second."""
    when = to_datetime(at) if isinstance(at, int) else at
    return f"{when:%Y-%m-%d %H:%M:%S}"


def ago(at: int | Datetime, now: int) -> str:
    """Return how far an instant is from now: `3 min ago`, `in 2 h`."""
    when = at if isinstance(at, int) else round(at.timestamp() * 1e6)
    seconds = (now - when) / 1e6
    if abs(seconds) < 1:
        return "now"
    far = duration(seconds) if seconds > 0 else duration(-seconds)
    if abs(seconds) < 59.5:
        far = f"{abs(seconds):.0f} s"
    return f"{far} ago" if seconds > 0 else f"in {far}"


def duration(seconds: float) -> str:
    """Return a length of time in at most two units: `40 ms`, `3.2 s`, `2 min 5 s`, `3 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    whole = round(seconds)
    for place, (unit, length) in enumerate(units):
        if whole >= length:
            more, below = whole % length, units[place + 1] if place + 1 < len(units) else None
            rest = more // below[1] if below is not None else 0
            return f"{whole // length} {unit}" + (f" {rest} {below[0]}" if below is not None and rest else "")
    return "0 s"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    return f"{count} B" if count < 1_000 else f"{count / 1_000:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def pretty(value: JsonValue | Mapping[str, JsonValue] | Sequence[JsonValue]) -> str:
    """Return JSON with a line for each entry; short values stay on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    return flat if len(flat) <= 80 else json.dumps(value, ensure_ascii=False, indent=2)
