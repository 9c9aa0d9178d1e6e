"""A listener that writes one plain line for each event: for a look at what a run is doing."""

import sys
from typing import TextIO

from steptrail.projections.lifecycle.base import RunEvent


class ConsoleLogger:
    """Writes the time in UTC and the text of each lifecycle event: `trail.wiretap(ConsoleLogger())`.

    The lines go to `stream`, or to what is standard error at that moment. They name arguments of tools and do not show
    them; messages of errors are shown as the tools wrote them.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def __call__(self, event: RunEvent) -> None:
        """Write the line of an event."""
        print(line_of(event), file=self._stream if self._stream is not None else sys.stderr, flush=True)


def line_of(event: RunEvent) -> str:
    """Return the line of an event, such as `08:00:02.000 Agent [triage-7] step 2: STOP (steps_limit)`."""
    # One event is one line, whatever a name or a message holds.
    text = "".join(each if each.isprintable() else " " for each in str(event))
    return f"{event.timestamp:%H:%M:%S}.{event.timestamp.microsecond // 1000:03d} {text}"
