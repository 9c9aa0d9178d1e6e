"""The end of one part of a run below an effect, whatever kind of machine runs there."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import BilledUsage


class _Run(Protocol):
    @property
    def is_open(self) -> bool: ...
    @property
    def status(self) -> ExecutionStatus: ...


S = TypeVar("S", bound=_Run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd(ABC, Generic[S]):
    """The end of one part of a run below an effect. `state` is None when it has not begun.

    `is_cut` says that the effect was cut off or its run stopped, `is_out_of_time` that the time of the effect was up.
    An answer that was stored before that counts all the same. `problem` is the reason why it could not go on; None when
    there is none.
    """

    state: S | None
    is_cut: bool = False
    is_out_of_time: bool = False
    problem: str | None = None

    @property
    @abstractmethod
    def usage(self) -> BilledUsage | None:
        """The bill of its stream so far, over all executions, with all below it; None when that is not known."""

    @abstractmethod
    def _wait_of(self, state: S) -> WaitStarted | None:
        """Return the wait in which an open run is."""

    @abstractmethod
    def _has_answered(self, state: S) -> bool:
        """Tell whether a run that has ended came to its answer, before its time was up or somebody stopped it."""

    @property
    def ended(self) -> S | None:
        """The state of a run that has come to its own end; None for one that is at rest, and goes on later."""
        if self.problem is not None or self.state is None or self.state.is_open:
            return None
        has_own_end = not (self.is_cut or self.is_out_of_time) or self._has_answered(self.state)
        return self.state if has_own_end else None

    @property
    def is_late(self) -> bool:
        """Whether the time of the effect was up, and no answer was stored before that."""
        return self.is_out_of_time and self.ended is None

    @property
    def why_it_rests(self) -> str:
        """The reason why it is at rest, in words that go on a sentence."""
        if self.problem is not None:
            return f"cannot be gone on with: {self.problem}"
        if self.state is None:
            return "has not begun"
        return f"is {self.state.status.value}" + (f" ({self._wait.kind})" if self._wait is not None else "")

    @property
    def until(self) -> int | None:
        """The instant at which its wait ends by itself; None when it does not."""
        return self._wait.until if self._wait is not None else None

    @property
    def _wait(self) -> WaitStarted | None:
        return self._wait_of(self.state) if self.state is not None and self.state.is_open else None
