"""The projections of the runs of workflows."""

from typing import TypeAlias

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.event import Event
from steptrail.domain.usage import Usage
from steptrail.projections.flow_explanation import MARKED_TYPES, FlowExplainer
from steptrail.projections.flow_questions import questions_of_flow
from steptrail.projections.flow_waterfall import ends_visit, flow_waterfall
from steptrail.projections.kinds import Bill, ExplainerOfState, KindProjections, Lifecycle, StateStops, StopWord


def _lifecycle(state: FlowState) -> Lifecycle:
    # Imported when somebody listens: a run that nobody listens to starts sooner.
    from steptrail.projections.lifecycle.flow_fold import FlowLifecycleFold

    return FlowLifecycleFold(state)


_Place: TypeAlias = tuple[str, int, int | None] | str
"""The place of a task in its run, or the id of its effect."""


class _Billed:
    """Returns what an event bills. The tries that run a stream below are told the bill of that, and have none."""

    def __init__(self) -> None:
        self._of_streams = set[_Place]()

    def __call__(self, event: Event) -> Usage | None:
        match event:
            case stored.NodeAttemptStarted():
                places: set[_Place] = {event.key, event.effect_id}
                self._of_streams -= places
                if event.stream_effect is not None:
                    self._of_streams |= places
                return None
            case stored.NodeAttemptCompleted() | stored.NodeAttemptFailed() | stored.NodeAttemptInterrupted():
                return None if event.key in self._of_streams else event.usage
            case stored.NodeAttemptSettledLate():
                return None if event.effect_id in self._of_streams else event.usage
            case _:
                return None


def _stop(event: Event) -> StopWord | None:
    return "step" if ends_visit(event) else None


_BILLING = (
    *(stored.NodeAttemptStarted, stored.NodeAttemptCompleted, stored.NodeAttemptFailed),
    *(stored.NodeAttemptInterrupted, stored.NodeAttemptSettledLate),
)

PROJECTIONS_OF_FLOWS = KindProjections(
    explain=FlowExplainer,
    bill=Bill(types=tuple(kind.TYPE for kind in _BILLING), begin=_Billed),
    lifecycle=_lifecycle,
    questions=questions_of_flow,
    explain_state=ExplainerOfState(
        types=MARKED_TYPES, make=FlowExplainer.of_state, lacks=FlowExplainer.lacks, recall=FlowExplainer.recall
    ),
    waterfall=flow_waterfall,
    stops=StateStops(("step",), _stop),
)
"""The projections of the streams `flow:…`."""
