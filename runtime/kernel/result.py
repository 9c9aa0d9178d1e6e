"""The part of a result that is the same for all machines."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from steptrail.domain.prices import Cost
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.state import StreamState
from steptrail.domain.usage import Usage

StateT_co = TypeVar("StateT_co", bound=StreamState[Any], covariant=True)


@dataclass(frozen=True, slots=True, repr=False)
class Result(Generic[StateT_co]):
    """The result of a run. `state` is the whole state of the stream when the run ended here.

    `stored` says that nothing was run, because the same input had been run before.
    """

    state: StateT_co
    stored: bool = False

    @property
    def execution_id(self) -> str | None:
        """The id of the execution."""
        return self.state.execution_id

    @property
    def status(self) -> ExecutionStatus:
        """The status: `completed`, `failed` or `stopped` when the run is over; see `ExecutionStatus`."""
        return self.state.status

    @property
    def stop_reason(self) -> StopReason | None:
        """The reason why the run stopped; None when it has not stopped."""
        return self.state.stop_reason

    @property
    def usage(self) -> Usage:
        """The tokens of this execution, including the streams below it."""
        return self.state.usage

    @property
    def cost(self) -> Cost | None:
        """The cost of this execution by the prices recorded with it; None when no prices are."""
        return self.state.cost
