"""Adds the session, execution, step and call to the records of the `logging` module, for the user's own handlers."""

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeVar

__all__ = ["LogContext", "LogPlace", "log_place", "within"]

T = TypeVar("T")


class LogPlace(NamedTuple):
    """The place in a session at which code runs.

    `step` counts from 1 and is None between steps. `effect_id` is that of a tool call, and None outside of one.
    """

    session: str
    execution: str | None = None
    step: int | None = None
    effect_id: str | None = None


_NOWHERE: Final = LogPlace("")
log_place: ContextVar[LogPlace] = ContextVar("steptrail_log_place", default=_NOWHERE)
"""The place of the present task or thread. A tool that runs in a thread has a copy."""


class LogContext(logging.Filter):
    """Adds `session`, `execution`, `step` and `effect_id` to every record: `handler.addFilter(LogContext())`.

    That includes the records of the user's own code in tools, hooks, criteria and listeners, in threads too. The values
    are None outside a run, and where there is no step or no call. A value that a record has already is kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the four attributes to the record, and return True."""
        for name, value in log_place.get()._asdict().items():
            if name not in record.__dict__:
                record.__dict__[name] = value or None
        return True


async def within(place: LogPlace, work: Callable[[], Awaitable[T]]) -> T:
    """Set the log place, and return the result of `work`. To be run as a task of its own."""
    # `work` is called in here: a task may be cancelled before it runs, and a coroutine that its maker had made for it
    # would then never be awaited.
    log_place.set(place)
    return await work()
