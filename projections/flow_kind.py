"""The projections of the runs of workflows."""

from collections.abc import Sequence

from steptrail.domain.flow.events import NodeAttemptCompleted, NodeAttemptFailed, NodeAttemptInterrupted
from steptrail.domain.flow.state import FlowState
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


def _billed(event: Event) -> Usage | None:
    match event:
        case NodeAttemptCompleted() | NodeAttemptFailed() | NodeAttemptInterrupted():
            return event.usage
        case _:
            return None


def _stop(event: Event) -> StopWord | None:
    return "step" if ends_visit(event) else None


_BILLING: Sequence[type[NodeAttemptCompleted | NodeAttemptFailed | NodeAttemptInterrupted]] = (
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
)

PROJECTIONS_OF_FLOWS = KindProjections(
    explain=FlowExplainer,
    bill=Bill(types=tuple(kind.TYPE for kind in _BILLING), billed=_billed),
    lifecycle=_lifecycle,
    questions=questions_of_flow,
    explain_state=ExplainerOfState(
        types=MARKED_TYPES, make=FlowExplainer.of_state, lacks=FlowExplainer.lacks, recall=FlowExplainer.recall
    ),
    waterfall=flow_waterfall,
    stops=StateStops(("step",), _stop),
)
"""The projections of the streams `flow:…`."""
