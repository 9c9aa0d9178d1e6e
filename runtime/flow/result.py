"""The result of a run of a workflow. It has the same form for every ending."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from steptrail.domain.errors import ExecutionFailed
from steptrail.domain.flow.envelope import Envelope, NodeError
from steptrail.domain.flow.events import LimitReached, NodeFailed
from steptrail.domain.flow.state import FlowState
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.kernel.result import Result


@dataclass(frozen=True, slots=True, repr=False)
class FlowResult(Result[FlowState]):
    """The result of a run of a workflow."""

    @property
    def id(self) -> str:
        """The id of the run, without its prefix."""
        return self.state.flow_id

    @property
    def output(self) -> Any:
        """The variable that the workflow names as its result, or the output of the last node of a branch."""
        return self.state.output

    @property
    def envelope(self) -> Envelope:
        """The outcome of all branches together, also of a run that failed."""
        return self.state.envelope

    @property
    def files(self) -> tuple[FilePart, ...]:
        """The files for which the output, or parts of it, stand; `Flow.file` returns one with its bytes."""
        return self.state.output_files

    @property
    def errors(self) -> Sequence[NodeError]:
        """The failures after which the run went on."""
        return tuple(self.state.errors)

    def has_errors(self) -> bool:
        """Tell whether a failure was recorded."""
        return bool(self.state.errors)

    @property
    def error(self) -> NodeError | None:
        """The failure that ended the run; None when no failure did."""
        ended_by = self.state.run.ended_by if self.state.run is not None else None
        return ended_by.error if isinstance(ended_by, NodeFailed) else None

    def __repr__(self) -> str:
        """Return the status of the run, and the error if one ended it."""
        said = [self.status.value, *([self.stop_reason.value] if self.stop_reason is not None else [])]
        said += [f"recorded errors: {len(self.errors)}"] if self.has_errors() else []
        said += [str(self.error)] if self.error is not None else []
        return f"<FlowResult {self.id!r}: {', '.join(said)}>"

    def raise_for_stop(self, *, allow_errors: bool = False) -> Self:
        """Return self when the run has completed. Raises `ExecutionFailed` otherwise, and for recorded errors.

        With `allow_errors` a run that has completed with recorded errors is returned too.
        """
        said = f"execution {self.execution_id} is {self.status.value}"
        if self.status is not ExecutionStatus.COMPLETED:
            raise ExecutionFailed(said + self._why())
        if self.has_errors() and not allow_errors:
            raise ExecutionFailed(f"{said} with recorded errors: {len(self.errors)}, the first: {self.errors[0]}")
        return self

    def _why(self) -> str:
        run, reason = self.state.run, f" ({self.stop_reason.value})" if self.stop_reason is not None else ""
        match run.ended_by if run is not None else None:
            case NodeFailed(error=error):
                return f"{reason}: node {error}"
            case LimitReached() as limit:
                return f"{reason}: {limit.said}"
            case _:
                asked = self.state.stopped_by or self.state.paused
                return f"{reason} {asked.by_whom}" if asked is not None else reason
