"""What a front end shows of a session or a run of a workflow, and how to reconcile a stream."""

from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.conversation import ui_conversation
from steptrail.projections.ui.flow import ui_flow
from steptrail.projections.ui.flow_models import UiFlowError, UiFlowNode, UiFlowQuestion, UiFlowRun
from steptrail.projections.ui.ids import reply_id, said_id, status_id
from steptrail.projections.ui.models import (
    UiApproval,
    UiCitation,
    UiContinuation,
    UiConversation,
    UiFile,
    UiMessage,
    UiMetadata,
    UiRetry,
    UiRole,
    UiStatusType,
    UiToolCall,
    UiToolStatus,
)
from steptrail.projections.ui.reconciliation import reconcile

__all__ = [
    "UiApproval",
    "UiCitation",
    "UiConfig",
    "UiContinuation",
    "UiConversation",
    "UiFile",
    "UiFlowError",
    "UiFlowNode",
    "UiFlowQuestion",
    "UiFlowRun",
    "UiMessage",
    "UiMetadata",
    "UiRetry",
    "UiRole",
    "UiStatusType",
    "UiToolCall",
    "UiToolStatus",
    "reconcile",
    "reply_id",
    "said_id",
    "status_id",
    "ui_conversation",
    "ui_flow",
]
