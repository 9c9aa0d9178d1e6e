"""The answer of `why` about a run of a workflow."""

from collections.abc import Iterator, Sequence

from steptrail.domain.errors import stream_name
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import NodeThen
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.policies import Budget, FailureClass
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.flow_going_on import WORKFLOW, how_a_flow_goes_on
from steptrail.interfaces.cli.flow_summaries import task_name
from steptrail.interfaces.cli.going_on import GivenWords, WayOn, alike_to, instead_of_going_on
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.projections.flow_explanation import FlowAttempt, FlowExplanation
from steptrail.projections.flow_questions import questions_of_flow
from steptrail.projections.looked_at import looked_at_text
from steptrail.projections.questions import ASKS_PEOPLE, Question
from steptrail.projections.rendering import asked_for, error_lines, many, owner_text, since_text, wait_texts

_MOST = 300
"""Characters of a text that somebody else wrote, and names in a list of them."""

_THEN = {
    NodeThen.RERUN: "to run again: {}, under the same effect id",
    NodeThen.FAIL: "not run again",
    NodeThen.PARK: "parked: a person is to say",
}
"""The consequences of an interruption, in words. The braces stand for the effect class."""


def flow_why_data(explained: FlowExplanation, store: str | None) -> dict[str, JsonValue]:
    """Return the explanation as JSON, with the command that goes on."""
    return {
        **explained.to_dict(),
        **_way_on(explained, store).to_dict(),
        "owned": explained.is_owned if explained.state.is_open else None,
    }


def print_flow_why(output: Output, explained: FlowExplanation, store: str | None) -> None:
    """Print the explanation: the verdict first, then what it rests on, then the command that goes on."""
    output.line(f"{_name(explained)}: {one_line(explained.verdict)}")
    for what, text in _lines(explained, store):
        output.line(f"{what:<11} {one_line(text)}")
    on = _way_on(explained, store)
    what = "to go on" if explained.status in {ExecutionStatus.FAILED, ExecutionStatus.STOPPED} else "next"
    output.line(f"{what:<11} {one_line(str(on))}{_runs_again(explained)}")
    if on.of is not None:
        output.line(f"{'':<11} {one_line(_beyond_a_budget(explained) or on.of.value)}")
    if f" {WORKFLOW} " in f"{on.command} ":
        where = f"{WORKFLOW} is where workflow {explained.name!r} is: FILE.py[:NAME], or FILE.yaml --use FILE.py"
        output.line(f"{'':<11} {one_line(where)}")
    versions = ", ".join(f"{what} {version}" for what, version in explained.events.items())
    output.line(f"{'events':<11} {versions}")


def _name(explained: FlowExplanation) -> str:
    return stream_name(flow_stream(explained.flow_id))


def _way_on(explained: FlowExplanation, store: str | None) -> WayOn:
    more = instead_of_going_on(explained, _name(explained), store=store)
    return more or how_a_flow_goes_on(explained.state, GivenWords(store=store))


def _beyond_a_budget(explained: FlowExplanation) -> str | None:
    """Return what a retry needs where a budget is used up, since tokens and money count on; None for any other end."""
    if explained.limit is not None and explained.limit.limit in Budget.__struct_fields__:
        prices = ", or with all prices," if explained.limit.limit == "max_cost_usd" else ","
        return f"with a larger budget{prices} by `options` of `retry` in Python: what was used counts on"
    error = explained.error
    if error is not None and error.failure is FailureClass.BUDGET:
        prices = " by these prices" if error.details.get("limit") == "max_cost_usd" else ""
        return f"and has to end the same way{prices}: what the node has used counts on, and its budget is recorded"
    return None


def _runs_again(explained: FlowExplanation) -> str:
    if explained.error is None or not explained.is_newest:
        return ""
    return f" runs {one_line(explained.error.node_id)} and what follows"


def _lines(explained: FlowExplanation, store: str | None) -> Iterator[tuple[str, str]]:
    state = explained.state
    if state.is_open:
        yield "owner", owner_text(explained.is_owned)
    if explained.crash is not None:
        yield "crashed", explained.crash
    if explained.error is not None:
        yield from _reason(explained, explained.error)
    if explained.same_failure is not None:
        yield "the same", alike_to(explained.same_failure, store=store)
    for what, asked in asked_for(state):
        yield what, f"{asked.by_whom}, {since_text(asked.at, state.as_of)}"
    for number, question in enumerate(questions_of_flow(flow_stream(explained.flow_id), state)):
        yield "waits for" if number == 0 else "", _question(question, state.as_of)
    others = [wait for wait in explained.waits if wait.kind not in ASKS_PEOPLE]
    for text in wait_texts(others, state.as_of):
        yield "waits", text
    if explained.error is None:
        for number, error in enumerate(explained.recorded):
            yield "recorded" if number == 0 else "", _recorded(error)
    for number, attempt in enumerate(explained.interrupted):
        name = task_name(attempt.node, attempt.visit, attempt.item)
        yield "cut off" if number == 0 else "", f"{name}: attempt {_attempt(attempt)}"
    if explained.kept:
        names = [task_name(each.node, each.visit, each.item) for each in explained.kept]
        yield "kept", f"{_listed(names)}: an earlier result stood in"
    spent = explained.spent
    cost = f"{spent.cost}, " if spent.cost is not None else ""
    visits = f" in {spent.finished_visits} visits" if spent.finished_visits > spent.finished_nodes else ""
    yield (
        "spent",
        f"{spent.finished_nodes} of {many(spent.nodes, 'node')}{visits}, {many(spent.attempts, 'attempt')}, "
        f"{many(spent.tokens, 'token')}, {cost}{spent.active_seconds:.2f} s active, {spent.wall_seconds:.2f} s in all",
    )
    for score in explained.scores:
        yield "score", one_line(str(score), _MOST)
    if explained.not_reached:
        yield "not reached", _listed(explained.not_reached)


def _reason(explained: FlowExplanation, error: NodeError) -> Iterator[tuple[str, str]]:
    state, info = explained.state, error.error
    run = state.run
    node = run.node(error.node_id) if run is not None else None
    item = f", item {error.item + 1}" if error.item is not None else ""
    critical = "critical" if node is not None and node.critical else "not critical"
    known = [] if info is None else list(error_lines(info))
    yield "reason", one_line(known[0][1] if known else error.message, _MOST)
    yield from known[1:]
    for number, (name, value) in enumerate(explained.looked_at.items()):
        yield "it saw" if number == 0 else "", one_line(looked_at_text(name, value), _MOST)
    yield "class", f"{error.failure.value}, visit {error.visit}{item}, {critical}"
    for number, attempt in enumerate(explained.attempts):
        yield "attempts" if number == 0 else "", _attempt(attempt)
    if node is not None and run is not None:
        held = run.options.continue_on_error
        run_tier = ("on" if held else "off") if isinstance(held, bool) else ", ".join(sorted(held))
        tried = working_node(node, error.item).retry.max_attempts
        more = ", more because of an interruption" if error.attempt > tried else ""
        retry = f"retry: {error.attempt} of {tried} used{more}"
        on_error = f"on_error: {node.on_error.value if node.on_error is not None else 'unset'}"
        tiers = (retry, on_error, f"critical: {'yes' if node.critical else 'no'}", f"continue_on_error: {run_tier}")
        yield "tiers", "; ".join(tiers)
    before = _listed([_recorded(each) for each in explained.recorded]) if explained.recorded else "none"
    yield "recorded", f"{before} before"


def _attempt(attempt: FlowAttempt) -> str:
    took = "" if attempt.seconds is None else f"  {attempt.seconds:.2f} s"
    wait = "" if attempt.wait_seconds is None else f", next try after {attempt.wait_seconds:g} s"
    then = "" if attempt.then is None else f", {_THEN[attempt.then].format(attempt.effect)}"
    return f"{attempt.attempt}  {to_datetime(attempt.at):%H:%M:%S}{took}  {attempt.outcome}{then}{wait}"


def _recorded(error: NodeError) -> str:
    after, said = "", error.message
    if error.attempt > 1 and error.error is not None:
        # The message of the node says how often it was tried too.
        after, said = f" after {error.attempt} attempts", error.error.message
    name = task_name(error.node_id, error.visit, error.item)
    return f"{name} ({error.tier} tier): {error.failure.value}{after}: {one_line(said, _MOST)}"


def _question(question: Question, now: int) -> str:
    until = f", until {question.expires_at:%Y-%m-%d %H:%M:%S} UTC" if question.expires_at is not None else ""
    until += "" if question.is_open_at(now) else f", which has passed: {question.then}"
    asked = f"asked {question.asked_at:%Y-%m-%d %H:%M:%S} UTC{until}"
    match question.kind:
        case "human":
            text = one_line(question.prompt or "", _MOST)
            return f'{question.node} ({question.type}), request {question.id} "{text}", {asked}'
        case "step":
            return f"{question.node}, which is held {question.type} it, {asked}"
        case "approval":
            why = f" because {question.reason}" if question.reason else ""
            return f"{question.node}: approval {question.id} of {question.tool}{why}, {asked}"
        case _:
            return f"{question.node}: what {question.id} did, {asked}"


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
