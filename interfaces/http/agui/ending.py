"""How an AG-UI run ends: with success, with questions, called off, or with an error.

A run of the protocol is one look at a session: it ends where the session rests, even if the execution is not over
there. Success is an execution that completed, also at a limit, which its result names, and one that waits for
results of the front end alone. A run that a person stopped,
that is paused, or that waits for something other than an answer was called off. Clients from before version 1.0 of the
protocol break at that word, so a client that names no version gets the result alone.
"""

from typing import TYPE_CHECKING

from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import BilledUsage, Usage
from steptrail.interfaces.http.agui.config import AguiConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from ag_ui.core import Event, Interrupt, TokenUsage


def questions(state: AgentState) -> list[tuple[ToolExecution, Approval]]:
    """Return the approvals that somebody is asked for now, with their calls."""
    return [(call, asked) for call in state.tool_executions if (asked := call.open_approval) is not None]


def page_calls(state: AgentState, config: AguiConfig) -> list[ToolExecution]:
    """Return the external calls for whose results the front end is asked."""
    brought = {tool.name for tool in state.external_tools if tool.external is not None and tool.external.of_page}
    names = brought | config.front_end_tools
    return [call for call in state.tool_executions if call.open_deferral is not None and call.name in names]


def ending(
    state: AgentState,
    *,
    run_id: str,
    thread_id: str,
    since: AgentState,
    error: str | None,
    call_id: "Callable[[int], str]",
    protocol_version: str | None,
    config: AguiConfig,
) -> "Event":
    """Return the last event of a run that has come as far as it can; `since` is the session when it began.

    `error` is what may be said of an error, `call_id` the id of a call of the open step, `protocol_version` what the
    client says that it speaks, and `config` says which calls are the client's.
    """
    from ag_ui.core import (
        RunErrorEvent,
        RunFinishedCancelledOutcome,
        RunFinishedEvent,
        RunFinishedInterruptOutcome,
        RunFinishedOutcome,
        RunFinishedSuccessOutcome,
    )

    usage = _usage(state, since) or None
    stop_reason = state.stop_reason
    if state.status is ExecutionStatus.FAILED and stop_reason is not None:
        message = error or f"The run failed ({stop_reason.value})."
        return RunErrorEvent(message=message, code=stop_reason.value, usage=usage)
    outcome: RunFinishedOutcome | None
    if asked := questions(state):
        interrupts = [asked_for(state, call, approval, call_id(call.position)) for call, approval in asked]
        outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
    elif page_calls(state, config):
        # The client finds the calls without a result, runs those of its own tools, and posts what came of them.
        outcome = RunFinishedSuccessOutcome()
    elif state.is_open or stop_reason is StopReason.USER_REQUESTED:
        outcome = RunFinishedCancelledOutcome() if protocol_version is not None else None
    else:
        outcome = RunFinishedSuccessOutcome()
    return RunFinishedEvent(thread_id=thread_id, run_id=run_id, result=_result(state), outcome=outcome, usage=usage)


def asked_for(state: AgentState, call: ToolExecution, approval: Approval, call_id: str) -> "Interrupt":
    """Return the question whether a call may run, with a schema for the answer."""
    from ag_ui.core import Interrupt

    spec = state.agent.tool(call.name) if state.agent is not None else None
    arguments = dict(spec.parameters if spec is not None else {}) or {"type": "object"}
    definitions = arguments.pop("$defs", None)  # what refers to them does so from the top of the schema
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedArgs": arguments,
            "reason": {"type": "string"},
        },
        "required": ["approved"],
        "additionalProperties": False,
        **({"$defs": definitions} if definitions is not None else {}),
    }
    return Interrupt(
        id=approval.id,
        reason="tool_call",
        message=approval.reason or f"May {call.name} run?",
        tool_call_id=call_id,
        response_schema=schema,
        expires_at=to_datetime(approval.expires_at).isoformat(),
        metadata={"tool": call.name, "digest": approval.digest, "askedBy": approval.asked_by},
    )


def _result(state: AgentState) -> dict[str, JsonValue]:
    made = state.last_continuation_outcome
    return {
        "status": state.status.value,
        "stopReason": state.stop_reason.value if state.stop_reason is not None else None,
        "resolvedBy": made.resolved_by if made is not None and state.stop_reason is not None else None,
        "answered": state.answered,
        "steps": state.step_count,
    }


def _usage(state: AgentState, since: AgentState) -> "list[TokenUsage]":
    """Return what was billed since, by model; what no model is known for has an entry without one."""
    from ag_ui.core import TokenUsage

    bill = BilledUsage.of(state.usage, state.model_usage)
    if since.execution_id == state.execution_id:
        bill = bill.beyond(BilledUsage.of(since.usage, since.model_usage))
    models = [(each.answered_by or each.asked_for, each.usage) for each in bill.models]
    rest: Usage = bill
    for _, usage in models:
        rest = rest - usage
    return [
        TokenUsage(
            model=model,
            input_tokens=usage.all_input,
            output_tokens=usage.all_output,
            total_tokens=usage.total,
            reasoning_tokens=usage.reasoning or None,
            cached_input_tokens=usage.cache_read or None,
            cache_write_input_tokens=usage.cache_write or None,
        )
        for model, usage in [*models, (None, rest)]
        if usage.total
    ]
