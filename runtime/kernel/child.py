"""The run below an effect, of any kind of machine: it is begun once, resumed after a crash, and never left behind.

Its id and its key are derived from the effect id. So a process that runs the effect again goes on with the same run, or
gets its result.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy, StoredContextInvalid, StoreError
from steptrail.domain.kernel.commands import Stop
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.run import StopReason
from steptrail.domain.shared.state import StreamState
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.kernel.cancellation import outlast
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.control import StreamControl

_LOOK_SECONDS = 0.2


S = TypeVar("S", bound=StreamState[Any])


class CannotGoOn(Exception):
    """Raised where the code that is here cannot go on with a run as it is stored. What is above it waits then."""


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
        execution = self.state.fold.execution if self.state is not None and self.state.is_open else None
        return execution.wait if execution is not None else None


EndT = TypeVar("EndT", bound=ChildEnd[Any])


class Child(Generic[S, EndT]):
    """The run of the `stream` below one effect. `above` names the run of the effect where that is stopped."""

    def __init__(
        self, place: ChildPlace, stream: StreamControl[Any, Any, Any, Any], end: Callable[..., EndT], *, above: str
    ) -> None:
        self.id, self._place, self._stream, self._end, self._above = place.id, place, stream, end, above
        self._take_over = place.takes_over

    async def _driven(self, within: float | None, go_on: Callable[[float | None], Awaitable[tuple[S, bool]]]) -> EndT:
        """Have `go_on` drive the run, given the seconds that are left of `within`; return how that ended.

        `go_on` returns the state, and whether the time of the effect was up. While another process drives the run, this
        waits for its end. A cancellation pauses the run, or stops it if the run above is to stop. That is returned as
        an end too, and not raised, so that the bill is known.
        """
        try:
            return await self._until_it_rests(within, go_on)
        except asyncio.CancelledError:
            ending, _ = await outlast(self._cut)
            return ending.result()

    async def _until_it_rests(
        self, within: float | None, go_on: Callable[[float | None], Awaitable[tuple[S, bool]]]
    ) -> EndT:
        clock = self._place.environment.clock
        deadline = None if within is None else clock.monotonic() + round(within * 1e6)
        while True:
            left = None if deadline is None else (deadline - clock.monotonic()) / 1e6
            try:
                if left is not None and left <= 0:
                    return self._end(state=await self._look(), is_out_of_time=True)
                state, is_late = await go_on(left)
                is_stopped = state.stop_reason is StopReason.USER_REQUESTED
                is_cut = is_stopped and await self._place.stop_above() is not None
                return self._end(state=state, is_cut=is_cut, is_out_of_time=is_late)
            except (SessionBusy, OwnershipLost):
                await asyncio.sleep(_LOOK_SECONDS)
            except (StoreError, StoredContextInvalid, CannotGoOn) as error:
                return self._end(state=None, problem=str(error))

    async def _look(self) -> S | None:
        """Return the run as it is stored; None when it has not begun, or its stream goes on with another input."""
        state: S = (await self._stream.journal()).committed
        use = state.fold.keys.get(self._place.parent.effect)
        return state if use is not None and use.execution == state.fold.executions else None

    async def _cut(self) -> EndT:
        try:
            state, asked = await self._look(), await self._place.stop_above()
            if state is not None and state.is_open and asked is not None:
                try:
                    state = await self._stream.request(Stop(by=asked.by, reason=f"{self._above} is stopped"))
                except CommandRejected:
                    state = await self._look()
            return self._end(state=state, is_cut=True)
        except StoreError as error:
            return self._end(state=None, is_cut=True, problem=str(error))
