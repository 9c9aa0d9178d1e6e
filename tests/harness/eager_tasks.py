"""Tasks that begin in the turn in which they are made, as the task factory of a host may have them."""

import asyncio
import sys

import pytest


def begin_tasks_at_once() -> None:
    """Have all tasks of the running loop begin at once. Skips the test on Pythons before 3.12, which cannot."""
    if sys.version_info < (3, 12):
        pytest.skip("this Python has no eager tasks")
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
