"""The parts of a state that criteria and the error policy read.

The views are protocols and read-only. Code that uses them does not depend on `AgentState`, and its tests need no agent.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from steptrail.domain.failures import StepError
from steptrail.domain.inference import FinishReason
from steptrail.domain.output import OutputProblem, OutputVerdict
from steptrail.domain.usage import ModelUsage, Usage


class StepView(Protocol):
    """A recorded step."""

    @property
    def number(self) -> int:
        """The number of the step in the execution, from 1."""
        ...

    @property
    def errors(self) -> Sequence[StepError]:
        """The errors of the step, beginning with the first failed tool call."""
        ...

    @property
    def has_errors(self) -> bool:
        """Whether the step failed."""
        ...

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asked for tools."""
        ...

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason why the model stopped writing; None when the model call failed."""
        ...

    @property
    def raw_finish_reason(self) -> str | None:
        """The provider's own word for the finish reason; None when the model call failed."""
        ...

    @property
    def text(self) -> str:
        """The text of the reply."""
        ...

    @property
    def output_verdict(self) -> OutputVerdict | None:
        """The verdict on the answer of the step; None if it gave none, or if the agent answers in text."""
        ...

    @property
    def output_problems(self) -> Sequence[OutputProblem]:
        """The reasons why the answer of the step was rejected."""
        ...


class StopRequestView(Protocol):
    """A request to stop."""

    @property
    def by(self) -> str:
        """The name of the one who asked."""
        ...

    @property
    def reason(self) -> str | None:
        """The reason in their words; None when they gave none."""
        ...


class StateView(Protocol):
    """An execution as of one instant."""

    @property
    def agent_id(self) -> str:
        """The id of the session."""
        ...

    @property
    def data(self) -> Any:
        """The context of this execution, as a value of the type that the agent declares; None when there is none."""
        ...

    @property
    def step_count(self) -> int:
        """The number of recorded steps of this execution."""
        ...

    @property
    def usage(self) -> Usage:
        """The tokens of this execution."""
        ...

    @property
    def model_name(self) -> str | None:
        """The name of the model that the next step of this execution asks; None before the first execution."""
        ...

    @property
    def context_tokens(self) -> int:
        """The tokens of the last request, as its provider said; 0 when that is not known."""
        ...

    @property
    def compactions_in_a_row(self) -> int:
        """The number of compactions of this execution since a reply has shown that the conversation fits."""
        ...

    @property
    def model_usage(self) -> Sequence[ModelUsage]:
        """The tokens of this execution by model, in the order of the first replies of the models."""
        ...

    @property
    def elapsed_seconds(self) -> float:
        """The wall time since the execution started or was last resumed."""
        ...

    @property
    def cumulative_execution_seconds(self) -> float:
        """The active time: the time of the steps of all segments together."""
        ...

    @property
    def current_step(self) -> StepView | None:
        """The last recorded step; None before the first one."""
        ...

    @property
    def steps(self) -> Sequence[StepView]:
        """All recorded steps of this execution, oldest first."""
        ...

    @property
    def consecutive_failures(self) -> int:
        """The number of failed steps in a row up to the last one. A step counts once, even if several tools failed."""
        ...

    @property
    def total_failures(self) -> int:
        """The number of failed steps of this execution."""
        ...

    @property
    def stop_request(self) -> StopRequestView | None:
        """The request to stop that is not carried out yet; None when there is none."""
        ...

    @property
    def has_unanswered_input(self) -> bool:
        """Whether there is a message of the user that no model call has seen."""
        ...

    @property
    def tool_call_count(self) -> int:
        """The number of tool calls that were started. Further tries of a call are not counted."""
        ...

    @property
    def tool_calls_refused(self) -> int:
        """The number of calls that were not run because they were beyond the limit of the execution."""
        ...

    @property
    def unproductive_segments(self) -> int:
        """The number of segments in a row that ended without progress."""
        ...

    @property
    def output_rejections(self) -> int:
        """The number of answers of this execution in a row that were rejected."""
        ...
