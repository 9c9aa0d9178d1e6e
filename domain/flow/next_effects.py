"""`next_effects(state, now)`: the very next effect of a run of a workflow, from the state alone.

Running and resuming are this same function. The order of the checks is their precedence, and is read here only.
"""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

from steptrail.domain.flow import events
from steptrail.domain.flow.concluding import breach, conclude, conclude_map, enabled, is_to_be_held
from steptrail.domain.flow.cutting import interrupted
from steptrail.domain.flow.effects import Ask, Await, CutOff, Evaluate, FlowEffect, RecordEvents, RestUntil, StartTasks
from steptrail.domain.flow.ending import finished
from steptrail.domain.flow.failing import failure_of, working_node
from steptrail.domain.flow.fold import RunFold, VisitFold
from steptrail.domain.flow.joins import Opening
from steptrail.domain.flow.kinds.values import text_of
from steptrail.domain.flow.nodes import HumanNode, LlmRouterNode, MapNode, Node, ToolNode, WorkingNode
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.seeing import items_seen
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskPhase
from steptrail.domain.flow.views import joined, sources
from steptrail.domain.flow.waits import Ends, ends_of, is_for_resources, next_wait, stays_for
from steptrail.domain.shared.requests import Request
from steptrail.domain.tools import ToolEffect

_BUSY = frozenset({TaskPhase.RUNNING, TaskPhase.DUE})
_TRIED_LATER = frozenset({TaskPhase.RETRYING, TaskPhase.SUSPENDED})
_order = attrgetter("order")


def next_effects(state: FlowState, now: int) -> tuple[FlowEffect, ...]:
    """Return the effect that is due; none when only a command can bring the run on.

    `now` is an instant in microseconds of UTC that never runs backwards inside a segment. Pure.
    """
    run, phase = state.run, state.phase
    if run is None or phase not in {RunPhase.WORKING, RunPhase.WAITING, RunPhase.ENDING}:
        return ()
    if phase is RunPhase.WAITING:
        return (_waiting(run, now),)
    if phase is RunPhase.ENDING:
        return (_in_doubt(run) or _ending(run, now),)
    return (_working(run, now),)


def _working(run: RunFold, now: int) -> FlowEffect:
    if (effect := _on(run, now)) is not None:
        return effect
    if (wait := next_wait(run)) is not None:
        return RecordEvents((wait,))
    return RecordEvents((finished(run),))


def _on(run: RunFold, now: int) -> FlowEffect | None:
    """Return what can be done now; None when the run waits, or its work is done."""
    if (doubt := _in_doubt(run)) is not None:
        return doubt
    if (limit := _limit(run, now)) is not None:
        return RecordEvents((limit,))
    for visit in run.maps():
        if (effect := conclude_map(run, visit, now)) is not None:
            return effect
    landed = run.goes_on(TaskPhase.LANDED)
    if landed:
        return conclude(run, min(landed, key=_order), now)
    running = run.running()
    ends = ends_of(run, run.tasks.values())
    if run.pause_request is None:
        effect = _expired(run, ends, now) or _opened(run) or _started(run, ends, now)
        if effect is not None:
            return effect
    elif not running:
        return _paused(run.pause_request)
    return Await(tuple(task.key for task in running), _until(run, ends, now)) if running else None


def _paused(asked: Request) -> RecordEvents:
    return RecordEvents((events.ExecutionPaused(by=asked.by, reason=asked.reason, step_seconds=0.0),))


def _in_doubt(run: RunFold) -> RecordEvents | None:
    """Return the ends of the tries of an earlier segment, whose outcome nobody knows."""
    doubtful = [task for task in run.tasks.values() if task.in_doubt]
    ends = tuple(interrupted(run, task, events.CutReason.CRASH) for task in doubtful)
    return RecordEvents(ends) if ends else None


def _limit(run: RunFold, now: int) -> events.LimitReached | None:
    """Return the limit of the run that is passed; None when none is."""
    options = run.options
    if (passed := breach(options.budget, run.usage, run.cost, options.unpriced)) is not None:
        name, most, used = passed
        return events.LimitReached(limit=name, scope="run", at_most=most, actual=used)
    most_crashes = options.max_unproductive_segments
    if most_crashes is not None and run.unproductive_segments >= most_crashes:
        crashes = str(run.unproductive_segments)
        return events.LimitReached(limit="crash_loop", scope="run", at_most=str(most_crashes), actual=crashes)
    if options.timeout is not None and now - run.wall_from >= round(options.timeout * 1e6):
        elapsed = f"{(now - run.wall_from) / 1e6:.3f}"
        return events.LimitReached(limit="timeout", scope="run", at_most=text_of(options.timeout), actual=elapsed)
    active_us = run.active.us(now)
    if options.cumulative_timeout is not None and active_us >= round(options.cumulative_timeout * 1e6):
        active = f"{active_us / 1e6:.3f}"
        at_most = text_of(options.cumulative_timeout)
        return events.LimitReached(limit="cumulative_timeout", scope="run", at_most=at_most, actual=active)
    return None


def _expired(run: RunFold, ends: Ends, now: int) -> RecordEvents | None:
    """Return the end of a question that nobody has answered in time."""
    for end, task in ends:
        if end > now or task.phase is not TaskPhase.ASKED:
            continue
        if task.held is not None:
            most, node = text_of(run.options.step_timeout), task.node
            actual = f"{(now - task.asked_at) / 1e6:.3f}"
            limit = events.LimitReached(
                limit="step_timeout", scope="run", node=node, visit=task.visit, at_most=most, actual=actual
            )
            return RecordEvents((limit,))
        if task.request is not None:
            return RecordEvents((events.HumanExpired(request_id=task.request.request_id),))
        if task.approval is not None:
            return RecordEvents((events.ApprovalExpired(approval_id=task.approval.id),))
    return None


def _opened(run: RunFold) -> RecordEvents | None:
    """Return the opening of the next visit, while there is room for another node."""
    if _used(run) >= run.options.concurrency:
        return None
    opening = next(run.marking.ready(run.graph), None)
    if opening is None:
        return None
    node = run.graph.nodes[opening.node]
    visit = run.counts.get(node.id, 0) + 1
    if visit > run.options.max_visits:
        most = str(run.options.max_visits)
        limit = events.LimitReached(limit="max_visits", scope="run", node=node.id, at_most=most, actual=str(visit))
        return RecordEvents((limit,))
    return RecordEvents((_opening(run, node, opening),))


def _opening(run: RunFold, node: Node, opening: Opening) -> events.NodeOpened:
    items = None
    if isinstance(node, MapNode):
        items = items_seen(run, node, joined(sources(opening.inputs), run.views, run.ended))
    # Visits are numbered over all retries, so that an effect id is never used twice.
    visits = run.visits_of.get(node.id, 0) + 1
    return events.NodeOpened(node=node.id, visit=visits, number=run.visits + 1, inputs=opening.inputs, items=items)


def _used(run: RunFold) -> int:
    """Return how many tasks run or are due, counting a map of which further items may begin as one."""
    busy = len([task for task in run.tasks.values() if task.phase in _BUSY])
    return busy + len(list(_further_items(run)))


def _further_items(run: RunFold) -> Iterator[tuple[VisitFold, int]]:
    """Yield the maps of which further items may begin, with how many: those before them may all wait for people."""
    active = Counter([task.node for task in run.tasks.values()])
    for visit in run.maps():
        node = run.node(visit.node)
        if visit.items is None or run.held(visit) or not isinstance(node, MapNode):
            continue
        if (further := min(visit.items - visit.next_item, node.concurrency - active[visit.node])) > 0:
            yield visit, further


def _started(run: RunFold, ends: Ends, now: int) -> FlowEffect | None:
    """Return what is done with the tasks that are due: first retries and streams below whose time has come."""
    for visit in run.maps():
        if is_to_be_held(run, visit):
            return RecordEvents((events.StepHeld(node=visit.node, visit=visit.visit, point="before"),))
    room = run.options.concurrency - len(run.running())
    starts: list[Task] = []
    for task in _due(run, ends, now, room):
        effect = _before(run, run.node(task.node), task)
        if effect is not None:
            return StartTasks(tuple(each.key for each in starts)) if starts else effect
        if len(starts) < room:
            starts.append(task)
    return StartTasks(tuple(task.key for task in starts)) if starts else None


def _due(run: RunFold, ends: Ends, now: int, room: int) -> Iterator[Task]:
    """Yield the tasks that are due. The next items of a map are alike: there are no more than there is `room` for."""
    again = [task for end, task in ends if end <= now and task.phase in _TRIED_LATER and not run.rests(task)]
    yield from sorted(again, key=_order)
    yield from sorted(run.goes_on(TaskPhase.DUE), key=_order)
    for visit, further in _further_items(run):
        for item in range(visit.next_item, visit.next_item + min(further, max(room, 1))):
            yield Task(visit.node, visit.visit, item, order=run.order)


def _before(run: RunFold, node: Node, task: Task) -> FlowEffect | None:
    """Return what comes before a task begins, or what it is if it does not leave the process; None to start it."""
    if task.skipped is not None:
        return RecordEvents((_skipped(run, node, task, task.skipped),))
    is_first = task.item is None and task.attempt == 0
    if is_first and run.options.pauses_before(node.id) and not run.open[node.id].may_begin:
        return RecordEvents((events.StepHeld(node=node.id, visit=task.visit, point="before"),))
    if _needs_a_person(working_node(node, task.item), task):
        return Ask(task.key)
    # What does something outside is tried, and its tries are recorded.
    return None if isinstance(node, WorkingNode | LlmRouterNode | MapNode) else Evaluate(task.key)


def _needs_a_person(node: Node, task: Task) -> bool:
    if isinstance(node, ToolNode) and node.tool.approval is not None:
        return task.approval is None or task.approval.answer != "granted"
    return isinstance(node, HumanNode)


def _skipped(run: RunFold, node: Node, task: Task, answer: events.StepAnswered) -> events.NodeSkipped:
    taken = enabled(run.graph, node)
    if answer.targets is not None:
        taken = tuple(edge for edge in taken if run.graph.edges[edge].target in answer.targets)
    return events.NodeSkipped(node=node.id, visit=task.visit, by=answer.by, reason=answer.reason, enables=taken)


def _until(run: RunFold, waits: Ends, now: int) -> int | None:
    """Return when the run has to be looked at again while nodes run: a retry, an expiry or a limit is due.

    What is due already waits for room or for the end of a pause, and no time brings that about.
    """
    ends = [*(end for end, _ in waits), *deadlines(run)]
    for visit in run.open.values():
        timeout = run.node(visit.node).timeout
        if timeout is not None and (end := visit.clock.reaches(round(timeout * 1e6))) is not None:
            ends.append(end)
    return min((end for end in ends if end > now), default=None)


def deadlines(run: RunFold) -> list[int]:
    """Return when the limits of a run on its time are reached, in microseconds of UTC."""
    options, ends = run.options, list[int]()
    if options.timeout is not None:
        ends.append(run.wall_from + round(options.timeout * 1e6))
    if options.cumulative_timeout is not None:
        end = run.active.reaches(round(options.cumulative_timeout * 1e6))
        ends += [end] if end is not None else []
    return ends


def _waiting(run: RunFold, now: int) -> FlowEffect:
    """Return the end of the wait if something can go on, else more waiting."""
    wait = run.wait
    if run.stop_request is not None:
        return RecordEvents((events.WaitEnded(reason="stop", by=run.stop_request.by),))
    if wait is not None and is_for_resources(run) and run.pause_request is None:
        expired = _expired(run, ends_of(run, run.tasks.values()), now)
        is_over = wait.until is None or wait.until <= now or expired is not None
        return RecordEvents((events.WaitEnded(reason="due"),)) if is_over else RestUntil(wait.kind, wait.until)
    if wait is None or _on(run, now) is not None:
        if run.pause_request is not None:
            return _paused(run.pause_request)
        is_due = wait is not None and wait.until is not None and wait.until <= now
        return RecordEvents((events.WaitEnded(reason="due" if is_due else "settled"),))
    until = None if (next_one := next_wait(run)) is None else next_one.until
    if until is not None and stays_for(run, until, now):
        # The time of the run goes on in a wait that is sat out. Whoever comes after a longer one begins it anew.
        until = min((until, *deadlines(run)))
    return RestUntil(wait.kind, until)


def _ending(run: RunFold, now: int) -> FlowEffect:
    """Return the next effect of a run that is to end: what landed well is kept, what runs is cut off."""
    for task in sorted(run.tasks.values(), key=_order):
        has_landed = task.phase is TaskPhase.LANDED or task.held == "after"
        if has_landed and task.landing is not None and failure_of(task.landing) is None:
            return conclude(run, task, now)
    running = run.running()
    if running:
        return _cut(run, running, now)
    if run.pause_request is not None and run.stop_request is None:
        return _paused(run.pause_request)
    failed = run.ended_by.node if isinstance(run.ended_by, events.NodeFailed) else None
    cancelled = tuple(
        events.NodeCancelled(node=visit.node, visit=visit.visit, reason=_how_it_ends(run)[1])
        for visit in run.open.values()
        if visit.node != failed
    )
    return RecordEvents((*cancelled, finished(run)))


def _cut(run: RunFold, running: list[Task], now: int) -> CutOff:
    until = run.ending_at + round(run.options.stop_grace * 1e6)
    reads = tuple(task.key for task in running if now >= until or task.effect is ToolEffect.READ)
    others = tuple(task.key for task in running if now < until and task.effect is not ToolEffect.READ)
    return CutOff(reads, others, _how_it_ends(run)[0], until)


def _how_it_ends(run: RunFold) -> tuple[events.CutReason, events.CancelReason]:
    """Return why what runs is cut off, and why what is open is given up."""
    match run.ended_by:
        case events.NodeFailed():
            return events.CutReason.SIBLING, "sibling"
        case events.LimitReached(limit="timeout" | "cumulative_timeout"):
            return events.CutReason.DEADLINE, "limit"
        case events.LimitReached():
            return events.CutReason.SIBLING, "limit"
        case events.StepAnswered():
            return events.CutReason.STOP, "abort"
        case _:
            return events.CutReason.STOP, "stop"
