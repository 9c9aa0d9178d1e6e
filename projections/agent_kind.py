"""The projections of the sessions of agents."""

from collections.abc import Mapping

from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    ConversationCompacted,
    InferenceCompleted,
    StepCompleted,
    UsageRecorded,
)
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.usage import Usage
from steptrail.projections.agent_waterfall import agent_waterfall
from steptrail.projections.explanation import MARKED_TYPES, AgentExplainer
from steptrail.projections.kinds import Bill, ExplainerOfState, KindProjections, Lifecycle, StateStops, StopWord
from steptrail.projections.questions import questions


def _lifecycle(state: AgentState) -> Lifecycle:
    # Imported when somebody listens: a run that nobody listens to starts sooner.
    from steptrail.projections.lifecycle import LifecycleFold

    return LifecycleFold(state)


def _billed(event: Event) -> Usage | None:
    match event:
        case InferenceCompleted(reply=reply):
            return reply.usage
        case UsageRecorded(usage=usage) | ConversationCompacted(usage=usage):
            return usage
        case _:
            return None


def _stop(event: Event) -> StopWord | None:
    stops: Mapping[type[Event], StopWord] = {StepCompleted: "step", ContinuationEvaluated: "decision"}
    return stops.get(type(event))


PROJECTIONS_OF_AGENTS = KindProjections(
    explain=AgentExplainer,
    bill=Bill(types=(InferenceCompleted.TYPE, UsageRecorded.TYPE, ConversationCompacted.TYPE), begin=lambda: _billed),
    lifecycle=_lifecycle,
    questions=questions,
    explain_state=ExplainerOfState(
        types=MARKED_TYPES, make=AgentExplainer.of_state, lacks=AgentExplainer.lacks, recall=AgentExplainer.recall
    ),
    waterfall=agent_waterfall,
    stops=StateStops(("step", "decision"), _stop),
)
"""The projections of the streams `agent:…`."""
