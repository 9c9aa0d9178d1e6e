"""`show`: where one session stands or stood. It only reads."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import CitationPart, Message, ToolResultPart
from steptrail.interfaces.cli.exits import Exit, Refusal
from steptrail.interfaces.cli.listing import run_data
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, amount, prefix, store_of
from steptrail.interfaces.cli.results import result_data
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped, record_data, summary
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import by_whom
from steptrail.projections.stop_reasons import STOP_REASON_TYPES, ExecutionStop, project_stop_reasons
from steptrail.projections.tree import RunTree
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.collector import collector_off

__all__ = ["print_votes", "register"]

_CUT = 100


def register(commands: Commands) -> None:
    """Add the commands."""
    show = commands.add("show", _show, "Show where session ID stands, or stood.")
    show.add_argument("id", metavar="ID", type=prefix)
    show.add_argument("--at", type=amount, metavar="N", help="as it was after event N")
    show.add_argument("--events", action="store_true", help="list its events instead")
    show.add_argument("--tree", action="store_true", help="list it with the sessions below it instead, and their bill")


def _show_tree(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.events or arguments.at is not None:
        raise Refusal("--tree shows what is stored now of several sessions: leave out --at and --events")

    async def read() -> RunTree:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            return await trail.tree(name_of((await trail.find_any(arguments.id)).stream_id))

    tree = asyncio.run(read())
    if output.as_json:
        output.data(_tree_data(tree))
        return Exit.OK
    rows = [
        [
            "· " * depth + name_of(each.run.stream),
            each.run.name,
            each.run.status.value,
            how_it_stopped(each.run.stop_reason, answered=each.run.answered),
            str(each.own_usage.total),
            str(each.usage.total),
        ]
        for depth, each in tree.walk()
    ]
    output.table(["ID", "AGENT", "STATUS", "STOP REASON", "OWN TOKENS", "TREE"], rows)
    return Exit.OK


def _tree_data(tree: RunTree) -> dict[str, JsonValue]:
    parent = tree.run.parent
    return {
        **run_data(tree.run),
        "parent": full_form(parent) if parent is not None else None,
        "ownUsage": dict(tree.own_usage.to_dict()),
        "usage": dict(tree.usage.to_dict()),
        "children": [_tree_data(child) for child in tree.children],
    }


@collector_off()
def _show(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.tree:
        return _show_tree(arguments, output)
    at: int | None = arguments.at

    async def read() -> tuple[AgentState, Sequence[Recorded[AgentEvent]]]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            session = await trail.find(arguments.id)
            state = await session.state()
            if at is not None and at > state.version:
                told = f"session {session.session_id!r} has {state.version} events: --at takes a number up to that"
                raise Refusal(told)
            if arguments.events:
                return state, (await session.events())[:at]
            if at is not None:
                state = await session.state(at=at)
            return state, await session.history(at=state.version, types=STOP_REASON_TYPES)

    state, records = asyncio.run(read())
    if arguments.events:
        _print_events(output, records)
    elif output.as_json:
        output.data(_state_data(state, project_stop_reasons(records)))
    else:
        _print_state(output, state, project_stop_reasons(records))
    return Exit.OK


def _print_events(output: Output, records: Sequence[Recorded[AgentEvent]]) -> None:
    if output.as_json:
        output.data([record_data(record) for record in records])
        return
    rows = [[str(r.version), clock_time(r.at), r.event.TYPE, summary(r.event)] for r in records]
    output.table(["VERSION", "TIME (UTC)", "TYPE", "WHAT"], rows)


def _state_data(state: AgentState, ended: Sequence[ExecutionStop]) -> dict[str, JsonValue]:
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
            for stop in ended
        ],
        "stepList": [_step_data(step) for step in state.steps],
        "openStep": state.open_step,
        "openCalls": [_call_data(call) for call in state.tool_executions],
        "messages": [full_form(message) for message in state.messages],
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


def _print_state(output: Output, state: AgentState, ended: Sequence[ExecutionStop]) -> None:
    reason = f" ({state.stop_reason.value})" if state.stop_reason else ""
    output.line(f"session  {state.agent_id}")
    output.line(f"agent    {one_line(state.name)}")
    output.line(f"status   {state.status.value}{reason}, {state.phase.value} at version {state.version}")
    output.line(f"started  {clock_time(state.fold.created_at)} UTC")
    output.line(f"updated  {clock_time(state.fold.updated_at)} UTC")
    if (failed := deciding_error(state)) is not None:
        output.line(f"error    {one_line(str(failed.error))}")
    for what, asked in (("paused", state.paused), ("stopped", state.stop_request)):
        if asked is not None:
            output.line(f"{what:<8} {one_line(by_whom(asked))}")
    cost = f"{state.cost}, " if state.cost is not None else ""
    output.line(f"spent    {state.usage.total} tokens, {cost}{state.cumulative_execution_seconds:.2f} s active")

    rows = [
        [
            stop.execution_id,
            stop.status.value,
            how_it_stopped(stop.stop_reason, answered=stop.answered),
            stop.resolved_by,
        ]
        for stop in ended
    ]
    if state.execution_id is not None and state.is_open:
        rows.append([state.execution_id, state.status.value, "", ""])
    _section(output, "executions", is_any=bool(rows))
    if rows:
        output.table(["EXECUTION", "STATUS", "STOP REASON", "DECIDED BY"], rows, indent="  ")

    _section(output, f"steps of {state.execution_id}", is_any=bool(state.steps or state.open_step))
    output.lines(_steps(state))
    _section(output, "messages", is_any=bool(state.messages))
    output.lines(_messages(state))
    print_votes(output, state)


def print_votes(output: Output, state: AgentState) -> None:
    """Print the votes of the last decision."""
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
    results = [part.text for part in message.parts if isinstance(part, ToolResultPart)]
    return one_line(" ".join([message.text, *calls, *results]), _CUT)
