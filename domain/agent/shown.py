"""The state of a session as code of the user sees it: the same as `AgentState`, but all values are copies.

So hooks, criteria and tools may change the values that they get, without an effect on the run or its log.
"""

from typing import Any

from msgspec import Struct

from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.copies import own

_COPIED = (
    "context",
    "current_step",
    "instructions",
    "last_continuation_outcome",
    "messages",
    "metadata",
    "output_json",
    "pending_votes",
    "request_messages",
    "steps",
    "tool_executions",
)
"""The properties of a state whose values have parts that can be changed."""

_SETTINGS = ("agent", "cost", "error_context", "execution", "fold")
"""Those whose values also hold settings, or follow from them."""


class Looks(Struct):
    """Notes whether code of the user has looked at settings: limits, policy, prices, or an accumulator with them."""

    at_settings: bool = False


class ShownState(AgentState):
    """A session as of one instant. Each value is copied when it is read."""

    __slots__ = ("_looks", "_means")

    def __init__(self, fold: SessionFold, *, as_of: int, looks: Looks | None = None, means: Means = NO_MEANS) -> None:
        super().__init__(fold, as_of=as_of)
        self._looks, self._means = looks or Looks(), means

    @classmethod
    def of(cls, state: AgentState, looks: Looks | None = None, means: Means = NO_MEANS) -> "ShownState":
        """Return a state for code of the user. `looks` notes whether that code reads settings."""
        return ShownState(state._fold, as_of=state.as_of, looks=looks, means=means)

    def at(self, now: int) -> AgentState:
        """Return the same state as of the instant `now`."""
        return ShownState(self._fold, as_of=now, looks=self._looks, means=self._means)

    @property
    def data(self) -> Any:
        """The context as a new value of the type that the agent declares; None when it declares none."""
        return self._means.data


def _copied(name: str) -> property:
    """Return a property of `AgentState` with copies of its values."""
    of_the_state: Any = getattr(AgentState, name)
    holds_settings = name in _SETTINGS

    def read(state: Any) -> Any:
        if holds_settings:
            state._looks.at_settings = True
        return own(of_the_state.fget(state))

    return property(read, doc=of_the_state.__doc__)


for _name in (*_COPIED, *_SETTINGS):
    setattr(ShownState, _name, _copied(_name))
