"""The clock of the process that begins a run which is to be killed at each of its points."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import WaitStarted
from steptrail.testing import ManualClock

__all__ = ["FirstClock"]


class FirstClock(ManualClock):
    """Stands still but for the waits of a run, which it ends as soon as they are stored.

    So every run comes by its waits. By the clocks of a busy computer a short one is over before it begins.
    """

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))

    def told(self, records: Sequence[Recorded[Any]]) -> None:
        """Learn what is stored."""
        for record in records:
            if isinstance(record.event, WaitStarted) and record.event.until is not None:
                self.reach(record.event.until)
