"""The kinds of machines whose streams a store may hold, by the prefix of their streams.

The kernel imports no kind. What is above the journal (subscriptions, followers, lists, `doctor`, children) looks a
stream's kind up here, by the stream's id.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.by_prefix import ByPrefix
from steptrail.domain.kernel.machine import Machine

if TYPE_CHECKING:
    from steptrail.runtime.kernel.control import StreamControl
    from steptrail.runtime.kernel.environment import Environment

__all__ = ["KINDS", "Kind", "control_of"]

_Control: TypeAlias = "StreamControl[Any, Any, Any, Any]"


class Kind(NamedTuple):
    """One kind of machine, as far as the runtime knows it.

    `control` takes commands to one of its streams, with none of the code that the stream was started with. `in_flight`
    says in words, for `doctor`, which effects a state has started and not ended; a state that rests has none in flight.
    `writing` is the number of the step whose reply a model is writing, None when none does.
    """

    machine: Machine[Any, Any, Any, Any]
    control: Callable[["Environment", str], _Control]
    in_flight: Callable[[Any], Sequence[str]]
    writing: Callable[[Any], int | None]


KINDS: ByPrefix[Kind] = ByPrefix({"agent:": "steptrail.runtime.agent.kind:KIND"})
"""Prefix of a stream -> its kind. To look one up imports its events, so that its records can be read."""


def control_of(environment: "Environment", stream: str) -> _Control:
    """Return what takes commands to a stream of whatever kind. Raises `CommandRejected` for an unknown kind."""
    kind = KINDS.of(stream)
    if kind is None:
        raise CommandRejected("ask", stream, "no kind of machine that is known here has such streams")
    return kind.control(environment, stream)
