"""Why a run of a workflow stopped, or why it has not: the answer of `steptrail why`, from its events alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, get_args

import msgspec

from steptrail.domain.base import full_form
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow import events as stored
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events.about import TaskEvent
from steptrail.domain.flow.evolve import extend, initial
from steptrail.domain.flow.ids import execution_id
from steptrail.domain.flow.standing import standing
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskKey, TaskPhase
from steptrail.domain.flow.waits import first_awaited, kind_of
from steptrail.domain.instants import instant_text, seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.prices import Cost
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ToolEffect
from steptrail.projections.camel_form import camel_fields
from steptrail.projections.looked_at import looked_at
from steptrail.projections.rendering import crash_text, damage_text, many
from steptrail.projections.run_explanation import RunExplanation, has_crashed

_NEWEST = b"\n"
"""In no stored event: of events of this type, the newest is all that is told of."""

_Tried = (
    stored.NodeAttemptStarted
    | stored.NodeAttemptCompleted
    | stored.NodeAttemptFailed
    | stored.NodeAttemptInterrupted
    | stored.NodeRetryScheduled
)

_MARKS: Mapping[type[stored.FlowEvent], str] = {
    stored.FlowForked: "forked",
    stored.NodeFailureRecorded: "recorded",
    stored.NodeFailed: "failed",
    stored.WaitStarted: "waits",
    stored.ExecutionPaused: "paused",
    stored.ExecutionFinished: "finished",
}
"""The events of which the newest is told of, and the names under which its version is."""

MARKED_TYPES: Mapping[str, bytes] = {
    stored.FlowStarted.TYPE: b"",
    stored.FlowRetried.TYPE: b"",
    stored.LimitReached.TYPE: b'"scope":"run"',
    stored.NodeAttemptInterrupted.TYPE: b"",
    stored.NodeAttemptCompleted.TYPE: b'"is_kept":true',
    **{kind.TYPE: _NEWEST for kind in _MARKS},
}
"""The stored types of the events that are told of beside the state, with what those hold that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpent:
    """The use that the execution has made of time and money. Times in seconds; `cost` where prices are recorded.

    `finished_nodes` are those of the `nodes` of which a visit has ended; a loop visits them more than once.
    """

    nodes: int
    finished_nodes: int
    finished_visits: int
    attempts: int
    tokens: int
    active_seconds: float
    wall_seconds: float
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAttempt:
    """One try of a visit of a node, or of an item of a map.

    `outcome` is `completed`, `failed (unavailable)`, `interrupted (crash)`, or `kept` where an earlier result stood in,
    which is attempt 0. `then` is the consequence of an interruption: after `rerun` the next try has the same effect id.
    `seconds` is how long the try took; None while it runs. `wait_seconds` is how long the node waits, or waited, after
    it.
    """

    node: str
    visit: int
    item: int | None = None
    attempt: int
    at: int
    version: int
    effect: ToolEffect | None = None
    effect_id: str | None = None
    outcome: str = "running"
    then: stored.NodeThen | None = None
    seconds: float | None = None
    wait_seconds: float | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return camel_fields(self) | {"at": to_datetime(self.at).isoformat()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExplanation(RunExplanation):
    """The whole answer.

    `error` is the failure that ended the run, and `rule` the setting by which it did. `attempts` are the tries of that
    visit, or item; `looked_at` are the variables that it looked at, if it is one of a gate or a guardian. `interrupted`
    are the tries of all others that were cut off, and `kept` the results that stood in for a try. `recorded` are the
    failures after which the run went on. `not_reached` names the nodes that no visit was opened of.
    """

    flow_id: str
    name: str
    resolved_by: str | None
    error: NodeError | None
    rule: str | None
    looked_at: Mapping[str, JsonValue]
    limit: stored.LimitReached | None
    attempts: tuple[FlowAttempt, ...]
    interrupted: tuple[FlowAttempt, ...]
    kept: tuple[FlowAttempt, ...]
    recorded: tuple[NodeError, ...]
    not_reached: tuple[str, ...]
    spent: FlowSpent
    state: FlowState = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {
            "flowId": self.flow_id,
            "name": self.name,
            **self._standing(),
            "resolvedBy": self.resolved_by,
            "error": None if self.error is None else full_form(self.error),
            "rule": self.rule,
            "lookedAt": dict(self.looked_at),
            "limit": None if self.limit is None else full_form(self.limit),
            "attempts": [each.to_dict() for each in self.attempts],
            "interrupted": [each.to_dict() for each in self.interrupted],
            "kept": [each.to_dict() for each in self.kept],
            "recorded": [full_form(error) for error in self.recorded],
            "notReached": list(self.not_reached),
            "spent": camel_fields(self.spent),
        }


class FlowExplainer:
    """Explains one execution of a stream from all events that it is folded from, which it is given in order."""

    def __init__(self, flow_id: str, execution: str | int | None = None) -> None:
        self._id, self._asked = flow_id, execution
        self._state = initial(flow_id)
        self._started: list[str] = []
        self._events: dict[str, int] = {}
        self._tries: dict[TaskKey, list[FlowAttempt]] = {}
        self._is_over = False
        self.version = 0
        """The version of the newest event that it has been given."""
        self._visited_before: frozenset[str] = frozenset()
        self._noted: dict[int, Recorded[stored.FlowEvent]] = {}

    @classmethod
    def of_state(cls, flow_id: str, state: FlowState, records: Sequence[Recorded[stored.FlowEvent]]) -> Self:
        """Explain the newest execution from a state on, given what `MARKED_TYPES` says of the events before it."""
        made = cls(flow_id)
        for record in records:
            if isinstance(record.event, stored.FlowStarted | stored.FlowRetried):
                made._begin(record.event.execution_id, record.version)
                made._visited_before = frozenset(state.run.visits_of if state.run is not None else ())
            else:
                made._note(record)
        made._state, made.version = state, state.version
        return made

    def lacks(self) -> Mapping[str, bytes]:
        """Return the other events before the state that it needs: of what decided, and of tries that were cut off."""
        run, noted = self._state.run, [record.event for record in self._noted.values()]
        nodes = {event.node for event in noted if isinstance(event, stored.NodeAttemptInterrupted)}
        if run is not None and isinstance(run.ended_by, stored.NodeFailed):
            nodes.add(run.ended_by.node)
        nodes &= self._visited_before
        if not nodes:
            return {}
        about = b'"node":' + msgspec.json.encode(nodes.pop()) if len(nodes) == 1 else b""
        return dict.fromkeys((kind.TYPE for kind in get_args(_Tried)), about)

    def recall(self, records: Sequence[Recorded[stored.FlowEvent]], /) -> None:
        """Take the events before the state that it lacks."""
        since = self._events.get("started", 0)
        every = self._noted | {record.version: record for record in records if record.version > since}
        self._tries = {}
        for version in sorted(every):
            self._note(every[version])

    def add(self, records: Sequence[Recorded[stored.FlowEvent]], /) -> None:
        """Take the events that come next."""
        for record in records:
            event, self.version = record.event, record.version
            if isinstance(event, stored.FlowStarted | stored.FlowRetried):
                if self._is_asked():
                    self._is_over = True
                else:
                    self._begin(event.execution_id, record.version)
            elif isinstance(event, stored.FlowForked):
                self._go_on_from(event)
            if not self._is_over:
                self._note(record)
                self._state = extend(self._state, [record])
            elif isinstance(event, stored.FlowStarted | stored.FlowRetried):
                self._started.append(event.execution_id)

    def _is_asked(self) -> bool:
        """Tell whether the execution that was seen last is the one that is asked for."""
        if self._asked is None or not self._started:
            return False
        number = len(self._started)
        # A fork calls the executions that it shares by its own id, and their events by that of its source.
        own = execution_id(self._id, number)
        return self._asked in (self._started[-1], own, number) or str(self._asked) == str(number)

    def _go_on_from(self, event: stored.FlowForked) -> None:
        """Take the beginning of a fork in: what comes before it has the versions of another stream."""
        self._events = {}
        if event.status is ExecutionStatus.PAUSED and not self._is_over:
            again = {(visit.node, visit.visit) for visit in self._state.open_visits}
            self._tries = {task: tries for task, tries in self._tries.items() if task[:2] not in again}

    def _begin(self, execution: str, version: int) -> None:
        self._started.append(execution)
        self._events, self._tries = {"started": version}, {}
        self._visited_before, self._noted = frozenset(), {}

    def _note(self, record: Recorded[stored.FlowEvent]) -> None:
        event, at, version = record.event, record.at, record.version
        if self._visited_before and isinstance(event, _Tried):
            self._noted[version] = record
        if (mark := _MARKS.get(type(event))) is not None:
            self._events[mark] = version
        match event:
            case stored.NodeAttemptStarted():
                self._tried(event, at, version, effect=event.effect, effect_id=event.effect_id)
            case stored.NodeAttemptCompleted(is_kept=True):
                self._tried(event, at, version, outcome="kept", seconds=event.duration_seconds)
            case stored.NodeAttemptCompleted():
                self._ended(event, "completed")
            case stored.NodeAttemptFailed() if not self._has_failed(event):
                self._ended(event, f"failed ({event.failure})")
            case stored.NodeAttemptInterrupted():
                self._replace(
                    event,
                    event.attempt,
                    outcome=f"interrupted ({event.reason})",
                    then=event.then,
                    seconds=event.duration_seconds,
                )
            case stored.NodeRetryScheduled():
                self._replace(event, event.attempt - 1, wait_seconds=event.delay_seconds)
            case stored.LimitReached(scope="run"):
                self._events["limit"] = version
            case _:
                pass

    def _tried(
        self, event: stored.NodeAttemptStarted | stored.NodeAttemptCompleted, at: int, version: int, **known: Any
    ) -> None:
        node, visit, item = task = event.key
        attempt = FlowAttempt(node=node, visit=visit, item=item, attempt=event.attempt, at=at, version=version, **known)
        self._tries.setdefault(task, []).append(attempt)

    def _ended(self, event: stored.NodeAttemptCompleted | stored.NodeAttemptFailed, outcome: str) -> None:
        by = "" if event.settled_by is None else f", said by {event.settled_by}"
        self._replace(event, event.attempt, outcome=outcome + by, then=None, seconds=event.duration_seconds)

    def _has_failed(self, event: stored.NodeAttemptFailed) -> bool:
        """Tell whether a failure came before the next try was made: it has the number of the last, which has failed."""
        tries = self._tries.get(event.key, [])
        return bool(tries) and tries[-1].attempt == event.attempt and tries[-1].outcome.startswith("failed")

    def _replace(self, event: TaskEvent, attempt: int, **changes: Any) -> None:
        tries = self._tries.get(event.key, [])
        for place in range(len(tries) - 1, -1, -1):
            if tries[place].attempt == attempt:
                tries[place] = replace(tries[place], **changes)
                return

    def explanation(self, *, now: int, owned: bool | None = None, damage: str | None = None) -> FlowExplanation:
        """Return the explanation at `now`. Raises `ConfigurationError` when there is no such execution."""
        state = self._state.at(now)
        if self._asked is not None and not (self._is_over or self._is_asked()):
            raise ConfigurationError(f"{self._id} has no execution {self._asked!r}: it has {len(self._started)}")
        run = state.run
        ended_by = run.ended_by if run is not None else None
        failed = ended_by if isinstance(ended_by, stored.NodeFailed) else None
        error = failed.error if failed is not None else None
        limit = ended_by if isinstance(ended_by, stored.LimitReached) else None
        finished = run.finished if run is not None else None
        waits = run.waits if run is not None else ()
        is_left = owned is False and state.status is ExecutionStatus.IN_PROGRESS and damage is None
        is_crashed = has_crashed(standing(state), owned=owned, damage=damage)
        answered_at = max((wait.answered_at for wait in waits if wait.answered_at is not None), default=None)
        visited = set(run.visits_of) if run is not None else set[str]()
        names = [node.id for node in run.graph.nodes] if run is not None else []
        end = run.finished_at if run is not None and run.finished_at is not None else now
        deciding = None if error is None else (error.node_id, error.visit, error.item)
        others = [each for task, tries in self._tries.items() if task != deciding for each in tries]
        return FlowExplanation(
            flow_id=self._id,
            name=state.name,
            execution_id=state.execution_id,
            status=state.status,
            stop_reason=state.stop_reason.value if state.stop_reason is not None else None,
            resolved_by=finished.resolved_by if finished is not None else None,
            verdict=_verdict(state, answered_at if is_left else None, is_crashed=is_crashed, damage=damage),
            error=error,
            rule=failed.rule if failed is not None else None,
            looked_at={} if error is None else looked_at(state, error.node_id),
            limit=limit,
            attempts=tuple(self._tries.get(deciding, ())) if deciding is not None else (),
            interrupted=tuple(each for each in others if each.then is not None),
            kept=tuple(each for each in others if each.outcome == "kept"),
            recorded=tuple(state.errors),
            not_reached=tuple(name for name in names if name not in visited),
            spent=FlowSpent(
                nodes=len(names),
                finished_nodes=sum(visits > (node in run.open) for node, visits in run.visits_of.items()) if run else 0,
                finished_visits=run.finished_visits if run is not None else 0,
                attempts=run.attempts if run is not None else 0,
                tokens=state.usage.total,
                active_seconds=state.active_seconds,
                wall_seconds=seconds_between(run.started_at, end) if run is not None else 0.0,
                cost=state.cost,
            ),
            waits=waits,
            waits_for=_waits_for(state),
            events=dict(self._events),
            is_newest=not self._is_over,
            is_owned=owned,
            is_crashed=is_crashed,
            crash=crash_text(state.fold.worker, _doing(state)) if is_crashed else None,
            damage=damage,
            state=state,
        )


def _doing(state: FlowState) -> list[str]:
    """Return the tries that were running when the last event of the run was stored; else what comes next."""
    running = [task for task in state.tasks if task.phase is TaskPhase.RUNNING]
    tries = [f'node "{task.node}", attempt {task.attempt} ({task.effect_id})' for task in running]
    return tries or [f"{state.phase.value}: {', '.join(sorted({task.node for task in state.tasks})) or 'no node'}"]


def _waits_for(state: FlowState) -> str | None:
    """Return in words what a run waits for, of several things the one that people are most likely to bring about."""
    wait = state.run.wait if state.run is not None else None
    if wait is not None and wait.kind == "resources":
        return f"another try to open its resources ({wait.problem})"
    waits = state.run.waits if state.run is not None else ()
    if all(wait.answered_at is not None for wait in waits):
        return None
    task = first_awaited(state.tasks)
    if task is None:
        # A process that was about to look after the streams below has died: they are still waited for.
        below = {wait.on for wait in waits if wait.answered_at is None}
        return next((_below(task) for task in state.tasks if task.stream in below), None)
    name = f'"{task.node}"'
    match kind_of(task):
        case "human" if task.request is not None:
            return f"an answer to {name} (human, {task.request.type})"
        case "approval" if task.approval is not None:
            return f"approval {task.approval.id} of {name}"
        case "step":
            return f"a word on {name}, which is held {task.held} it"
        case "unknown_outcome":
            return f"a verdict on {task.effect_id}"
        case "child":
            return _below(task)
        case _:
            return f"the next try of {name}"


def _below(task: Task) -> str:
    return f'{task.stream}, which "{task.node}" runs'


def _verdict(state: FlowState, answered_at: int | None, *, is_crashed: bool, damage: str | None) -> str:
    if answered_at is not None:
        return f"answered, waiting for a worker since {instant_text(answered_at)}"
    died = "; its process died: no process runs it" if is_crashed else ""
    return f"{verdict_of(state)}{died}{damage_text(state.version, damage)}"


def verdict_of(state: FlowState) -> str:
    """Return in one line where a run stands, and why."""
    run, status = state.run, state.status.value
    if run is None:
        return f"{status}: no execution has begun"
    reason = f" ({state.stop_reason.value})" if state.stop_reason is not None else ""
    by = run.finished.resolved_by if run.finished is not None else None
    match run.ended_by:
        case stored.NodeFailed(error=error, rule=rule):
            tries = f" after {error.attempt} attempts" if error.attempt > 1 else ""
            decided = f", decided by {by}: {rule}" if by is not None else f": {rule}"
            return f'{status}, node "{error.node_id}" failed{tries}{reason}{decided}'
        case stored.LimitReached() as limit:
            return f"{status}{reason}: {limit.said}"
        case stored.StepAnswered(node=node):
            where = f' at "{node}"'
        case _:
            where = ""
    if (asked := state.stopped_by) is not None:
        how = f"{reason}{where}" if run.finished is not None else f": a stop{where} is asked for"
        return f"{status}{how} {asked.by_whom}"
    if run.finished is not None:
        count = len(run.errors)
        said = f" with {many(count, 'recorded error')}" if count else ""
        return f"{status}{said}{reason}: nothing was left to do"
    if state.unpaused is not None:
        return f"unpaused, waiting for a worker since {instant_text(state.unpaused.at)}"
    if state.status is ExecutionStatus.PENDING:
        return f"not started: waiting for a worker since {instant_text(run.started_at)}"
    if state.paused is not None:
        return f"paused {state.paused.by_whom}"
    if (waits_for := _waits_for(state)) is not None:
        until = run.wait.until if run.wait is not None else None
        when = f" until {instant_text(until)}" if until is not None else ""
        if until is not None and until <= state.as_of:
            return f"waiting for {waits_for}{when}, which has passed: it can go on"
        alone = "; nothing else can run" if run.wait is not None else ""
        return f"waiting for {waits_for}{when}{alone}"
    running = sorted({task.node for task in state.tasks})
    return f"{status}: {', '.join(running)}" if running else status
