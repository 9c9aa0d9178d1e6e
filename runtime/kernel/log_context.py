"""Adds the session, execution, step and call to the records of the `logging` module, for the user's own handlers."""

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


class LogPlace(Struct, frozen=True):
    """The place in a session at which code runs.

    `session` is the id of the session of an agent, or of the run of a workflow. `step` counts from 1 and is None
    between steps and in a workflow, where `node` and `visit` say the place. `effect_id` is that of a tool call, or of
    the try of a node, and None outside of one.
    """

    session: str
    execution: str | None = None
    step: int | None = None
    effect_id: str | None = None
    node: str | None = None
    visit: int | None = None


_NOWHERE: Final = LogPlace("")
log_place: ContextVar[LogPlace] = ContextVar("steptrail_log_place", default=_NOWHERE)
"""The place of the present task or thread. A tool that runs in a thread has a copy."""


class LogContext(logging.Filter):
    """Adds the place in a run to every record: `handler.addFilter(LogContext())`.

    The attributes are `session`, `execution`, `step` and `effect_id`, and for workflows `node` and `visit`.

    That includes the records of the user's own code in tools, hooks, criteria and listeners, in threads too. The values
    are None outside a run, and where there is no step or no call. A value that a record has already is kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes to the record, and return True."""
        for name, value in structs.asdict(log_place.get()).items():
            if name not in record.__dict__:
                record.__dict__[name] = value or None
        return True


@contextmanager
def logged_at(place: LogPlace) -> Generator[None]:
    """Set the log place for the time inside."""
    before = log_place.get()
    log_place.set(place)
    try:
        yield
    finally:
        # And not by a token: a signal may come between two lines, and the loop then ends this in another context.
        log_place.set(before)


async def within(place: LogPlace, work: Callable[[], Awaitable[T]]) -> T:
    """Set the log place, and return the result of `work`. To be run as a task of its own."""
    # `work` is called in here: a task may be cancelled before it runs, and a coroutine that its maker had made for it
    # would then never be awaited.
    log_place.set(place)
    return await work()
