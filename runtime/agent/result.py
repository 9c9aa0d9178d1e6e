"""The result of a run. It has the same form for every ending: also for limits, stops, pauses and failures."""

from dataclasses import dataclass, field
from typing import Any, Generic, Self, cast

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.errors import ExecutionFailed
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.output import OutputVerdict
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.runtime.agent.output import AgentOutput
from steptrail.runtime.agent.type_variables import OutputT_co
from steptrail.runtime.kernel.result import Result


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Result[AgentState], Generic[OutputT_co]):
    """The result of a run of an agent.

    `RunResult[Invoice]` is the result of an agent that answers as an `Invoice`; `typed` is how that is read, None when
    the agent is not known.
    """

    typed: AgentOutput[OutputT_co] | None = field(default=None, compare=False)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.state.agent_id

    @property
    def answered(self) -> bool:
        """Whether the run ended with an answer of the model, even if a limit was reached at the same moment."""
        return self.state.answered

    @property
    def output(self) -> OutputT_co | None:
        """The model's answer: a value of the type of the agent's output, or a text. None when there is none.

        For a result that was read without the agent, it is JSON. Raises `StoredOutputInvalid` if the stored answer does
        not fit the type any more.
        """
        step = self.state.current_step
        if not self.state.answers_in_a_type:
            return cast("OutputT_co | None", self.state.output)
        if step is None or step.output_verdict is not OutputVerdict.ACCEPTED:
            return None
        value = self.state.output_json
        return cast("OutputT_co", value) if self.typed is None else self.typed.read(value)

    @property
    def output_json(self) -> Any:
        """The answer as JSON, for an agent that answers in a type; None when there is none."""
        return self.state.output_json

    @property
    def text(self) -> str | None:
        """The text of the model's last reply, whatever became of it; None when there is no reply."""
        step = self.state.current_step
        return step.text if step is not None and step.reply is not None else None

    @property
    def outcome(self) -> ContinuationOutcome | None:
        """The decision with which the run ended, with all its votes; None before the first decision."""
        return self.state.last_continuation_outcome

    @property
    def error(self) -> ErrorInfo | None:
        """The error that made the run fail, with its place in the user's code; None when no error did."""
        failed = deciding_error(self.state)
        return failed.error if failed is not None else None

    def __repr__(self) -> str:
        """Return the status of the session, and the error if one decided."""
        said = [self.status.value, *([self.stop_reason.value] if self.stop_reason is not None else [])]
        said += [f"steps: {self.state.step_count}", *([str(self.error)] if self.error is not None else [])]
        return f"<RunResult {self.session_id!r}: {', '.join(said)}>"

    def raise_for_stop(self) -> Self:
        """Return self when the run completed its work or answered. Raises `ExecutionFailed` otherwise."""
        if self.answered or (self.status is ExecutionStatus.COMPLETED and self.stop_reason is StopReason.COMPLETED):
            return self
        outcome, paused = self.outcome, self.state.paused
        vote = outcome.deciding_vote if outcome is not None and self.stop_reason is not None else None
        why = [self.stop_reason.value] if self.stop_reason is not None else []
        why += [vote.reason] if vote is not None else []
        why += [paused.by_whom] if paused is not None else []
        said = f"execution {self.execution_id} is {self.status.value}" + (f" ({': '.join(why)})" if why else "")
        raise ExecutionFailed(f"{said}: {self.error}" if self.error is not None else said)
