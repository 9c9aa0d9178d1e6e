"""The kinds of machines whose streams a store may hold, by the prefix of their streams.

The kernel imports no kind. What is above the journal (subscriptions, followers, lists, `doctor`, children) looks a
stream's kind up here, by the stream's id.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from steptrail.domain.kernel.by_prefix import ByPrefix
from steptrail.domain.kernel.machine import Machine

__all__ = ["KINDS", "Kind"]


class Kind(NamedTuple):
    """One kind of machine, as far as the runtime knows it.

    `in_flight` says in words, for `doctor`, which effects a state has started and not ended; a state that rests has
    none in flight. `writing` is the number of the step whose reply a model is writing, None when none does.
    """

    machine: Machine[Any, Any, Any, Any]
    in_flight: Callable[[Any], Sequence[str]]
    writing: Callable[[Any], int | None]


KINDS: ByPrefix[Kind] = ByPrefix({"agent:": "steptrail.runtime.agent.kind:KIND"})
"""Prefix of a stream -> its kind. To look one up imports its events, so that its records can be read."""
