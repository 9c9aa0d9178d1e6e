"""The run of a workflow below an effect: how it is begun, and with which options it goes on."""

from msgspec import structs

from steptrail.domain.errors import StoreError
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.commands import RetryFlow, StartFlow
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import LimitReached, NodeFailed
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.deadline import is_time_above, shortest
from steptrail.runtime.flow.control import FlowControl, brought, lacks_code_for
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.child import CannotGoOn, Child, ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.files import with_stored_bytes


class ChildFlowEnd(ChildEnd[FlowState]):
    """The end of one part of the run of a workflow below an effect."""

    __slots__ = ()

    @property
    def usage(self) -> BilledUsage | None:
        """The bill of its stream so far, with all below it; None when that is not known."""
        run = self.state.run if self.state is not None else None
        return BilledUsage.of(run.usage, run.model_usage) if run is not None else None

    def _has_answered(self, state: FlowState) -> bool:
        return state.status is ExecutionStatus.COMPLETED


def why_no_output(state: FlowState) -> str:
    """Return the reason why a run that has ended came to no output, with what failed or which limit was passed."""
    run, reason = state.run, state.stop_reason.value if state.stop_reason is not None else state.status.value
    match run.ended_by if run is not None else None:
        case NodeFailed(error=NodeError(error=ErrorInfo() as error)):
            return f"({reason}: {error.without_arguments})"
        case LimitReached() as limit:
            return f"({reason}: {limit.said})"
        case _:
            return f"({reason})"


class ChildFlow(Child[FlowState, ChildFlowEnd]):
    """The run of a workflow below one effect. `files` are those of its output, once it has ended, with their bytes."""

    def __init__(self, place: ChildPlace, means: FlowMeans) -> None:
        self._control = FlowControl(place.environment, place.id, means)
        self.files: tuple[FilePart, ...] = ()
        super().__init__(place, self._control.stream, ChildFlowEnd, above=place.parent.stream)

    async def run(
        self,
        flow: BuiltWorkflow,
        given: JsonValue,
        *,
        files: tuple[FilePart, ...] = (),
        within: float | None = None,
        context: JsonValue = None,
    ) -> ChildFlowEnd:
        """Run the workflow, or go on with its run; return how that ended. `files` are those that its input names.

        It gets at most `within` seconds, and may use what is lent to its place when it begins. A cancellation pauses
        it, or stops it if the run above is to stop; that is returned as an end too, and not raised, so that the bill is
        known.
        """
        own, place, lent = flow.definition.options, self._place, self._place.lent
        start = StartFlow(
            flow=brought(flow),
            worker=place.environment.worker,
            options=own if lent is None else lent.options(own),
            input=given,
            files=files,
            context=context,
            parent=place.parent,
            metadata=dict(place.metadata),
            by="parent",
            key=place.parent.effect,
        )

        async def go_on(left: float | None) -> tuple[FlowState, bool]:
            state = (await self._go_on(flow, start, shortest(own.timeout, left))).state
            return state, _ran_out_of_time(state, own.timeout, left)

        end = await self._driven(within, go_on)
        try:
            named = end.ended.output_files if end.ended is not None else ()
            self.files = await with_stored_bytes(place.environment.store, named)
        except StoreError as error:
            return ChildFlowEnd(state=None, is_cut=end.is_cut, problem=str(error))
        return end

    async def _go_on(self, flow: BuiltWorkflow, start: StartFlow, timeout: float | None) -> FlowResult:
        """Begin the run, or go on with it. Each segment has the time that is left for it."""
        state, options = await self._look(), structs.replace(start.options, timeout=timeout)
        if state is None or state.run is None:
            files = await with_stored_bytes(self._place.environment.store, start.files)
            return await self._control.run(flow, structs.replace(start, options=options, files=files))
        key = None if state.is_open or state.status is ExecutionStatus.COMPLETED else self._place.retry_key
        only_waits = self._control.only_waits(state)
        calls_nothing = only_waits or state.stop_request is not None or not state.is_open
        if (key is not None or not calls_nothing) and (why := lacks_code_for(state, flow)) is not None:
            raise CannotGoOn(why)
        if key is not None:
            again = RetryFlow(worker=start.worker, flow=start.flow, options=options, by="parent", key=key)
            return await self._control.retry(flow, again)
        take_over, self._take_over = self._take_over, False
        # What was lent when it began stays.
        options = structs.replace(state.run.options, timeout=timeout)
        is_new = options != state.run.options and not only_waits
        return await self._control.resume(flow, take_over=take_over, options=options if is_new else None, by="parent")


def _ran_out_of_time(state: FlowState, own: float | None, within: float | None) -> bool:
    """Tell whether the time of the effect was up, which had `within` seconds, and no limit of the workflow itself."""
    run = state.run
    if run is None or not isinstance(run.ended_by, LimitReached) or run.ended_by.limit != "timeout":
        return False
    return is_time_above(own, run.options.timeout, within)
