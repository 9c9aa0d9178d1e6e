"""What the tools themselves write down, outside of Steptrail: one line for every time one of them really ran.

A line is on the disk before the tool does anything else, so a process that is killed cannot take it back.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from steptrail import ToolContext

__all__ = ["Ledger", "Line"]


@dataclass(frozen=True)
class Line:
    """One run of one tool. `effect_id` is the same over retries and crashes, `attempt` counts them."""

    effect_id: str
    attempt: int
    tool: str
    pid: int


class Ledger:
    """An append-only file of lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, tool: str, context: ToolContext) -> None:
        """Append the line of the call that runs now, and wait until it is on the disk."""
        line = Line(context.effect_id, context.attempt, tool, os.getpid())
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[Line]:
        """Return every line, oldest first."""
        if not self._path.exists():
            return []
        return [Line(**json.loads(line)) for line in self._path.read_text(encoding="utf-8").splitlines()]
