"""A session as a front end shows it, as data."""

from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.conversation import ui_conversation
from steptrail.projections.ui.ids import reply_id, said_id, status_id
from steptrail.projections.ui.models import (
    UiApproval,
    UiCitation,
    UiContinuation,
    UiConversation,
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
]
