"""The state of the session of an agent as `show` prints it."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.events import ExecutionStarted
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.base import full_form
from steptrail.domain.failures import StepError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import CitationPart, Message
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.results import result_data
from steptrail.interfaces.cli.states import EXECUTION_HEADS, executions_of, print_head, print_lines, stream_data
from steptrail.projections.rendering import error_data, error_lines, many
from steptrail.runtime.agent.result import RunResult

_CUT = 100


def agent_state_data(state: AgentState, records: Sequence[Recorded[Any]]) -> dict[str, JsonValue]:
    """Return the state as JSON; `records` are its events of `STOP_REASON_TYPES`."""
    outcome = state.last_continuation_outcome
    return {
        **result_data(RunResult(state)),
        "name": state.name,
        **stream_data(state),
        "phase": state.phase.value,
        "locator": state.agent.locator if state.agent else None,
        "executions": [
            {**each.to_dict(), "answered": each.end is not None and each.end.answered}
            for each in executions_of(state.agent_id, state, records, ExecutionStarted)
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
    names = [("session", state.agent_id), ("agent", state.name)]
    status = f"{state.status.value}{reason}, {state.phase.value}"
    print_head(output, state, names, status=status, seconds=state.cumulative_execution_seconds)
    executions = executions_of(state.agent_id, state, records, ExecutionStarted)
    output.section("executions", EXECUTION_HEADS, [each.cells() for each in executions])
    if state.steps or state.open_step:
        print_lines(output, f"steps of {state.execution_id}", [*_steps(state)])
    if state.messages:
        print_lines(output, "messages", [*_messages(state)])
    if (outcome := state.last_continuation_outcome) is not None:
        decision = "go on" if outcome.should_continue else f"stop ({outcome.stop_reason.value})"
        votes = [[vote.criterion_class, vote.decision.value, vote.reason] for vote in outcome.evaluations]
        title = f"last decision: {decision}, by {outcome.resolved_by}"
        output.section(title, ["CRITERION", "VOTE", "REASON"], votes)
    if (failed := _last_error(state)) is not None:
        lines = error_lines(failed.error, failed.tool_name)
        print_lines(output, "last error", [f"{what:<9} {one_line(text)}" for what, text in lines])


def _last_error(state: AgentState) -> StepError | None:
    """Return the error that decided, else the newest one of the execution, also where the run went on after it."""
    newest = (step.errors[-1] for step in reversed(state.steps) if step.errors)
    return deciding_error(state) or next(newest, None)


def _steps(state: AgentState) -> Iterator[str]:
    for step in state.steps:
        said = step.finish_reason.value if step.finish_reason else "no reply"
        yield f"step {step.number}  {step.duration_seconds:.2f} s, {many(step.usage.total, 'token')}, {said}"
        yield from map(_call, step.tool_executions)
        for error in step.errors:
            if error.tool_name is None:
                yield f"  {error.error.type.value} error: {one_line(str(error.error), _CUT)}"
    if state.open_step is not None:
        yield f"step {state.open_step}  open"
        yield from map(_call, state.tool_executions)


def _call(call: ToolExecution) -> str:
    said = str(call.error) if call.error else call.text or ""
    told = f": {one_line(said, _CUT)}" if said else ""
    effect = f" [{call.effect_id}]" if call.effect_id else ""
    return f"  {call.name} {call.status.value}, {call.duration_seconds:.2f} s{effect}{told}"


def _messages(state: AgentState) -> Iterator[str]:
    for message in state.messages:
        yield f"{message.role.value:<9} {_message(message)}".rstrip()
        for source in _sources(message):
            yield f"{'':<9} {source}"


def _sources(message: Message) -> list[str]:
    cited = [part for part in message.parts if isinstance(part, CitationPart)]
    told = dict.fromkeys(tuple(text for text in (part.title, part.uri, part.quote) if text) for part in cited)
    return [one_line(f"[cites {', '.join(texts)}]", _CUT) for texts in told if texts]


def _message(message: Message) -> str:
    calls = [f"[calls {call.name}]" for call in message.tool_calls]
    return one_line(" ".join([message.in_words, *calls]), _CUT)
