"""The state of the session of an agent as `show` prints it."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.base import full_form
from steptrail.domain.failures import StepError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import CitationPart, Message
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.results import result_data
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped
from steptrail.projections.rendering import asked_for, error_data, error_lines, since_text
from steptrail.projections.stop_reasons import project_stop_reasons
from steptrail.runtime.agent.result import RunResult

_CUT = 100


def agent_state_data(state: AgentState, records: Sequence[Recorded[Any]]) -> dict[str, JsonValue]:
    """Return the state as JSON; `records` are its events of `STOP_REASON_TYPES`."""
    outcome = state.last_continuation_outcome
    return {
        **result_data(RunResult(state)),
        "name": state.name,
        "phase": state.phase.value,
        "locator": state.agent.locator if state.agent else None,
        "startedAt": state.started_at.isoformat(),
        "updatedAt": state.updated_at.isoformat(),
        "metadata": dict(state.metadata),
        "executions": [
            {
                "executionId": stop.execution_id,
                "status": stop.status.value,
                "stopReason": stop.stop_reason.value,
                "answered": stop.answered,
            }
            for stop in project_stop_reasons(records)
        ],
        "stepList": [_step_data(step) for step in state.steps],
        "openStep": state.open_step,
        "openCalls": [_call_data(call) for call in state.tool_executions],
        "messages": [full_form(message) for message in state.messages],
        "lastError": error_data(_last_error(state)),
        "lastDecision": outcome.to_dict() if outcome else None,
    }


def _step_data(step: AgentStep) -> dict[str, JsonValue]:
    return {
        "number": step.number,
        "durationSeconds": step.duration_seconds,
        "finishReason": step.finish_reason.value if step.finish_reason else None,
        "tokens": step.usage.total,
        "errors": [full_form(error) for error in step.errors],
        "calls": [_call_data(call) for call in step.tool_executions],
    }


def _call_data(call: ToolExecution) -> dict[str, JsonValue]:
    return {
        "tool": call.name,
        "status": call.status.value,
        "effectId": call.effect_id,
        "arguments": call.arguments,
        "result": call.result,
        "error": full_form(call.error) if call.error else None,
        "durationSeconds": call.duration_seconds,
    }


def print_agent_state(output: Output, state: AgentState, records: Sequence[Recorded[Any]]) -> None:
    """Print the state; `records` are its events of `STOP_REASON_TYPES`."""
    reason = f" ({state.stop_reason.value})" if state.stop_reason else ""
    output.line(f"session  {state.agent_id}")
    output.line(f"agent    {one_line(state.name)}")
    output.line(f"status   {state.status.value}{reason}, {state.phase.value} at version {state.version}")
    output.line(f"started  {clock_time(state.fold.created_at)} UTC")
    output.line(f"updated  {clock_time(state.fold.updated_at)} UTC")
    for what, asked in asked_for(state):
        output.line(f"{what:<8} {one_line(f'{asked.by_whom}, {since_text(asked.at, state.as_of)}')}")
    cost = f"{state.cost}, " if state.cost is not None else ""
    output.line(f"spent    {state.usage.total} tokens, {cost}{state.cumulative_execution_seconds:.2f} s active")

    rows = [
        [
            stop.execution_id,
            stop.status.value,
            how_it_stopped(stop.stop_reason, answered=stop.answered),
            stop.resolved_by,
        ]
        for stop in project_stop_reasons(records)
    ]
    if state.execution_id is not None and state.is_open:
        rows.append([state.execution_id, state.status.value, "", ""])
    output.section("executions", ["EXECUTION", "STATUS", "STOP REASON", "DECIDED BY"], rows)
    _section(output, f"steps of {state.execution_id}", is_any=bool(state.steps or state.open_step))
    output.lines(_steps(state))
    _section(output, "messages", is_any=bool(state.messages))
    output.lines(_messages(state))
    _print_votes(output, state)
    if (failed := _last_error(state)) is not None:
        _section(output, "last error", is_any=True)
        for what, text in error_lines(failed.error, failed.tool_name):
            output.line(f"  {what:<9} {one_line(text)}")


def _last_error(state: AgentState) -> StepError | None:
    """Return the error that decided, else the newest one of the execution, also where the run went on after it."""
    newest = (step.errors[-1] for step in reversed(state.steps) if step.errors)
    return deciding_error(state) or next(newest, None)


def _print_votes(output: Output, state: AgentState) -> None:
    outcome = state.last_continuation_outcome
    if outcome is None:
        return
    decision = "go on" if outcome.should_continue else f"stop ({outcome.stop_reason.value})"
    _section(output, f"last decision: {decision}, by {outcome.resolved_by}", is_any=True)
    rows = [[vote.criterion_class, vote.decision.value, vote.reason] for vote in outcome.evaluations]
    output.table(["CRITERION", "VOTE", "REASON"], rows, indent="  ")


def _section(output: Output, title: str, *, is_any: bool) -> None:
    if is_any:
        output.line()
        output.line(title)


def _steps(state: AgentState) -> Iterator[str]:
    for step in state.steps:
        said = step.finish_reason.value if step.finish_reason else "no reply"
        yield f"  step {step.number}  {step.duration_seconds:.2f} s, {step.usage.total} tokens, {said}"
        yield from map(_call, step.tool_executions)
        for error in step.errors:
            if error.tool_name is None:
                yield f"    {error.error.type.value} error: {one_line(str(error.error), _CUT)}"
    if state.open_step is not None:
        yield f"  step {state.open_step}  open"
        yield from map(_call, state.tool_executions)


def _call(call: ToolExecution) -> str:
    said = str(call.error) if call.error else call.text or ""
    told = f": {one_line(said, _CUT)}" if said else ""
    effect = f" [{call.effect_id}]" if call.effect_id else ""
    return f"    {call.name} {call.status.value}, {call.duration_seconds:.2f} s{effect}{told}"


def _messages(state: AgentState) -> Iterator[str]:
    for message in state.messages:
        yield f"  {message.role.value:<9} {_message(message)}".rstrip()
        for source in _sources(message):
            yield f"  {'':<9} {source}"


def _sources(message: Message) -> list[str]:
    cited = [part for part in message.parts if isinstance(part, CitationPart)]
    told = dict.fromkeys(tuple(text for text in (part.title, part.uri, part.quote) if text) for part in cited)
    return [one_line(f"[cites {', '.join(texts)}]", _CUT) for texts in told if texts]


def _message(message: Message) -> str:
    calls = [f"[calls {call.name}]" for call in message.tool_calls]
    return one_line(" ".join([message.text, *calls]), _CUT)
