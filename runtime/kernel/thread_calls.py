"""Makes calls from a thread in an event loop."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

__all__ = ["call_in_loop"]

P = ParamSpec("P")


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Have `loop` make a call. A closed loop makes no call, because nobody waits in it any more."""
    try:
        loop.call_soon_threadsafe(lambda: call(*args, **kwargs))
    except RuntimeError:
        if not loop.is_closed():
            raise
