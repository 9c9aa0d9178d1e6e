"""The parts of a state that criteria, and the error policy, read.

The views are structural and read-only: code that reads them does not depend on the agent's state, and a test needs no
agent.
"""

from collections.abc import Sequence
from typing import Protocol

from steptrail.domain.failures import StepError
from steptrail.domain.inference import FinishReason
from steptrail.domain.usage import ModelUsage, Usage

__all__ = ["StateView", "StepView", "StopRequestView"]


class StepView(Protocol):
    """A recorded step."""

    @property
    def number(self) -> int:
        """Its number in the execution, from 1."""
        ...

    @property
    def errors(self) -> Sequence[StepError]:
        """The failures in it, the first failing tool call first."""
        ...

    @property
    def has_errors(self) -> bool:
        """Whether it failed."""
        ...

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asked for tools."""
        ...

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped writing; None when the model call failed."""
        ...

    @property
    def raw_finish_reason(self) -> str | None:
        """The provider's own word for it."""
        ...

    @property
    def text(self) -> str:
        """The natural language of the reply."""
        ...


class StopRequestView(Protocol):
    """A stop that somebody asked for."""

    @property
    def by(self) -> str:
        """Who asked."""
        ...

    @property
    def reason(self) -> str | None:
        """Why, in their words."""
        ...


class StateView(Protocol):
    """An execution at the instant it is looked at."""

    @property
    def agent_id(self) -> str:
        """The session."""
        ...

    @property
    def step_count(self) -> int:
        """Recorded steps of this execution."""
        ...

    @property
    def usage(self) -> Usage:
        """Tokens of this execution."""
        ...

    @property
    def model_name(self) -> str | None:
        """The model that the next step asks; None before the first execution."""
        ...

    @property
    def model_usage(self) -> Sequence[ModelUsage]:
        """The tokens of this execution's model calls, by model, in the order of their first replies."""
        ...

    @property
    def elapsed_seconds(self) -> float:
        """Wall time since the execution started or was last resumed."""
        ...

    @property
    def cumulative_execution_seconds(self) -> float:
        """Active time: the steps of every segment added up."""
        ...

    @property
    def current_step(self) -> StepView | None:
        """The last recorded step."""
        ...

    @property
    def steps(self) -> Sequence[StepView]:
        """Every recorded step of this execution, oldest first."""
        ...

    @property
    def consecutive_failures(self) -> int:
        """Failed steps in a row up to the last one. A step counts once, however many tools failed in it."""
        ...

    @property
    def total_failures(self) -> int:
        """All failed steps of this execution."""
        ...

    @property
    def stop_request(self) -> StopRequestView | None:
        """The stop that was asked for and not yet obeyed."""
        ...

    @property
    def has_unanswered_input(self) -> bool:
        """Whether the user has said something that no model call has seen."""
        ...

    @property
    def tool_call_count(self) -> int:
        """Tool calls that were started; further tries of a call are not counted."""
        ...

    @property
    def tool_calls_refused(self) -> int:
        """Calls that were not run because a limit on all of them left no room."""
        ...

    @property
    def unproductive_segments(self) -> int:
        """Segments in a row that ended without a new commit."""
        ...
