"""Named points in the runner at which a test may stop the world.

The runner calls `reach(name)` at each; in production that has no effect. Pass it in: there is no global switch.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["FAULT_POINTS", "Reach", "no_faults"]

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
    "before-wait",
    "after-wait",
    "before-release",
    "after-release",
)
"""Around every write and every effect, in the order of one turn.

Everything that reaches the log does so through an append: what opens a run, what hooks changed, a command, the report
of a worker that lost its session, the end. The n-th time a process comes by tells them apart.
"""


def no_faults(point: str) -> None:
    """Reach a point and go on."""
