"""The place below an effect where it may begin a stream of its own, of any kind."""

from typing import NamedTuple

from steptrail.domain.shared.parent import ParentRef
from steptrail.runtime.kernel.environment import Environment

__all__ = ["ChildPlace"]


class ChildPlace(NamedTuple):
    """The surroundings of a stream that an effect of another stream begins. `parent` names that effect and its stream.

    `takes_over` says that the run above was taken from a live owner. Then the streams below it may be taken too.
    With a `retry_key`, the run above was retried: a stream that ended without an answer is retried too, once for each
    key. None when it is not to be.
    """

    environment: Environment
    parent: ParentRef
    takes_over: bool = False
    retry_key: str | None = None
