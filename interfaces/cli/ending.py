"""The signals that ask a command to end, and what it does then."""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, TypeVar

PATIENCE_SECONDS = 10.0
"""How long code that does not return may hold up a command that is asked to end."""
_LAST_SECONDS = 1.0
"""How long what was left behind may take to end before the process ends without it."""

_log = logging.getLogger("steptrail.runs")
_left_open: list[asyncio.Runner] = []

T = TypeVar("T")


def endings() -> Sequence[signal.Signals]:
    """Return the signals beside Ctrl-C that ask a command to end: SIGTERM, and SIGHUP, which a closed terminal sends.

    One that the process was started to ignore is left out, as SIGHUP is under `nohup`.
    """
    found = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]  # Windows knows no SIGHUP
    return [each for each in found if each is not None and signal.getsignal(each) is not signal.SIG_IGN]


def when_asked_to_end(
    act: Callable[[], object], sent: Sequence[signal.Signals], *, patience: float = PATIENCE_SECONDS
) -> None:
    """Call `act` in the running loop when one of these signals comes.

    Code that does not return may hold the loop up. Where it has not called `act` after `patience` seconds, the process
    ends there, as if it had been killed.
    """
    loop = asyncio.get_running_loop()

    def asked(number: int, frame: FrameType | None) -> None:
        heard = threading.Event()

        def end_unless_heard() -> None:
            if not heard.wait(patience):
                _log.warning("code that does not return holds up the process: it ends without it")
                end_here(128 + number)

        with suppress(RuntimeError):  # the loop is closed: it ends anyway
            loop.call_soon_threadsafe(heard.set)
            loop.call_soon_threadsafe(act)
            threading.Thread(target=end_unless_heard, name="steptrail-ending", daemon=True).start()

    for each in sent:
        signal.signal(each, asked)


def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do what `asyncio.run` does, and leave the loop open, for `end_with`, if code that was cancelled runs on in it.

    That is a task that takes no notice of it, or what a task has left in a helper thread of the loop. To close the loop
    would wait for it for ever.
    """
    runner = asyncio.Runner()
    _left_open.append(runner)
    try:
        return runner.run(work)
    finally:
        if runner.run(_have_all_ended()):
            _left_open.remove(runner)
            runner.close()


async def _have_all_ended() -> bool:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    left.add(asyncio.create_task(asyncio.get_running_loop().shutdown_default_executor()))
    if deaf := (await asyncio.wait(left, timeout=_LAST_SECONDS))[1]:
        _log.warning("code that was cancelled takes no notice of it and runs on: the process ends without it")
    return not deaf


def end_with(code: int) -> int:
    """Return the exit code, or end the process with it if a loop was left open: Python would wait for that, too."""
    return end_here(code) if _left_open else code


def end_here(code: int) -> NoReturn:
    """End the process with nothing but what is printed already."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # The process may have been started without it, and what it leads to may be full or gone.
        with suppress(AttributeError, OSError):
            stream.flush()
    os._exit(code)
