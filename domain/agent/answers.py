"""The answers of people about one call of a session: a verdict on its unknown outcome, or a yes or no to running it."""

from itertools import chain
from typing import assert_never

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.commands import Approve, Deny, Settle
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalGranted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    WaitEnded,
)
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.instants import to_datetime
from steptrail.domain.shared.approvals import Approval, NotAsked
from steptrail.domain.tools import misnamed


def settle(state: AgentState, command: Settle) -> tuple[AgentEvent, ...]:
    """Return the events of a verdict on a parked call."""
    calls = state.tool_executions
    call = next((call for call in calls if call.effect_id == command.effect_id), None)
    if call is None or call.phase is not CallPhase.PARKED:
        why = f"no call with the effect id {shown(command.effect_id)} waits for a verdict"
        raise NotAsked("settle a call of", state.agent_id, why, "a call in doubt is settled once")
    match command.verdict:
        case "completed":
            done = ToolExecutionCompleted(
                position=call.position, result=command.result, settled_by=command.by, duration_seconds=0.0
            )
            return (done, WaitEnded(reason="settled", by=command.by))
        case "failed":
            message = command.message or "it failed, says the person who looked into it"
            error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:SettledAsFailed", message=message)
            failed = ToolExecutionFailed(
                position=call.position, error=error, settled_by=command.by, duration_seconds=0.0
            )
            return (failed, WaitEnded(reason="settled", by=command.by))
        case "rerun" | "tell":
            return (WaitEnded(reason=command.verdict, by=command.by),)
    assert_never(command.verdict)


def answer_approval(state: AgentState, command: Approve | Deny) -> tuple[AgentEvent, ...]:
    """Return the events of a yes or a no to a call. Raises `CommandRejected`.

    An approval is answered once, and before it expires. Whether it has expired follows from the time in the command. So
    the answer does not depend on whether a process has looked at the session since.
    """
    call = _asked_about(state, command)
    approval = call.approval if call is not None else None
    if call is None or approval is None:
        open_ones = ", ".join(approval.id for approval in state.open_approvals) or "none"
        raise _refused(state, command, f"there is no approval {shown(command.approval_id)}; open are: {open_ones}")
    if not approval.is_open:
        said = f"{_said(approval)} already, and an approval is answered once"
        raise NotAsked(_doing(command), state.agent_id, said, "an approval is answered once")
    if call.open_approval is None:
        raise _refused(state, command, f"its call is {call.status.value} and needs no answer any more")
    if command.at >= approval.expires_at:
        when = f"{to_datetime(approval.expires_at):%Y-%m-%d %H:%M:%S} UTC"
        raise _refused(state, command, f"it expired at {when}, which is a no; `resume` tells the model so")
    # The run goes on when no question of the reply is open any more. One that has expired is open until that is stored.
    is_last = all(other is call or other.open_approval is None for other in state.tool_executions)
    if isinstance(command, Deny):
        denied = ApprovalDenied(approval_id=approval.id, by=command.by, reason=command.reason, key=command.key)
        return (denied, WaitEnded(reason="denied", by=command.by)) if is_last else (denied,)
    if command.digest is not None and command.digest != approval.digest:
        raise _refused(state, command, f"it is about the arguments {approval.digest}, not {command.digest}")
    spec = state.agent.tool(call.name) if state.agent is not None else None
    given = command.arguments
    # A misspelt name must not use up the answer. The values are validated by the tool itself, when it runs.
    if given is not None and spec is not None and (why := misnamed(spec, given)) is not None:
        raise _refused(state, command, f"its edited arguments do not fit {call.name}: {why}")
    granted = ApprovalGranted(
        approval_id=approval.id,
        by=command.by,
        reason=command.reason,
        arguments=command.arguments,
        arguments_digest=digest_of(command.arguments) if command.arguments is not None else None,
        key=command.key,
    )
    return (granted, WaitEnded(reason="approved", by=command.by)) if is_last else (granted,)


def _asked_about(state: AgentState, command: Approve | Deny) -> ToolExecution | None:
    # Past steps are searched newest first. A call that is found there leads to a refusal that says what became of it.
    past = (step.tool_executions for step in reversed(state.steps))
    for call in chain(state.tool_executions, *past):
        if call.approval is not None and call.approval.id == command.approval_id:
            return call
    return None


def _said(approval: Approval) -> str:
    return f"{approval.by} has {approval.answer} it" if approval.by is not None else "it has expired"


def _refused(state: AgentState, command: Approve | Deny, why: str) -> CommandRejected:
    return CommandRejected(_doing(command), state.agent_id, why)


def _doing(command: Approve | Deny) -> str:
    return f"{'approve' if isinstance(command, Approve) else 'deny'} a call of"
