"""Keeps Python's collector of cycles from walking again and again through what sessions hold, which has no cycles.

The collector belongs to the whole process. So it is left as a service has set it, and is as it was when we are done.
"""

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = 50_000
"""How many more objects there are before the collector looks at the new ones, while sessions run. Python has 700."""

_lock = threading.Lock()
_runs = 0
_threshold_before: tuple[int, int, int] | None = None
_is_off_for_us = False


@contextmanager
def collector_off() -> Generator[None]:
    """Turn the collector off while many values are made and all of them are kept.

    It would walk through all that the process holds again and again: the more is folded already, the longer. Who turned
    it off turns it on again. So it is on now and then even if somebody is always in here. Nothing is awaited in here: a
    task whose loop is closed meanwhile never goes on, and would keep it off for ever.
    """
    global _is_off_for_us
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        _is_off_for_us = True
        yield
    finally:
        _is_off_for_us = False
        gc.enable()


@contextmanager
def collector_seldom() -> Generator[None]:
    """Let the collector run more seldom while a session runs in here. A threshold that is higher already stays."""
    global _runs, _threshold_before
    with _lock:
        _runs += 1
        threshold = gc.get_threshold()
        if _runs == 1 and 0 < threshold[0] < _SELDOM:
            _threshold_before = threshold
            gc.set_threshold(_SELDOM, *threshold[1:])
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0 and _threshold_before is not None:
                # Who has set another threshold meanwhile keeps it.
                if gc.get_threshold()[0] == _SELDOM:
                    gc.set_threshold(*_threshold_before)
                _threshold_before = None


def _after_fork() -> None:
    """Put the collector right in a process that was forked while another thread folded or ran sessions."""
    global _lock, _runs, _threshold_before, _is_off_for_us
    if _is_off_for_us:
        gc.enable()
    if _threshold_before is not None:
        gc.set_threshold(*_threshold_before)
    _lock, _runs, _threshold_before, _is_off_for_us = threading.Lock(), 0, None, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
