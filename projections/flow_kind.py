"""The projections of the runs of workflows."""

from collections.abc import Callable

from steptrail.domain.flow.events import (
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
)
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskKey
from steptrail.domain.kernel.event import Event
from steptrail.domain.usage import Usage
from steptrail.projections.flow_explanation import MARKED_TYPES, FlowExplainer
from steptrail.projections.flow_questions import questions_of_flow
from steptrail.projections.flow_waterfall import ends_visit, flow_waterfall
from steptrail.projections.kinds import Bill, ExplainerOfState, KindProjections, Lifecycle, StateStops, StopWord

__all__ = ["PROJECTIONS_OF_FLOWS"]


def _lifecycle(state: FlowState) -> Lifecycle:
    # Imported when somebody listens: a run that nobody listens to starts sooner.
    from steptrail.projections.lifecycle.flow_fold import FlowLifecycleFold

    return FlowLifecycleFold(state)


def _reading() -> Callable[[Event], Usage | None]:
    """Return what tells the usage of tries. What a stream below was billed is its own, and stands in its own events."""
    streams: set[TaskKey] = set()

    def billed(event: Event) -> Usage | None:
        match event:
            case NodeAttemptStarted(stream_effect=str()):
                streams.add((event.node, event.visit, event.item))
            case NodeAttemptCompleted() | NodeAttemptFailed() | NodeAttemptInterrupted():
                return None if (event.node, event.visit, event.item) in streams else event.usage
            case _:
                pass
        return None

    return billed


def _stop(event: Event) -> StopWord | None:
    return "step" if ends_visit(event) else None


_BILLING = (
    NodeAttemptStarted,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
)

PROJECTIONS_OF_FLOWS = KindProjections(
    explain=FlowExplainer,
    bill=Bill(types=tuple(kind.TYPE for kind in _BILLING), reading=_reading),
    lifecycle=_lifecycle,
    questions=questions_of_flow,
    explain_state=ExplainerOfState(
        types=MARKED_TYPES, make=FlowExplainer.of_state, lacks=FlowExplainer.lacks, recall=FlowExplainer.recall
    ),
    waterfall=flow_waterfall,
    stops=StateStops(("step",), _stop),
)
"""The projections of the streams `flow:…`."""
