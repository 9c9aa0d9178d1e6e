"""The state of a session as code of the user sees it: the same as `AgentState`, but all values are copies.

So hooks, criteria and tools may change the values that they get, without an effect on the run or its log.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.copies import own
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.policy.context import ErrorContext
from steptrail.domain.prices import Cost


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
    def context(self) -> JsonValue:
        """A copy of the JSON of what was said of that execution."""
        return own(super().context)

    @property
    def data(self) -> Any:
        """The context as a new value of the type that the agent declares; None when it declares none."""
        return self._means.data

    @property
    def fold(self) -> SessionFold:
        """A copy of the accumulator behind this state."""
        self._looks.at_settings = True
        return own(self._fold)

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """A copy of the session's metadata."""
        return own(super().metadata)

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation so far, in canonical order. A message is copied if it holds a part that can be changed."""
        return self._fold.messages.shown(own)

    @property
    def execution(self) -> ExecutionFold | None:
        """A copy of the open execution, or of the last one."""
        self._looks.at_settings = True
        return own(self._fold.execution)

    @property
    def agent(self) -> AgentSnapshot | None:
        """A copy of the agent as recorded with that execution."""
        self._looks.at_settings = True
        return own(super().agent)

    @property
    def cost(self) -> Cost | None:
        """The cost of that execution by the prices recorded with it; None when no prices are."""
        self._looks.at_settings = True
        return super().cost

    @property
    def error_context(self) -> ErrorContext:
        """The failures on which the error policy decides."""
        self._looks.at_settings = True
        return super().error_context

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The recorded steps of that execution. A step is copied if it holds a part that can be changed."""
        return self._fold.execution.steps.shown(own) if self._fold.execution else super().steps

    @property
    def current_step(self) -> AgentStep | None:
        """A copy of the last recorded step of that execution."""
        return own(super().current_step)

    @property
    def output_json(self) -> JsonValue:
        """A copy of the accepted answer of the last step."""
        return own(super().output_json)

    @property
    def tool_executions(self) -> Sequence[ToolExecution]:
        """Copies of the tool calls of the open step."""
        return own(tuple(super().tool_executions))

    @property
    def pending_votes(self) -> tuple[ContinuationEvaluation, ...]:
        """Copies of the votes that no decision has resolved yet."""
        return own(super().pending_votes)

    @property
    def last_continuation_outcome(self) -> ContinuationOutcome | None:
        """A copy of the newest decision with all its votes."""
        return own(super().last_continuation_outcome)
