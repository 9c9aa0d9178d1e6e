"""The spans of a workflow: a segment of its run, in it the visits of nodes, in a visit the tries."""

from steptrail.domain.failures import ErrorType
from steptrail.domain.flow import events as stored
from steptrail.domain.flow.events.about import TaskEvent
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.projections.telemetry.names import Name, Operation, Own
from steptrail.projections.telemetry.open_spans import OpenSpans
from steptrail.projections.telemetry.span import Attribute


class FlowSpans:
    """Begins and ends the spans of one stream of runs. It remembers names and numbers of nodes, and nothing else."""

    def __init__(self, stream: str, spans: OpenSpans) -> None:
        self._stream, self._spans = stream, spans
        self._flow = ""
        self._unfinished: dict[int, tuple[str, int]] = {}
        """Number of a visit among all that did not succeed -> its node, and its number among those of the node."""
        self._failures: dict[str, str] = {}
        """The key of a try -> the type of its last error."""
        self._begun = set[str]()
        """The ids under which tries have begun streams of their own. A child knows the span of its first try by it."""

    @property
    def about(self) -> dict[str, Attribute]:
        """The attributes of every segment."""
        return {Name.OPERATION: Operation.INVOKE_WORKFLOW.value, Name.WORKFLOW_NAME: self._flow}

    @property
    def name(self) -> str:
        """The name of the spans of its segments."""
        return f"{Operation.INVOKE_WORKFLOW} {self._flow}"

    def apply(self, event: Event, version: int, at: int) -> None:
        """Apply an event."""
        spans = self._spans
        match event:
            case stored.SessionStarted(name=name):
                self._flow = name
            case stored.FlowForked(name=name, executions=executions):
                self._flow = name
                spans.begin_execution(f"{id_of(self._stream)}:{executions}")
            case stored.FlowStarted():
                self._flow = event.flow
                self._begun.clear()
                self._failures.clear()
                self._unfinished.clear()
                spans.begin_execution(event.execution_id)
                if event.worker is not None:
                    about = self._segment(event.segment) | spans.told(Own.INPUT, event.input)
                    spans.begin_segment(self.name, version, at, about, event.context)
            case stored.FlowResumed():
                # A run that was paused in a wait is at work now, and waits anew if it has to.
                spans.begin_segment(self.name, version, at, self._segment(event.segment))
            case stored.FlowRetried():
                spans.begin_execution(event.execution_id, goes_on=True)
                if event.worker is not None:
                    spans.begin_segment(self.name, version, at, self._segment(event.segment))
                for number in event.visits:
                    if (visit := self._unfinished.get(number)) is not None:
                        self._begin_visit(*visit, version, at)
            case stored.LimitReached():
                spans.event(Own.LIMIT, at, {Own.LIMIT: event.limit, Own.NODE: event.node or ""})
            case _:
                self._visit(event, version, at)

    def _visit(self, event: Event, version: int, at: int) -> None:
        match event:
            case stored.NodeOpened(node=node, visit=visit):
                self._unfinished[event.number] = (node, visit)
                self._begin_visit(node, visit, version, at)
            case stored.NodeCompleted(node=node, visit=visit):
                self._end_visit(node, visit, at, {Own.STATUS: "completed"}, is_over=True)
            case stored.NodeFailureRecorded(node=node, visit=visit, item=None):
                why: dict[str, Attribute] = {Own.STATUS: "recorded", Name.ERROR_TYPE: event.error.failure.value}
                self._end_visit(node, visit, at, why, is_over=True)
            case stored.NodeFailed(node=node, visit=visit):
                self._end_visit(node, visit, at, {Own.STATUS: "failed", Name.ERROR_TYPE: event.error.failure.value})
            case stored.NodeSkipped(node=node, visit=visit):
                self._end_visit(node, visit, at, {Own.STATUS: "skipped"}, is_over=True)
            case stored.NodeCancelled(node=node, visit=visit):
                self._end_visit(node, visit, at, {Own.STATUS: "cancelled"})
            case _:
                self._try(event, version, at)

    def _try(self, event: Event, version: int, at: int) -> None:
        spans = self._spans
        match event:
            case stored.NodeAttemptStarted():
                self._begin_try(event, version, at)
            case stored.NodeAttemptCompleted():
                spans.end_try(_key(event), at, {Own.STATUS: "completed", **spans.told(Own.OUTPUT, event.output)})
            case stored.NodeAttemptFailed():
                self._failures[_key(event)] = event.error.type.value
                spans.fail_try(_key(event), at, event.error)
            case stored.NodeAttemptInterrupted():
                about: dict[str, Attribute] = {Own.STATUS: "interrupted", Own.STOP_REASON: event.reason.value}
                if event.then is stored.NodeThen.FAIL:
                    about[Name.ERROR_TYPE] = event.reason.value
                spans.end_try(_key(event), at, about, is_error=event.then is stored.NodeThen.FAIL)
            case stored.NodeAttemptSuspended():
                spans.end_try(_key(event), at, {Own.STATUS: "suspended"})
            case stored.NodeAttemptSettledLate():
                # The run does not go on with it: its try has ended, or ends with the interruption that follows.
                pass
            case stored.NodeRetryScheduled():
                kind = self._failures.pop(_key(event), ErrorType.UNKNOWN.value)
                why: dict[str, Attribute] = {Name.ERROR_TYPE: kind, Own.NODE: event.node, Own.ATTEMPT: event.attempt}
                spans.event(Own.RETRY, at, why)
            case _:
                pass

    def _begin_visit(self, node: str, visit: int, version: int, at: int) -> None:
        self._spans.begin_part(_visit_key(node, visit), f"node {node}", version, at, {Own.NODE: node, Own.VISIT: visit})

    def _end_visit(
        self, node: str, visit: int, at: int, attributes: dict[str, Attribute], *, is_over: bool = False
    ) -> None:
        self._spans.end_part(_visit_key(node, visit), at, attributes)
        if is_over:
            self._unfinished = {number: each for number, each in self._unfinished.items() if each != (node, visit)}

    def _begin_try(self, event: stored.NodeAttemptStarted, version: int, at: int) -> None:
        key = _key(event)
        about: dict[str, Attribute] = {
            Own.NODE: event.node,
            Own.VISIT: event.visit,
            Own.ATTEMPT: event.attempt,
            Own.EFFECT: event.effect.value,
            Own.EFFECT_ID: event.effect_id,
        }
        if event.item is not None:
            about[Own.ITEM] = event.item
        effect = event.stream_effect if event.stream_effect not in self._begun else None
        if effect is not None:
            self._begun.add(effect)
        part = _visit_key(event.node, event.visit)
        self._spans.begin_try(key, f"try {event.node}", version, at, about, part=part, effect=effect)

    def _segment(self, number: int) -> dict[str, Attribute]:
        return {**self.about, Own.SEGMENT: number}


def _visit_key(node: str, visit: int) -> str:
    return f"{node} {visit}"


def _key(event: TaskEvent) -> str:
    return f"{event.node} {event.visit} {'' if event.item is None else event.item}"
