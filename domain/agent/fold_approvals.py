"""Fold handlers of approvals: what a call waits for, and what became of it."""

from dataclasses import replace
from typing import Literal

from steptrail.domain.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ToolCallHeld,
)
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_step import change_call, settle_call
from steptrail.domain.agent.step import Approval, CallStatus, Hold
from steptrail.domain.kernel.handlers import Handlers

__all__ = ["APPROVAL_HANDLERS"]

APPROVAL_HANDLERS = Handlers[SessionFold, [int], None]()


@APPROVAL_HANDLERS.of(ToolCallHeld)
def _held(fold: SessionFold, event: ToolCallHeld, at: int) -> None:
    del at
    change_call(fold, event.position, hold=Hold(event.rule, event.hook))


@APPROVAL_HANDLERS.of(ApprovalRequested)
def _requested(fold: SessionFold, event: ApprovalRequested, at: int) -> None:
    asked = Approval(
        id=event.approval_id,
        digest=event.arguments_digest,
        expires_at=event.expires_at,
        asked_at=at,
        asked_at_version=fold.version + 1,
        asked_by=event.asked_by,
        reason=event.reason,
    )
    change_call(fold, event.position, approval=asked)


@APPROVAL_HANDLERS.of(ApprovalGranted)
def _granted(fold: SessionFold, event: ApprovalGranted, at: int) -> None:
    del at
    fold.remember(event.key, f"approve {event.approval_id}")
    position = _answer(fold, event.approval_id, "granted", event.by, granted=event.arguments_digest)
    if position is not None and event.arguments is not None and fold.step is not None:
        call = fold.step.calls[position].call
        change_call(fold, position, call=call.model_copy(update={"arguments": event.arguments, "raw": None}))


@APPROVAL_HANDLERS.of(ApprovalDenied)
def _denied(fold: SessionFold, event: ApprovalDenied, at: int) -> None:
    del at
    fold.remember(event.key, f"deny {event.approval_id}")
    position = _answer(fold, event.approval_id, "denied", event.by)
    if position is not None:
        why = f": {event.reason}" if event.reason else ""
        settle_call(fold, position, CallStatus.DENIED, text=f"This call was not run: {event.by} denied it{why}.")


@APPROVAL_HANDLERS.of(ApprovalExpired)
def _expired(fold: SessionFold, event: ApprovalExpired, at: int) -> None:
    del at
    position = _answer(fold, event.approval_id, "expired", None)
    if position is not None:
        settle_call(fold, position, CallStatus.DENIED, text="This call was not run: nobody approved it in time.")


def _answer(
    fold: SessionFold,
    approval_id: str,
    answer: Literal["granted", "denied", "expired"],
    by: str | None,
    granted: str | None = None,
) -> int | None:
    """Keep the answer and return the position of the call it is about; nothing when no call waits for it."""
    for call in fold.step.calls if fold.step is not None else ():
        asked = call.open_approval
        if asked is not None and asked.id == approval_id:
            approved = (granted or asked.digest) if answer == "granted" else None
            change_call(fold, call.position, approval=replace(asked, answer=answer, by=by, granted=approved))
            return call.position
    return None
