"""Tasks that begin in the turn in which they are made, as the task factory of a host may have them."""

import asyncio
import sys

EAGER = (False, True) if sys.version_info >= (3, 12) else (False,)
"""Whether tasks begin at once, in each way that this Python knows."""


def begin_tasks(*, eager: bool) -> None:
    """Have all tasks of the running loop begin at once from now on, or leave it as it is."""
    if sys.version_info >= (3, 12) and eager:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
