"""Named points in the runtime at which a test may stop or kill the process.

The runtime calls `reach(name)` at each point. In production that does nothing. The function is passed in: there is no
global switch.
"""

from collections.abc import Callable
from typing import Final

Reach = Callable[[str], None]

FAULT_POINTS: Final = (
    "before-acquire",
    "after-acquire",
    "before-append",
    "after-append",
    "before-hooks",
    "after-hooks",
    "before-inference",
    "after-inference",
    "before-tool",
    "after-tool",
    "before-node",
    "after-node",
    "before-wait",
    "after-wait",
    "before-release",
    "after-release",
)
"""The points before and after each write and each effect, in the order in which a run first passes them.

A run passes those of what it does: hooks, model calls and tools are those of agents, nodes those of workflows.
The two points of the append are passed by every commit: of the beginning of a run, of changes by hooks, of commands, of
late reports, of the end. A test tells them apart by counting how often the process has passed the point.
"""


def no_faults(point: str) -> None:
    """Do nothing at a fault point."""
