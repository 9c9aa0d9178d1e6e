"""What a trail hands out, for annotations of your own. `Steptrail` and `Session` are in `steptrail` itself."""

from steptrail.domain.flow.state import FlowState
from steptrail.infrastructure.views.counted import AsOf
from steptrail.infrastructure.views.verifying import ViewsFault
from steptrail.interfaces.python.asking_runs import AskingRuns, RunsPage
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.sync import SyncSession, SyncSteptrail
from steptrail.interfaces.python.sync_flow import SyncFlow
from steptrail.interfaces.python.sync_views import SyncViews
from steptrail.interfaces.python.views import PruneReport, SqlAnswer, TrailViews, ViewsStatus
from steptrail.projections.flow_explanation import FlowExplanation
from steptrail.runtime.kernel.follower import Follower
from steptrail.runtime.kernel.worker import Worker

__all__ = [
    "AsOf",
    "AskingRuns",
    "Flow",
    "FlowExplanation",
    "FlowState",
    "Follower",
    "PruneReport",
    "RunsPage",
    "SqlAnswer",
    "SyncFlow",
    "SyncSession",
    "SyncSteptrail",
    "SyncViews",
    "TrailViews",
    "ViewsFault",
    "ViewsStatus",
    "Worker",
]
