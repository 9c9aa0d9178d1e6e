"""Runs the workflow below an effect of another stream: it is begun once, resumed after a crash, and never left behind.

Its id and its key are derived from the effect id. So a process that runs the effect again goes on with the same run, or
gets its result.
"""

import asyncio

from msgspec import structs

from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy, StoreError
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.commands import StartFlow
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import LimitReached, NodeFailed
from steptrail.domain.flow.lending import Lent
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Stop
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.deadline import is_time_above, shortest
from steptrail.runtime.flow.control import FlowControl, brought
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.child_end import ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace

_LOOK_SECONDS = 0.2


class ChildFlowEnd(ChildEnd[FlowState]):
    """The end of one part of the run of a workflow below an effect."""

    __slots__ = ()

    @property
    def usage(self) -> BilledUsage | None:
        """The bill of its stream so far, with all below it; None when that is not known."""
        run = self.state.run if self.state is not None else None
        return BilledUsage.of(run.usage, run.model_usage) if run is not None else None

    def _wait_of(self, state: FlowState) -> WaitStarted | None:
        return state.run.wait if state.run is not None else None

    def _has_answered(self, state: FlowState) -> bool:
        return state.status is ExecutionStatus.COMPLETED


def why_no_output(state: FlowState) -> str:
    """Return the reason why a run that has ended came to no output, with what failed or which limit was passed."""
    run, reason = state.run, state.stop_reason.value if state.stop_reason is not None else state.status.value
    match run.ended_by if run is not None else None:
        case NodeFailed(error=NodeError(error=ErrorInfo() as error)):
            return f"({reason}: {error.without_arguments})"
        case LimitReached(limit=limit, at_most=at_most, actual=actual):
            return f"({reason}: {limit} is {at_most}, and it was {actual})"
        case _:
            return f"({reason})"


class ChildFlow:
    """The run of a workflow below one effect."""

    def __init__(self, place: ChildPlace, means: FlowMeans) -> None:
        self._stop_above = place.stop_above
        self._env, self.parent, self._take_over = place.environment, place.parent, place.takes_over
        self._retry_key, self.id = place.retry_key, session_for_call(place.parent.effect)
        self._metadata = dict(place.metadata)
        self._control = FlowControl(place.environment, self.id, means)

    async def run(
        self,
        flow: BuiltWorkflow,
        given: JsonValue,
        *,
        within: float | None = None,
        lent: Lent | None = None,
        context: JsonValue = None,
    ) -> ChildFlowEnd:
        """Run the workflow, or go on with its run; return how that ended.

        It gets at most `within` seconds, and may use what it is `lent` when it begins. A cancellation pauses it, or
        stops it if the run above is to stop; that is returned as an end too, and not raised, so that the bill is known.
        """
        try:
            return await self._run(flow, given, within, lent, context)
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(self._cut())
            await wait_through(ending)
            return ending.result()

    async def _run(
        self, flow: BuiltWorkflow, given: JsonValue, within: float | None, lent: Lent | None, context: JsonValue
    ) -> ChildFlowEnd:
        own = flow.definition.options
        start = StartFlow(
            flow=brought(flow),
            worker=self._env.worker,
            options=own if lent is None else lent.options(own),
            input=given,
            context=context,
            parent=self.parent,
            metadata=self._metadata,
            by="parent",
            key=self.parent.effect,
        )
        until = None if within is None else self._env.clock.monotonic() + round(within * 1e6)
        while True:
            left = None if until is None else (until - self._env.clock.monotonic()) / 1e6
            try:
                if left is not None and left <= 0:
                    return ChildFlowEnd(state=await self._look(), is_out_of_time=True)
                state = (await self._go_on(flow, start, shortest(own.timeout, left))).state
                late = _ran_out_of_time(state, own.timeout, left)
                stopped = state.stop_reason is StopReason.USER_REQUESTED and await self._stop_above() is not None
                return ChildFlowEnd(state=state, is_cut=stopped, is_out_of_time=late)
            except (SessionBusy, OwnershipLost):
                await asyncio.sleep(_LOOK_SECONDS)
            except StoreError as error:
                return ChildFlowEnd(state=None, problem=str(error))

    async def _go_on(self, flow: BuiltWorkflow, start: StartFlow, timeout: float | None) -> FlowResult:
        """Begin the run, or go on with it. Each segment has the time that is left for it."""
        state, options = await self._look(), structs.replace(start.options, timeout=timeout)
        if state is None or state.run is None:
            return await self._control.run(flow, structs.replace(start, options=options))
        if not state.is_open and state.status is not ExecutionStatus.COMPLETED and self._retry_key is not None:
            return await self._control.retry(flow, options=options, by="parent", key=self._retry_key)
        take_over, self._take_over = self._take_over, False
        # What was lent when it began stays.
        options = structs.replace(state.run.options, timeout=timeout)
        is_new = options != state.run.options and not self._control.only_waits(state)
        return await self._control.resume(flow, take_over=take_over, options=options if is_new else None, by="parent")

    async def _look(self) -> FlowState | None:
        """Return the run; None when it has not begun, or its stream goes on with another input."""
        state = (await self._control.stream.journal()).committed
        use = state.fold.keys.get(self.parent.effect)
        return state if use is not None and use.execution == state.fold.executions else None

    async def _cut(self) -> ChildFlowEnd:
        try:
            asked, state = await self._stop_above(), await self._look()
            if asked is not None and state is not None and state.is_open:
                stop = Stop(by=asked.by, reason=f"{self.parent.stream} is stopped")
                try:
                    state = await self._control.stream.request(stop)
                except CommandRejected:
                    state = await self._look()
            return ChildFlowEnd(state=state, is_cut=True)
        except StoreError as error:
            return ChildFlowEnd(state=None, is_cut=True, problem=str(error))


def _ran_out_of_time(state: FlowState, own: float | None, within: float | None) -> bool:
    """Tell whether the time of the effect was up, which had `within` seconds, and no limit of the workflow itself."""
    run = state.run
    if run is None or not isinstance(run.ended_by, LimitReached) or run.ended_by.limit != "timeout":
        return False
    return is_time_above(own, run.options.timeout, within)
