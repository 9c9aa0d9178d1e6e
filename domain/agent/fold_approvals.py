"""Fold handlers of approvals: a call is held, a person is asked about it, and the question is answered or expires."""

from msgspec import structs

from steptrail.domain.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ToolCallHeld,
)
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_calls import end_call, move_call
from steptrail.domain.agent.step import Hold, ToolExecution
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.kernel.standing import answered
from steptrail.domain.shared.approvals import Approval

APPROVAL_HANDLERS = Handlers[SessionFold, [int], None]()


@APPROVAL_HANDLERS.of(ToolCallHeld)
def _held(fold: SessionFold, event: ToolCallHeld, at: int) -> None:
    move_call(fold, event.position, event, hold=Hold(event.rule, event.hook))


@APPROVAL_HANDLERS.of(ApprovalRequested)
def _requested(fold: SessionFold, event: ApprovalRequested, at: int) -> None:
    move_call(fold, event.position, event, approval=Approval.of(event, at, fold.version + 1))


@APPROVAL_HANDLERS.of(ApprovalGranted)
def _granted(fold: SessionFold, event: ApprovalGranted, at: int) -> None:
    fold.remember(event.key, f"approve {event.approval_id}")
    if (asked := _asked_about(fold, event.approval_id)) is None:
        return
    _answered(fold, event.approval_id, at)
    call, approval = asked
    run = call.call
    if event.arguments is not None:
        run = structs.replace(run, arguments=event.arguments, raw=None)
    granted = structs.replace(
        approval, answer="granted", by=event.by, granted=event.arguments_digest or approval.digest
    )
    move_call(fold, call.position, event, approval=granted, call=run)


@APPROVAL_HANDLERS.of(ApprovalDenied)
def _denied(fold: SessionFold, event: ApprovalDenied, at: int) -> None:
    fold.remember(event.key, f"deny {event.approval_id}")
    if (asked := _asked_about(fold, event.approval_id)) is not None:
        _answered(fold, event.approval_id, at)
        call, approval = asked
        why = f": {event.reason}" if event.reason else ""
        text = f"This call was not run: {event.by} denied it{why}."
        end_call(
            fold, call.position, event, approval=structs.replace(approval, answer="denied", by=event.by), text=text
        )


@APPROVAL_HANDLERS.of(ApprovalExpired)
def _expired(fold: SessionFold, event: ApprovalExpired, at: int) -> None:
    if (asked := _asked_about(fold, event.approval_id)) is not None:
        call, approval = asked
        text = "This call was not run: nobody approved it in time."
        end_call(fold, call.position, event, approval=structs.replace(approval, answer="expired"), text=text)
        if (execution := fold.execution) is not None:
            execution.waits = tuple(wait for wait in execution.waits if wait.id != event.approval_id)


def _answered(fold: SessionFold, approval_id: str, at: int) -> None:
    if fold.execution is not None:
        fold.execution.waits = answered(fold.execution.waits, at, approval_id)


def _asked_about(fold: SessionFold, approval_id: str) -> tuple[ToolExecution, Approval] | None:
    """Return the call that waits for this approval, and the approval; None when no call waits for it."""
    for call in fold.step.calls if fold.step is not None else ():
        if (approval := call.open_approval) is not None and approval.id == approval_id:
            return call, approval
    return None
