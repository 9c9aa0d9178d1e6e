"""One event of a workflow on one line, for `tail`, `show --events` and the progress of a run."""

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.events.about import VisitEvent
from steptrail.domain.flow.files import in_words
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.tools import result_text
from steptrail.interfaces.cli.output import one_line
from steptrail.interfaces.cli.summaries import FOLLOWS, because, changed_by, clock_time, settled_or, words_of
from steptrail.projections.rendering import many
from steptrail.runtime.flow.failure_class import fault_class

_CUT = 100


def flow_summary(event: Event) -> str:
    """Return what an event says, short and on one line; nothing for a type that is not a workflow's."""
    return one_line(_said(event), _CUT) if isinstance(event, stored.FlowEvent) else ""


def task_name(node: str, visit: int, item: int | None = None) -> str:
    """Return a node for people: with its visit after the first, and the number of an item."""
    again = f" (visit {visit})" if visit > 1 else ""
    return f"{node}{again}{f' item {item + 1}' if item is not None else ''}"


# A new event is a type error here: the function returns in every case of the union, and has no other.


def _said(event: stored.FlowEvent) -> str:
    match event:
        case stored.FlowStarted(execution_id=name, by=by):
            return f"{name}{f', by {by}' if by != 'user' else ''}: {_text(event.input, event)}"
        case stored.FlowResumed(segment=segment, worker=worker, ended_by=ended_by, changes=changes):
            return f"segment {segment} on {worker}, after {ended_by.value}{changed_by(changes)}"
        case stored.FlowRetried(execution_id=name, visits=visits, by=by, reason=reason):
            return f"{name}: {many(len(visits), 'visit')} again, by {by}{because(reason)}"
        case stored.LimitReached(node=node):
            return f"{node}: {event.said}" if node is not None else event.said
        case stored.NodeOpened(items=items):
            return _name(event) + (f", {many(items, 'item')}" if items is not None else "")
        case stored.NodeEvaluated(output=output, route=route):
            return f"{_name(event)}{_to(route)}: {result_text(output)}"
        case stored.NodeCompleted(route=route, item_errors=errors):
            failed = f", {many(errors, 'item')} failed" if errors else ""
            return f"{_name(event)}{_to(route)}{failed}"
        case stored.NodeFailureRecorded(error=error, rule=rule, item=item):
            return f"{_name(event, item)}, {error.failure.value}, {error.tier} tier ({rule}): {error.message}"
        case stored.NodeFailed(error=error, rule=rule, item=item):
            return f"{_name(event, item)}, {error.failure.value} ({rule}): {error.message}"
        case stored.NodeSkipped(by=by, reason=reason):
            return f"{_name(event)} by {by}{because(reason)}"
        case stored.NodeCancelled(reason=reason):
            return f"{_name(event)}: {reason}"
        case stored.NodeAttemptStarted(effect_id=effect, attempt=attempt, item=item):
            return f"{_name(event, item)} ({effect}){f', attempt {attempt}' if attempt > 1 else ''}"
        case stored.NodeAttemptCompleted(duration_seconds=seconds, output=output, item=item):
            how = "kept from before" if event.is_kept else f"in {seconds:.2f} s"
            return f"{_name(event, item)} {settled_or(event, how)}: {_text(output, event)}"
        case stored.NodeAttemptFailed(duration_seconds=seconds, failure=failure, error=error, item=item):
            # The class of a fault is that of the failure.
            why = error.message if error.error_class == fault_class(failure) else error
            return f"{_name(event, item)} {settled_or(event, f'in {seconds:.2f} s')}, {failure.value}: {why}"
        case stored.NodeAttemptInterrupted(reason=reason, then=then, item=item):
            return f"{_name(event, item)}: {settled_or(event, f'{reason.value}, outcome unknown')}: {FOLLOWS[then]}"
        case stored.NodeAttemptSuspended(stream=stream, reason=reason, item=item):
            return f"{_name(event, item)}: {stream} {reason}"
        case stored.NodeRetryScheduled(attempt=attempt, delay_seconds=delay, item=item):
            return f"{_name(event, item)} again in {delay:.2f} s, attempt {attempt}"
        case stored.NodeAttemptSettledLate(effect_id=effect, error=error):
            return f"{effect}: {error or 'completed'}"
        case stored.HumanRequested(type=kind, prompt=prompt, expires_at=until):
            when = f", until {clock_time(until)}" if until is not None else ""
            return f"{_name(event)} ({kind}){when}: {prompt}"
        case stored.HumanAnswered(request_id=request, by=by):
            return f"{request} by {by}: {_answer(event)}"
        case stored.HumanExpired(request_id=request):
            return request
        case stored.StepHeld(point=point):
            return f"{_name(event)}, {point} it"
        case stored.StepAnswered(action=action, point=point, by=by, reason=reason):
            return f"{_name(event)}, {point} it: {action}, by {by}{because(reason)}"
        case _:
            return words_of(event)


def _text(value: JsonValue, event: stored.FlowStarted | stored.NodeAttemptCompleted | stored.HumanAnswered) -> str:
    return result_text(in_words(value, {part.digest: part for part in event.files}))


def _name(event: VisitEvent | stored.HumanRequested, item: int | None = None) -> str:
    return task_name(event.node, event.visit, item)


def _to(route: Route | None) -> str:
    return "" if route is None else f" to {', '.join(route.targets) or 'nowhere'}"


def _answer(event: stored.HumanAnswered) -> str:
    said = [] if event.approved is None else ["approved" if event.approved else "rejected"]
    said += [event.choice] if event.choice is not None else []
    said += [_text(event.data, event)] if event.data is not None else []
    said += [event.notes] if event.notes is not None else []
    return ", ".join(said) or "null"
