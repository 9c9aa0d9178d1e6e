"""The runs of a workflow, described as a machine of the kernel."""

from collections.abc import Mapping

from msgspec import structs

from steptrail.domain.flow import events
from steptrail.domain.flow.commands import FlowCommand, ResumeFlow
from steptrail.domain.flow.cutting import then_after
from steptrail.domain.flow.decide import decide
from steptrail.domain.flow.effects import FlowEffect
from steptrail.domain.flow.evolve import evolve_all, extend, initial
from steptrail.domain.flow.ids import STREAM_PREFIX
from steptrail.domain.flow.next_effects import next_effects
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.flow.standing import standing, summary
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.control import Control
from steptrail.domain.kernel.machine import CallInFlight, Machine
from steptrail.domain.shared.forks import forked_from
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.state import began_again_and_ended, segment_of, version_of_key
from steptrail.domain.shared.steering import asked_of


def _reopen(state: FlowState, worker: str, took_over: bool) -> FlowCommand | None:
    if not state.is_open:
        return None
    return ResumeFlow(worker=worker, ended_by=SegmentEnd.TAKE_OVER if took_over else None)


def _children(state: FlowState) -> Mapping[str, int | None]:
    if state.is_open or state.run is None:
        tasks = sorted(state.tasks, key=lambda task: task.phase is not TaskPhase.RUNNING)
        return dict.fromkeys(task.stream for task in tasks if task.stream is not None)
    # A run that has ended left those behind whose visits it gave up.
    return {**dict.fromkeys(stream for visit in state.open_visits for stream in visit.streams), **state.run.left}


def _opens_segment(event: events.FlowEvent) -> bool:
    return isinstance(event, events.FlowResumed) or (
        isinstance(event, events.FlowStarted | events.FlowRetried) and event.worker is not None
    )


def _settle_late(event: events.FlowEvent, call: CallInFlight, segment: int) -> events.FlowEvent | None:
    if not isinstance(event, events.NodeAttemptCompleted | events.NodeAttemptFailed):
        return None
    return events.NodeAttemptSettledLate(
        effect_id=call.effect_id,
        attempt=call.attempt,
        segment=segment,
        output=event.output if isinstance(event, events.NodeAttemptCompleted) else None,
        files=event.files if isinstance(event, events.NodeAttemptCompleted) else (),
        error=event.error if isinstance(event, events.NodeAttemptFailed) else None,
        # What a stream below was billed is told by who goes on with it.
        usage=None if call.runs_a_stream else event.usage,
    )


def _restated(state: FlowState, event: events.FlowEvent) -> events.FlowEvent:
    """Return a fact for another state than the one it was recorded on: the decision in it is taken anew."""
    run = state.run
    if not isinstance(event, events.NodeAttemptInterrupted) or run is None:
        return event
    task = run.tasks.get(event.key)
    if task is None:
        return event
    then = then_after(run, task, event.reason)
    return event if then is event.then else structs.replace(event, then=then)


FLOW: Machine[FlowState, FlowCommand, events.FlowEvent, FlowEffect] = Machine(
    stream_prefix=STREAM_PREFIX,
    initial=initial,
    evolve_all=evolve_all,
    extend=extend,
    decide=decide,
    next_effects=next_effects,
    control=Control(
        standing=standing,
        summary=summary,
        asked=asked_of,
        # No `stop_grace`: a stop is seen when the log has grown, and the machine itself says what is cut off when.
        reopen=_reopen,
        version_of_key=version_of_key,
        children=_children,
        began_again_and_ended=began_again_and_ended,
    ),
    forked_from=forked_from(STREAM_PREFIX),
    segment=segment_of,
    opens_segment=_opens_segment,
    settle_late=_settle_late,
    restated=_restated,
    snapshots=SNAPSHOTS,
)
"""The machine of a workflow."""
