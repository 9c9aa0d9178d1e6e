"""The runs of a workflow, described as a machine of the kernel."""

from msgspec import structs

from steptrail.domain.flow.commands import FlowCommand
from steptrail.domain.flow.control import CONTROL
from steptrail.domain.flow.cutting import then_after
from steptrail.domain.flow.decide import decide
from steptrail.domain.flow.effects import FlowEffect
from steptrail.domain.flow.events import (
    FlowEvent,
    FlowResumed,
    FlowRetried,
    FlowStarted,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptSettledLate,
)
from steptrail.domain.flow.evolve import evolve_all, extend, initial
from steptrail.domain.flow.ids import STREAM_PREFIX
from steptrail.domain.flow.next_effects import next_effects
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.machine import CallInFlight, Machine


def _opens_segment(event: FlowEvent) -> bool:
    return isinstance(event, FlowResumed) or (isinstance(event, FlowStarted | FlowRetried) and event.worker is not None)


def _segment(state: FlowState) -> int:
    return state.fold.segment


def _settle_late(event: FlowEvent, call: CallInFlight, segment: int) -> FlowEvent | None:
    if not isinstance(event, NodeAttemptCompleted | NodeAttemptFailed):
        return None
    return NodeAttemptSettledLate(
        effect_id=call.effect_id,
        attempt=call.attempt,
        segment=segment,
        output=event.output if isinstance(event, NodeAttemptCompleted) else None,
        error=event.error if isinstance(event, NodeAttemptFailed) else None,
        # What a stream below was billed is told by who goes on with it.
        usage=None if call.runs_a_stream else event.usage,
    )


def _restated(state: FlowState, event: FlowEvent) -> FlowEvent:
    """Return a fact for another state than the one it was recorded on: the decision in it is taken anew."""
    run, graph = state.run, state.graph
    if not isinstance(event, NodeAttemptInterrupted) or run is None or graph is None:
        return event
    task = run.tasks.get((event.node, event.visit, event.item))
    if task is None:
        return event
    then = then_after(run, graph.node(event.node), task, event.reason)
    return event if then is event.then else structs.replace(event, then=then)


FLOW: Machine[FlowState, FlowCommand, FlowEvent, FlowEffect] = Machine(
    stream_prefix=STREAM_PREFIX,
    initial=initial,
    evolve_all=evolve_all,
    extend=extend,
    decide=decide,
    next_effects=next_effects,
    control=CONTROL,
    segment=_segment,
    opens_segment=_opens_segment,
    settle_late=_settle_late,
    restated=_restated,
    snapshots=SNAPSHOTS,
)
"""The machine of a workflow."""
