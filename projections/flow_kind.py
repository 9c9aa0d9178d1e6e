"""The projections of the runs of workflows."""

from collections.abc import Sequence

from steptrail.domain.flow.events import NodeAttemptCompleted, NodeAttemptFailed, NodeAttemptInterrupted
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.usage import Usage
from steptrail.projections.flow_explanation import MARKED_TYPES, FlowExplainer
from steptrail.projections.flow_questions import questions_of_flow
from steptrail.projections.kinds import Bill, ExplainerOfState, KindProjections

__all__ = ["PROJECTIONS_OF_FLOWS"]


class _NothingTold:
    """Tells listeners and front ends nothing: they follow the events of a workflow themselves."""

    def __init__(self, state: FlowState) -> None:
        self.version = state.version

    def apply(self, record: Recorded[Event], /, *, position: int | None = None) -> tuple[()]:
        """Return no lifecycle event."""
        del position
        self.version = record.version
        return ()


def _billed(event: Event) -> Usage | None:
    match event:
        case NodeAttemptCompleted() | NodeAttemptFailed() | NodeAttemptInterrupted():
            return event.usage
        case _:
            return None


_BILLING: Sequence[type[NodeAttemptCompleted | NodeAttemptFailed | NodeAttemptInterrupted]] = (
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
)

PROJECTIONS_OF_FLOWS = KindProjections(
    explain=FlowExplainer,
    bill=Bill(types=tuple(kind.TYPE for kind in _BILLING), billed=_billed),
    lifecycle=_NothingTold,
    questions=questions_of_flow,
    explain_state=ExplainerOfState(
        types=MARKED_TYPES, make=FlowExplainer.of_state, lacks=FlowExplainer.lacks, recall=FlowExplainer.recall
    ),
)
"""The projections of the streams `flow:…`."""
