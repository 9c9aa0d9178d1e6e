"""`runs`, `due` and `inbox`: what is in the store, what can go on, and what people are asked. All only read."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence

from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.tools import result_text
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.going_on import answers_to, store_given
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, Parser, amount, prefix, store_of
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.questions import Question
from steptrail.projections.rendering import many

__all__ = ["register", "run_data"]

_PAGE = 50


def register(commands: Commands) -> None:
    """Add the commands."""
    runs = commands.add("runs", _runs, "List the sessions, the one that began last first.")
    runs.add_argument("--status", choices=[status.value for status in ExecutionStatus])
    runs.add_argument("--stop-reason", choices=[reason.value for reason in StopReason])
    runs.add_argument("--agent", metavar="NAME", help="sessions of this agent")

    due = commands.add("due", _due, "List the sessions that `resume` would bring on now.")
    due.add_argument("--limit", type=amount, metavar="N", default=_PAGE, help=f"at most N sessions ({_PAGE})")

    inbox = commands.add("inbox", _inbox, "List what people are asked, and how to answer.")
    for parser in (runs, inbox):
        _paged(parser)


def _paged(parser: Parser) -> None:
    parser.add_argument("--limit", type=amount, metavar="N", default=_PAGE, help=f"at most N sessions ({_PAGE})")
    parser.add_argument("--after", type=prefix, metavar="ID", help="those that began before session ID")


async def _place(trail: Steptrail, arguments: argparse.Namespace) -> str | None:
    """Return the name of the session that the page comes after."""
    after: str | None = arguments.after
    return None if after is None else name_of((await trail.find_any(after)).stream_id)


def _runs(arguments: argparse.Namespace, output: Output) -> int:
    limit: int = arguments.limit

    async def listed() -> Sequence[RunSummary]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            return await trail.runs(
                status=arguments.status,
                stop_reason=arguments.stop_reason,
                agent=arguments.agent,
                limit=limit + 1,
                after=await _place(trail, arguments),
            )

    found = asyncio.run(listed())
    runs = found[:limit]
    if output.as_json:
        output.data([run_data(run) for run in runs])
        return Exit.OK
    is_priced = any(run.cost is not None for run in runs)
    rows = [
        [
            name_of(run.stream),
            run.name,
            ", ".join([_status(run), *_marks(run)]),
            how_it_stopped(run.stop_reason, answered=run.answered),
            str(run.steps),
            f"{run.active_seconds:.2f} s",
            *([str(run.cost) if run.cost is not None else ""] if is_priced else []),
            clock_time(run.updated_at),
        ]
        for run in runs
    ]
    cost = ["COST"] if is_priced else []
    output.table(["ID", "AGENT", "STATUS", "STOP REASON", "STEPS", "ACTIVE", *cost, "UPDATED (UTC)"], rows)
    if len(runs) < len(found):
        output.note(f"steptrail: there are more: `steptrail runs --after {name_of(runs[-1].stream)}` lists them")
    if any(run.damage for run in runs):
        output.note("steptrail: `steptrail doctor` says what is damaged")
    return Exit.OK


def _status(run: RunSummary) -> str:
    errors = run.recorded_errors
    return f"{run.status.value} ({many(errors, 'error')})" if errors else run.status.value


def _marks(run: RunSummary) -> list[str]:
    return [mark for mark, is_so in (("crashed", run.is_crashed), ("damaged", run.damage is not None)) if is_so]


def run_data(run: RunSummary) -> dict[str, JsonValue]:
    """Return a row as JSON."""
    return {
        "kind": run.kind,
        "sessionId": run.session_id,
        "agent": run.name,
        "status": run.status.value,
        "stopReason": run.stop_reason,
        "answered": run.answered,
        "recordedErrors": run.recorded_errors,
        "resolvedBy": run.resolved_by,
        "executions": run.executions,
        "steps": run.steps,
        "activeSeconds": run.active_seconds,
        "parentAgentId": run.parent.session if run.parent is not None else None,
        "cost": run.cost.to_dict() if run.cost is not None else None,
        "waitsFor": run.waits_for,
        "crashed": run.is_crashed,
        "damage": run.damage,
        "startedAt": to_datetime(run.started_at).isoformat(),
        "updatedAt": to_datetime(run.updated_at).isoformat(),
    }


def _due(arguments: argparse.Namespace, output: Output) -> int:
    async def listed() -> Sequence[RunSummary]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            return await trail.due(limit=arguments.limit)

    runs = asyncio.run(listed())
    if output.as_json:
        output.data([run_data(run) for run in runs])
        return Exit.OK
    rows = [
        [
            name_of(run.stream),
            run.name,
            ", ".join([run.status.value, *_marks(run)]),
            "" if run.due_at is None else clock_time(run.due_at),
        ]
        for run in runs
    ]
    output.table(["ID", "AGENT", "STATUS", "DUE SINCE (UTC)"], rows)
    if runs:
        output.note("steptrail: `steptrail resume AGENT ID` goes on with one")
    return Exit.OK


def _inbox(arguments: argparse.Namespace, output: Output) -> int:
    async def asked() -> Sequence[Question]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            return await trail.inbox(limit=arguments.limit, after=await _place(trail, arguments))

    found = asyncio.run(asked())
    ways = [answers_to(question, store=store_given(arguments)) for question in found]
    if output.as_json:
        output.data([{**each.to_dict(), "answers": list(way)} for each, way in zip(found, ways, strict=True)])
        return Exit.OK
    count = Counter(question.stream for question in found)
    for question, way in zip(found, ways, strict=True):
        _print_question(output, question, way, of=count[question.stream])
    if not found:
        output.note("steptrail: nobody is asked anything")
    return Exit.OK


def _print_question(output: Output, question: Question, ways: Sequence[str], *, of: int) -> None:
    output.line(one_line(f"{name_of(question.stream)} ({question.agent}) asks {_asked(question)}"))
    if question.data:
        output.line(one_line(f"  about {result_text(dict(question.data))}"))
    who = f"by {question.asked_by}, " if question.asked_by is not None else ""
    until = f", until {question.expires_at:%Y-%m-%d %H:%M:%S} UTC" if question.expires_at is not None else ""
    output.line(one_line(f"  asked {who}{question.asked_at:%Y-%m-%d %H:%M:%S} UTC{until}"))
    if question.reason:
        output.line(one_line(f"  because {question.reason}"))
    if of > 1:
        output.line(f"  one of {of} questions: the run goes on when none of them is open")
    for way in ways:
        output.line(one_line(f"  {way}"))


def _asked(question: Question) -> str:
    arguments = None if question.arguments is None else dict(question.arguments)
    what = f"{question.tool} {result_text(arguments)}" if question.tool is not None else f"node {question.node}"
    match question.kind:
        case "approval":
            return f"to run {what}"
        case "human":
            return f"in {question.node} ({question.type}): {question.prompt}"
        case "step":
            return f"how it goes on at {question.node}, which is held {question.type} it"
        case _:
            return f"what this call did: {what}"
