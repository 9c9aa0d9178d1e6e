"""The answer of `why` about the session of an agent."""

from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus, StopReason, after_step
from steptrail.domain.tools import result_text
from steptrail.interfaces.cli.going_on import GivenWords, WayOn, alike_to, how_to_go_on, instead_of_going_on, is_option
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.projections.explanation import AgentExplanation, question_text
from steptrail.projections.rendering import asked_for, error_lines, many, owner_text, since_text, wait_texts

_MOST_OF_A_CONTEXT = 300


def agent_why_data(explained: AgentExplanation, store: str | None) -> dict[str, JsonValue]:
    """Return the explanation as JSON, with the command that goes on."""
    state, advice = explained.state, explained.advice
    return {
        **explained.to_dict(),
        "stubborn": [vote.to_dict() for vote in advice.stubborn] if advice else [],
        **_way_on(explained, store).to_dict(),
        "owned": explained.is_owned if state.is_open else None,
    }


def print_agent_why(output: Output, explained: AgentExplanation, store: str | None) -> None:
    """Print the explanation: what decided, then the command that goes on."""
    _print(output, explained, store)
    _print_way_on(output, explained, store)
    _print_rest(output, explained)


def _print(output: Output, explained: AgentExplanation, store: str | None) -> None:
    decider = explained.decided_by
    output.line(f"{explained.session_id}: {one_line(explained.verdict)}")
    if explained.retry_of is not None:
        output.line(f"retry of    {explained.retry_of}")
    if explained.retried_as is not None:
        output.line(f"retried as  {explained.retried_as}")
    if explained.context is not None:
        output.line(f"context     {one_line(result_text(explained.context), _MOST_OF_A_CONTEXT)}")
    if explained.state.is_open:
        output.line(f"owner       {owner_text(explained.is_owned)}")
    if explained.crash is not None:
        output.line(f"crashed     {one_line(explained.crash)}")
    if explained.error is not None:
        for what, text in error_lines(explained.error.error, explained.error.tool_name):
            output.line(f"{what:<11} {one_line(text)}")
    if explained.same_failure is not None:
        output.line(f"the same    {one_line(alike_to(explained.same_failure, store=store))}")
    now = explained.state.as_of
    for what, asked in asked_for(explained.state):
        output.line(f"{what:<11} {one_line(f'{asked.by_whom}, {since_text(asked.at, now)}')}")
    if decider is not None:
        output.line()
        output.line(f"decided by  {one_line(decider.criterion_class)}, which votes {decider.decision.value}")
        output.line(f"reason      {one_line(decider.reason)}")
        if numbers := ", ".join(f"{name} = {value}" for name, value in decider.context.items() if name != "frames"):
            output.line(f"numbers     {one_line(numbers)}")
    if explained.rejected_answer is not None:
        output.line(f"last answer {one_line(explained.rejected_answer)}")
    others = [
        [vote.criterion_class, vote.decision.value, vote.reason] for vote in explained.votes if vote is not decider
    ]
    output.section("other votes" if decider else "votes", ["CRITERION", "VOTE", "REASON"], others)
    output.line()
    output.line(f"spent       {_spent(explained)}")
    for switch in explained.state.switches:
        output.line(f"model       {one_line(str(switch))}")
    if explained.state.compacted is not None:
        output.line(f"context     {one_line(str(explained.state.compacted))}")
    for score in explained.scores:
        output.line(f"score       {one_line(str(score), _MOST_OF_A_CONTEXT)}")
    for stop in explained.shadow_stops:
        said = f"{stop.vote.criterion_class} would have stopped it {after_step(stop.step)}: {stop.vote.reason}"
        output.line(f"in shadow   {one_line(said)}")


def _spent(explained: AgentExplanation) -> str:
    spent = explained.spent
    failed = f" ({spent.failed_steps} failed)" if spent.failed_steps else ""
    cost = f"{spent.cost}, " if spent.cost is not None else ""
    return (
        f"{many(spent.steps, 'step')}{failed}, {many(spent.tool_calls, 'tool call')}, "
        f"{many(spent.tokens, 'token')}, {cost}{spent.active_seconds:.2f} s active, {spent.wall_seconds:.2f} s in all"
    )


def _print_way_on(output: Output, explained: AgentExplanation, store: str | None) -> None:
    state, advice = explained.state, explained.advice
    on = _way_on(explained, store)
    if explained.status in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED}:
        if explained.answered:
            output.line("to go on    it has answered, and nothing asked for more")
        elif advice is not None:
            for change in advice.changes:
                output.line(f"to go on    {one_line(change.text)}")
            if any(not is_option(change) for change in advice.changes):
                output.line("            which is set in the code of the agent: no option of a command sets it")
            for vote in advice.stubborn:
                if vote.stop_reason is not StopReason.USER_REQUESTED:
                    said = f"no setting turns {vote.criterion_class} around: {vote.reason}"
                    output.line(f"            {one_line(said)}")
            if advice.would_continue:
                output.line("            with that it would have continued")
            elif advice.changes and not advice.stubborn:
                output.line("            even then it would have stopped: nothing asked for another step")
    elif not state.is_open:
        return
    output.line(f"next        {one_line(str(on))}")
    if on.of is not None:
        output.line(f"            {on.of.value}")
    if " AGENT " in on.command:
        name = f"agent {state.name!r}" if state.name else "the agent"
        said = f"AGENT is where {name} is, which was run from Python: FILE.py[:NAME] or package.module[:NAME]"
        output.line(f"            {one_line(said)}")


def _way_on(explained: AgentExplanation, store: str | None) -> WayOn:
    more = instead_of_going_on(explained, explained.session_id, store=store)
    return more or how_to_go_on(explained.state, GivenWords(store=store), advice=explained.advice)


def _print_rest(output: Output, explained: AgentExplanation) -> None:
    questions = [question_text(explained.state, call) for call in explained.awaiting_answer]
    for call, question in zip(explained.awaiting_answer, questions, strict=True):
        output.line(f"waits for   {one_line(question)}")
        if (asked := call.open_approval) is not None:
            output.line(f"digest      {asked.digest}")
    if explained.waits_for and explained.waits_for != "; ".join(questions):
        output.line(f"waits for   {one_line(explained.waits_for)}")
    for text in wait_texts(explained.waits, explained.state.as_of):
        output.line(f"waits       {one_line(text)}")
    versions = ", ".join(f"{what} {version}" for what, version in explained.events.items())
    output.line(f"events      {versions}")
