"""Fold handlers of approvals: a call is held, a person is asked about it, and the question is answered or expires."""

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.fold_calls import end_call, end_wait, move_call
from steptrail.domain.agent.ids import position_of
from steptrail.domain.agent.step import Hold, ToolExecution
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared.approvals import Approval

APPROVAL_HANDLERS = Handlers[SessionFold, [int], None]()


@APPROVAL_HANDLERS.of(stored.ToolCallHeld)
def _held(fold: SessionFold, event: stored.ToolCallHeld, at: int) -> None:
    move_call(fold, event.position, event, hold=Hold(event.rule, event.hook))


@APPROVAL_HANDLERS.of(stored.ApprovalRequested)
def _requested(fold: SessionFold, event: stored.ApprovalRequested, at: int) -> None:
    move_call(fold, event.position, event, approval=Approval.of(event, at, fold.version + 1))


@APPROVAL_HANDLERS.of(stored.ApprovalGranted)
def _granted(fold: SessionFold, event: stored.ApprovalGranted, at: int) -> None:
    fold.remember(event.key, f"approve {event.approval_id}")
    if (asked := _asked_about(fold, event.approval_id)) is None:
        return
    call, approval = asked
    end_wait(fold, call.position, approval.id, at)
    run = call.call
    if event.arguments is not None:
        run = structs.replace(run, arguments=event.arguments, raw=None)
    move_call(fold, call.position, event, approval=approval.with_yes(event), call=run)


@APPROVAL_HANDLERS.of(stored.ApprovalDenied)
def _denied(fold: SessionFold, event: stored.ApprovalDenied, at: int) -> None:
    fold.remember(event.key, f"deny {event.approval_id}")
    if (asked := _asked_about(fold, event.approval_id)) is not None:
        call, approval = asked
        end_wait(fold, call.position, approval.id, at)
        why = f": {event.reason}" if event.reason else ""
        text = f"This call was not run: {event.by} denied it{why}."
        end_call(
            fold, call.position, event, approval=structs.replace(approval, answer="denied", by=event.by), text=text
        )


@APPROVAL_HANDLERS.of(stored.ApprovalExpired)
def _expired(fold: SessionFold, event: stored.ApprovalExpired, at: int) -> None:
    if (asked := _asked_about(fold, event.approval_id)) is not None:
        call, approval = asked
        text = "This call was not run: nobody approved it in time."
        end_call(fold, call.position, event, approval=structs.replace(approval, answer="expired"), text=text)
        end_wait(fold, call.position, approval.id)


def _asked_about(fold: SessionFold, approval_id: str) -> tuple[ToolExecution, Approval] | None:
    """Return the call that waits for this approval, and the approval; None when no call waits for it.

    An approval has the id of the call's effect, so the call is found without a look at all of them.
    """
    position = position_of(approval_id)
    for call in fold.step.calls[position : position + 1] if fold.step is not None and position >= 0 else ():
        if (approval := call.open_approval) is not None and approval.id == approval_id:
            return call, approval
    return None
