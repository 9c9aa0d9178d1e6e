"""Looks whether work that may take long leaves the event loop free for whatever else goes on there."""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def beside_the_loop(work: Callable[P, T]) -> Callable[P, T]:
    """Return the same work, which does not begin before the running loop has had a turn: in the loop it never does."""
    loop = asyncio.get_running_loop()

    def waiting(*args: P.args, **kwargs: P.kwargs) -> T:
        had_a_turn = threading.Event()
        loop.call_soon_threadsafe(had_a_turn.set)
        assert had_a_turn.wait(60), "the loop is held for as long as this takes"
        return work(*args, **kwargs)

    return waiting
