"""What a trail hands out, for annotations of your own. `Steptrail` and `Session` are in `steptrail` itself."""

from steptrail.domain.flow.state import FlowState
from steptrail.interfaces.python.asking_runs import RunsPage
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.sync import SyncSession, SyncSteptrail
from steptrail.interfaces.python.sync_flow import SyncFlow
from steptrail.interfaces.python.views import SqlAnswer, TrailViews
from steptrail.projections.flow_explanation import FlowExplanation
from steptrail.runtime.kernel.follower import Follower
from steptrail.runtime.kernel.worker import Worker

__all__ = [
    "Flow",
    "FlowExplanation",
    "FlowState",
    "Follower",
    "RunsPage",
    "SqlAnswer",
    "SyncFlow",
    "SyncSession",
    "SyncSteptrail",
    "TrailViews",
    "Worker",
]
