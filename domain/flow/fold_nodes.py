"""Fold handlers of the visits of nodes: one opens, takes its tokens, ends in some way, and enables what comes next."""

from msgspec.structs import replace

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.fold import FlowFold, RunFold, VisitFold
from steptrail.domain.flow.fold_run import end_run
from steptrail.domain.flow.joins import START
from steptrail.domain.flow.keeping import keep
from steptrail.domain.flow.nodes import HumanNode, Join
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.task import Task
from steptrail.domain.flow.views import Delta, Ended, joined, recorded, sources, succeeded, together
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.handlers import Handlers

NODE_HANDLERS = Handlers[FlowFold, [int], None]()


@NODE_HANDLERS.of(stored.NodeOpened)
def _opened(fold: FlowFold, event: stored.NodeOpened, at: int) -> None:
    if (run := fold.execution) is None:
        return
    graph = run.graph
    view, here = joined(sources(event.inputs), run.views, run.ended), graph.numbers[event.node]
    waiting = run.marking.tokens.get(here, ())
    run.marking = run.marking.opening(graph, here, event.number, event.inputs)
    if graph.nodes[here].join is Join.ANY:  # any other node leaves what it does not take
        for token in waiting:
            if token not in event.inputs:
                _note_late(run, token)
    run.open[event.node] = VisitFold(
        node=event.node,
        visit=event.visit,
        number=event.number,
        execution=run.id,
        inputs=event.inputs,
        view=view,
        tried_before=run.tries_of.get(event.node, 0),
        items=event.items,
    )
    run.visits = event.number
    run.counts = run.counts.set(event.node, run.counts.get(event.node, 0) + 1)
    run.visits_of = run.visits_of.set(event.node, event.visit)
    if event.items is None:
        run.tasks[event.node, event.visit, None] = Task(event.node, event.visit, order=run.next_order())


def _note_late(run: RunFold, token: stored.Token) -> None:
    """Note a token that came too late to be seen: what was written before it still belongs to the end of the run."""
    edge, number = token
    if edge >= 0:
        run.late = run.late.set(number, run.graph.nodes[run.graph.sources[edge]].id)


def _drop_views(run: RunFold, ended: VisitFold) -> None:
    """Drop the views that nobody can take any more now that a visit has ended: of those that it took, and the first."""
    for edge, number in (START, *ended.inputs):
        is_there = number in run.views and number not in run.ends and number not in run.late
        if is_there and not _has_others(run, edge, number):
            del run.views[number]


def _has_others(run: RunFold, edge: int, number: int) -> bool:
    """Tell whether a visit whose token came over this edge has more: they wait, or an open visit has taken them."""
    graph = run.graph
    # The last ones open last, so one of them tells as a rule.
    for way in reversed(graph.entry if edge < 0 else graph.outgoing[graph.sources[edge]]):
        token, node = ((edge, number), way) if edge < 0 else ((way, number), graph.targets[way])
        visit = run.open.get(graph.nodes[node].id)
        if token in run.marking.tokens.get(node, ()) or (visit is not None and token in visit.inputs):
            return True
    return False


def _visit(run: RunFold | None, node: str, visit: int) -> VisitFold | None:
    found = run.open.get(node) if run is not None else None
    return found if found is not None and found.visit == visit else None


def _close(run: RunFold, visit: VisitFold, delta: Delta, enables: tuple[int, ...]) -> None:
    """End a visit: its view with what it has written goes on along the edges that are taken, or ends a branch."""
    del run.open[visit.node]
    for item in (None, *range(visit.next_item)):
        run.tasks.pop((visit.node, visit.visit, item), None)
    run.acted -= {visit.node}
    graph, delta = run.graph, replace(together((visit.changed, delta)), kept=delta.kept)
    view = visit.view.after(visit.number, delta, run.views)
    run.views[visit.number] = view
    run.ended = run.ended.set(visit.number, Ended(visit.inputs, delta))
    run.marking = run.marking.ending(graph, graph.numbers[visit.node], visit.number, enables, view.past)
    if not enables:
        run.ends = run.ends.set(visit.number, visit.node)
    for edge in enables:
        if run.marking.is_late(graph.targets[edge], view.past):
            _note_late(run, (edge, visit.number))
    _drop_views(run, visit)
    run.productive = True


@NODE_HANDLERS.of(stored.NodeCompleted)
def _completed(fold: FlowFold, event: stored.NodeCompleted, at: int) -> None:
    run, visit = fold.execution, _visit(fold.execution, event.node, event.visit)
    if run is None or visit is None:
        return
    task = run.tasks.get((event.node, event.visit, None))
    if task is not None:
        keep(run, visit, task, at)
    _close(run, visit, _delta(run, visit, task), event.enables)


def _errors_of_items(visit: VisitFold) -> tuple[NodeError, ...]:
    """Return the errors in the order of the items, since it shows to the nodes behind the map."""
    return tuple(sorted(visit.errors, key=lambda error: error.item or 0))


def _delta(run: RunFold, visit: VisitFold, task: Task | None) -> Delta:
    """Return what a visit has written that has ended well."""
    key = run.node(visit.node).output
    if visit.items is not None:
        results = [visit.results.get(item) for item in range(visit.items)]
        return succeeded(key, results, Delta(errors=_errors_of_items(visit)))
    match task.landing if task is not None else None:
        case stored.NodeEvaluated() | stored.NodeAttemptCompleted() as ended:
            kept = ended.kept if isinstance(ended, stored.NodeEvaluated) else None
            changed = Delta(sets=ended.sets, unsets=ended.unsets, messages=ended.messages, artifacts=ended.artifacts)
            return succeeded(key, ended.output, replace(changed, kept=kept))
        case _:
            return Delta()


@NODE_HANDLERS.of(stored.NodeFailureRecorded)
def _failure_recorded(fold: FlowFold, event: stored.NodeFailureRecorded, at: int) -> None:
    run, visit = fold.execution, _visit(fold.execution, event.node, event.visit)
    if run is None or visit is None:
        return
    run.errors = run.errors.appended(event.error)
    if event.item is not None:
        visit.errors = (*visit.errors, event.error)
        visit.results, visit.spent = visit.results.set(event.item, None), visit.spent.updated({}, (event.item,))
        task = run.tasks.pop(event.key, None)
        if task is not None and task.stream is not None and event.error.failure is not FailureClass.CHILD:
            # It was given up, with its time or its budget used up, and has not ended by itself.
            run.left = run.left.set(task.stream, at)
        run.follow_clock(visit, at)
        return
    below = (task.stream for task in run.tasks.values() if (task.node, task.visit) == (event.node, event.visit))
    run.left = run.left.updated({stream: at for stream in below if stream is not None})
    delta = recorded(event.output_key, *_errors_of_items(visit), event.error)
    _close(run, visit, replace(delta, sets=delta.sets | _no_answer(run, visit)), event.enables)


def _no_answer(run: RunFold, visit: VisitFold) -> dict[str, JsonValue]:
    """Return what a question changes that came to no answer: the one of an earlier visit is none for it."""
    node = run.node(visit.node)
    if not isinstance(node, HumanNode) or node.output is None:
        return {}
    return {node.output: None, f"{node.output}_approved": False}


@NODE_HANDLERS.of(stored.NodeFailed)
def _failed(fold: FlowFold, event: stored.NodeFailed, at: int) -> None:
    if fold.execution is not None:
        fold.execution.tasks.pop(event.key, None)
        end_run(fold.execution, event, at)


@NODE_HANDLERS.of(stored.NodeSkipped)
def _skipped(fold: FlowFold, event: stored.NodeSkipped, at: int) -> None:
    run, visit = fold.execution, _visit(fold.execution, event.node, event.visit)
    if run is not None and visit is not None:
        # Who skips it may say something else.
        _close(run, visit, Delta(sets=_no_answer(run, visit) | visit.changed.sets), event.enables)


@NODE_HANDLERS.of(stored.NodeCancelled)
def _cancelled(fold: FlowFold, event: stored.NodeCancelled, at: int) -> None:
    if fold.execution is not None:
        for key in [key for key in fold.execution.tasks if key[:2] == (event.node, event.visit)]:
            del fold.execution.tasks[key]
