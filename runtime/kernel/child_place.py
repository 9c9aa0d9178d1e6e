"""Where an effect of one stream may begin a stream of its own, of whatever kind."""

from typing import NamedTuple

from steptrail.domain.shared.parent import ParentRef
from steptrail.runtime.kernel.environment import Environment

__all__ = ["ChildPlace"]


class ChildPlace(NamedTuple):
    """What a stream is begun with that another one runs: `parent` says for which effect of which stream.

    With `takes_over` the run above was taken over from a live owner, so what runs below it may be taken over as well.
    """

    environment: Environment
    parent: ParentRef
    takes_over: bool = False
