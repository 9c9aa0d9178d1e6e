"""Named points in the runner at which a test may stop the world.

The runner calls `reach(name)` at each; in production that does nothing. Pass it in: there is no global switch.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["FAULT_POINTS", "Reach", "no_faults"]

Reach = Callable[[str], None]

FAULT_POINTS: Final = (
    "before-append",
    "after-append",
    "before-inference",
    "after-inference",
    "before-tool",
    "after-tool",
    "before-hooks",
    "after-hooks",
)
"""Around every write and every effect, in the order of one turn."""


def no_faults(point: str) -> None:
    """Reach a point and go on."""
