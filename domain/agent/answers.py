"""The answers of people about one call of a session: a verdict on its unknown outcome, or a yes or no to running it."""

from itertools import chain
from typing import Literal, assert_never

from steptrail.domain.agent.asking import is_asked
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.commands import AnswerCall, Approve, Deny, Settle
from steptrail.domain.agent.events import AgentEvent, ToolExecutionCompleted, ToolExecutionFailed, WaitEnded
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.instants import instant_text
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.approvals import NotAsked, answer_to
from steptrail.domain.shared.events import settled
from steptrail.domain.tools import result_text


def settle(state: AgentState, command: Settle) -> tuple[AgentEvent, ...]:
    """Return the events of a verdict on a parked call. Raises `CommandRejected`.

    The end of a wait names no call: it is that of the call that is asked about, or another one would run again.
    """
    calls = state.tool_executions
    call = next((call for call in calls if call.effect_id == command.effect_id), None)
    if call is None or call.phase is not CallPhase.PARKED:
        why = f"no call with the effect id {shown(command.effect_id)} waits for a verdict"
        raise NotAsked("settle a call of", state.agent_id, why, "a call in doubt is settled once")
    wait = state.execution.wait if state.execution is not None else None
    is_asked_about = wait is not None and wait.kind == "unknown_outcome" and wait.position == call.position
    ended = (WaitEnded(reason="settled", by=command.by),) if is_asked_about else ()
    by_whom = settled(command.by, command.reason)
    match command.verdict:
        case "completed":
            done = ToolExecutionCompleted(position=call.position, result=command.result, **by_whom)
            return (done, *ended)
        case "failed":
            message = command.message or "it failed, says the person who looked into it"
            error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:SettledAsFailed", message=message)
            failed = ToolExecutionFailed(position=call.position, error=error, **by_whom)
            return (failed, *ended)
        case "rerun" | "tell":
            if not is_asked_about:
                why = (
                    f"the run does not ask about {shown(command.effect_id)} yet: it does when what it asked about "
                    "before is settled and it has gone on, with `resume` or a worker"
                )
                raise CommandRejected("settle a call of", state.agent_id, why)
            return (WaitEnded(reason=command.verdict, by=command.by, settled_reason=command.reason),)
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
        why = f"there is no approval {shown(command.approval_id)}; open are: {open_ones}"
        raise CommandRejected(command.DOING, state.agent_id, why)
    if not approval.is_open:
        outcome = f"{approval.by} has {approval.answer} it" if approval.by is not None else "it has expired"
        said = f"{outcome} already, and an approval is answered once"
        raise NotAsked(command.DOING, state.agent_id, said, "an approval is answered once")
    if call.open_approval is None:
        why = f"its call is {call.status.value} and needs no answer any more"
        raise CommandRejected(command.DOING, state.agent_id, why)
    tool = state.agent.tool(call.name) if state.agent is not None else None
    answer = answer_to(approval, command, tool, state.agent_id, late="; `resume` tells the model so")
    # The run goes on when no question of the reply is open any more. One that has expired is open until that is stored.
    reason: Literal["denied", "approved"] = "denied" if isinstance(command, Deny) else "approved"
    return (answer, WaitEnded(reason=reason, by=command.by)) if _is_last(state, call) else (answer,)


def _is_last(state: AgentState, call: ToolExecution) -> bool:
    """Tell whether nobody is asked about any other call of the reply."""
    return all(other is call or not is_asked(other) for other in state.tool_executions)


def answer_call(state: AgentState, command: AnswerCall) -> tuple[AgentEvent, ...]:
    """Return the events of a result of an external call, or of its failure. Raises `CommandRejected`.

    It is answered once, and before it expires. As with an approval, that follows from the time in the command.
    """
    call = next((call for call in state.tool_executions if call.effect_id == command.effect_id), None)
    asked = call.open_deferral if call is not None else None
    if call is None or asked is None:
        open_ones = ", ".join(open_call.id for open_call in state.open_calls) or "none"
        why = (
            f"no external call with the effect id {shown(command.effect_id)} waits for a result; open are: {open_ones}"
        )
        raise NotAsked(command.DOING, state.agent_id, why, "a call is answered once")
    if command.at >= asked.expires_at:
        why = f"it expired at {instant_text(asked.expires_at)}, so the call has failed; `resume` tells the model so"
        raise CommandRejected(command.DOING, state.agent_id, why)
    by_whom = settled(command.by, command.reason)
    answer: AgentEvent
    if command.error is not None:
        error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:AnsweredAsFailed", message=command.error)
        answer = ToolExecutionFailed(position=call.position, error=error, key=command.key, **by_whom)
    else:
        answer = ToolExecutionCompleted(
            position=call.position,
            result=command.result,
            shown_characters=_shown_characters(state, command.result),
            key=command.key,
            **by_whom,
        )
    wait = state.execution.wait if state.execution is not None else None
    is_waited_for = wait is not None and wait.kind in {"approval", "external"}
    ends = is_waited_for and _is_last(state, call)
    return (answer, WaitEnded(reason="answered", by=command.by)) if ends else (answer,)


def _shown_characters(state: AgentState, result: JsonValue) -> int | None:
    most = state.agent.limits.max_result_characters if state.agent is not None else None
    return most if most is not None and len(result_text(result)) > most else None


def _asked_about(state: AgentState, command: Approve | Deny) -> ToolExecution | None:
    # Past steps are searched newest first. A call that is found there leads to a refusal that says what became of it.
    past = (step.tool_executions for step in reversed(state.steps))
    for call in chain(state.tool_executions, *past):
        if call.approval is not None and call.approval.id == command.approval_id:
            return call
    return None
