"""`why`: the exact reason why a session stopped, or why it has not."""

import argparse
import asyncio

from pydantic import JsonValue

from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.ids import stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.infrastructure.trail import Steptrail
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, count, prefix, store_of
from steptrail.interfaces.cli.results import how_to_go_on
from steptrail.projections.agent_state import project_agent_state
from steptrail.projections.explanation import Explanation, explain, up_to
from steptrail.runtime.clock import SystemClock

__all__ = ["register"]


def register(commands: Commands) -> None:
    """Add the command."""
    why = commands.add("why", _why, "Say why session ID stopped, or why it has not.")
    why.add_argument("id", metavar="ID", type=prefix)
    why.add_argument("--execution", type=count, metavar="N", help="its N-th execution (default: the newest)")


def _why(arguments: argparse.Namespace, output: Output) -> int:
    async def asked() -> tuple[Explanation, AgentState, bool | None]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            session = await trail.find(arguments.id)
            # One look at the events for all that is said; the owner first, so that a run that ends now is no crash.
            owned = await trail.store.is_leased(stream_of(session.agent_id))
            records = await session.history()
            number: int | None = arguments.execution
            explained = explain(session.agent_id, records, now=SystemClock().utc(), owned=owned, execution=number)
            shown = records if number is None else up_to(records, number)
            return explained, project_agent_state(session.agent_id, shown), owned

    explained, state, owned = asyncio.run(asked())
    if output.as_json:
        output.data(_data(explained, state, owned))
    else:
        _print(output, explained, state, owned)
    return Exit.OK


def _data(explained: Explanation, state: AgentState, owned: bool | None) -> dict[str, JsonValue]:
    outcome = state.last_continuation_outcome
    return {
        **explained.to_dict(),
        "resolvedBy": outcome.resolved_by if outcome else None,
        "stubborn": [vote.to_dict() for vote in explained.advice.stubborn] if explained.advice else [],
        "next": how_to_go_on(state),
        "owned": owned if state.is_open else None,
    }


def _print(output: Output, explained: Explanation, state: AgentState, owned: bool | None) -> None:
    decider = explained.decided_by
    output.line(f"{explained.agent_id}: {one_line(explained.verdict)}")
    if explained.retry_of is not None:
        output.line(f"retry of    {explained.retry_of}")
    if explained.retried_as is not None:
        output.line(f"retried as  {explained.retried_as}")
    if state.is_open:
        output.line(f"owner       {_owner(owned)}")
    if decider is not None:
        output.line()
        output.line(f"decided by  {decider.criterion_class}, which votes {decider.decision.value}")
        output.line(f"reason      {one_line(decider.reason)}")
        if decider.context:
            numbers = ", ".join(f"{name} = {value}" for name, value in decider.context.items())
            output.line(f"numbers     {one_line(numbers)}")
    others = [vote for vote in explained.votes if vote is not decider]
    if others:
        output.line()
        output.line("other votes" if decider else "votes")
        rows = [[vote.criterion_class, vote.decision.value, vote.reason] for vote in others]
        output.table(["CRITERION", "VOTE", "REASON"], rows, indent="  ")
    output.line()
    output.line(f"spent       {_spent(explained)}")
    for stop in explained.shadow_stops:
        after = f"after step {stop.step}" if stop.step else "before the first step"
        said = f"{stop.vote.criterion_class} would have stopped it {after}: {stop.vote.reason}"
        output.line(f"in shadow   {one_line(said)}")
    _print_way_on(output, explained, state)
    if explained.waits_for:
        output.line(f"waits for   {one_line(explained.waits_for)}")
    for call in explained.awaiting_approval:
        if call.approval is not None:
            output.line(f"digest      {call.approval.digest}")
    versions = ", ".join(f"{what} {version}" for what, version in explained.events.items())
    output.line(f"events      {versions}")


def _owner(owned: bool | None) -> str:
    if owned is None:
        return "unknown: the leases beside the store cannot be read"
    return "a process is running it" if owned else "no process runs it"


def _spent(explained: Explanation) -> str:
    spent = explained.spent
    failed = f" ({spent.failed_steps} failed)" if spent.failed_steps else ""
    cost = f"{spent.cost}, " if spent.cost is not None else ""
    return (
        f"{_many(spent.steps, 'step')}{failed}, {_many(spent.tool_calls, 'tool call')}, {spent.tokens} tokens, {cost}"
        f"{spent.active_seconds:.2f} s active, {spent.wall_seconds:.2f} s in all"
    )


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _print_way_on(output: Output, explained: Explanation, state: AgentState) -> None:
    advice = explained.advice
    if explained.status not in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED}:
        if state.is_open:
            output.line(f"next        `{one_line(how_to_go_on(state))}`")
        return
    on = f"`{one_line(how_to_go_on(state))}`"
    if advice is None or not (advice.changes or advice.stubborn):
        output.line(f"to go on    nothing forbade it: it had nothing more to do; {on} asks for more")
        return
    if explained.answered:
        output.line(f"to go on    it had answered, and nothing asked for another step; {on} asks for more")
        return
    for change in advice.changes:
        output.line(f"to go on    {one_line(change.text)}")
    for vote in advice.stubborn:
        output.line(f"            no setting turns {vote.criterion_class} around: {one_line(vote.reason)}")
    if advice.would_continue:
        output.line("            with that it would have continued")
    elif advice.changes and not advice.stubborn:
        output.line("            even then it would have stopped: nothing asked for another step")
    output.line(f"next        {on}")
