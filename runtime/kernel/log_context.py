"""Where a log record was made: in which session, execution, step and call. For handlers of the user's own logging."""

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

__all__ = ["LogContext", "LogPlace", "log_place", "within"]

T = TypeVar("T")


class LogPlace(NamedTuple):
    """The work that is going on: `step` counts from 1 and is None between steps, `effect_id` is the tool call's."""

    session: str
    execution: str | None = None
    step: int | None = None
    effect_id: str | None = None


_NOWHERE: Final = LogPlace("")
log_place: ContextVar[LogPlace] = ContextVar("steptrail_log_place", default=_NOWHERE)
"""Where this task or thread is. Tools on threads have a copy."""


class LogContext(logging.Filter):
    """Puts `session`, `execution`, `step` and `effect_id` on every record: `handler.addFilter(LogContext())`.

    Also on records that the user's own code makes inside a tool, a hook, a criterion or a listener, on threads too.
    Outside a run, and where there is no step or no call, they are None. A record that has one of the names keeps it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the names, and let the record pass."""
        for name, value in log_place.get()._asdict().items():
            if name not in record.__dict__:
                record.__dict__[name] = value or None
        return True


async def within(place: LogPlace, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work of a task of its own with this place. The place begins here, because a task may never run."""
    log_place.set(place)
    return await work()
