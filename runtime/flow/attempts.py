"""Makes the tries of nodes as effects: each is recorded before it is made, and when it ends, in whatever way."""

from dataclasses import dataclass
from functools import partial

from msgspec import structs

from steptrail.domain.copies import own
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import PASSING
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.concluding import over_budget, time_left_us
from steptrail.domain.flow.cutting import forgone, interrupted
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptStarted,
    NodeAttemptSuspended,
)
from steptrail.domain.flow.failing import stream_kind, working_node
from steptrail.domain.flow.fold import RunFold, VisitFold
from steptrail.domain.flow.ids import effect_id
from steptrail.domain.flow.keeping import kept_result
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import needed_list
from steptrail.domain.flow.kinds.values import text_of
from steptrail.domain.flow.lending import lent_to
from steptrail.domain.flow.nodes import FunctionNode, MapNode, Node
from steptrail.domain.flow.policies import CACHEABLE, FailureClass
from steptrail.domain.flow.seeing import seen_by
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskKey, of_try
from steptrail.domain.kernel.machine import CallInFlight
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.tools import ToolEffect
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.deadline import is_out_of_time, shortest
from steptrail.runtime.agent.run_log import RUNS, call_failed
from steptrail.runtime.flow.calls.llm import LlmCall
from steptrail.runtime.flow.calls.making import call_of
from steptrail.runtime.flow.calls.port import Failed, NodeCall, Outcome, Succeeded, Suspended, TimedOut, Try
from steptrail.runtime.flow.calls.tool import ToolCall
from steptrail.runtime.flow.failure_class import failure_class, fault_info, faulty, never_ran
from steptrail.runtime.flow.functions import NodeContext
from steptrail.runtime.flow.live import ShownTry
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.run_log import could_not_run
from steptrail.runtime.flow.values import FilesOfRun
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.log_context import LogPlace, within
from steptrail.runtime.kernel.running_effects import Cut, Deaf
from steptrail.runtime.kernel.segment import Segment
from steptrail.runtime.kernel.time_bound import TimeBound


@dataclass(frozen=True, slots=True, kw_only=True)
class _Began:
    key: TaskKey
    node: Node
    call: NodeCall
    in_flight: CallInFlight
    at: int
    timeout: float | None
    shown: ShownTry
    files: FilesOfRun


class Attempts:
    """Makes the tries of the nodes of one run."""

    def __init__(self, segment: Segment[FlowState, FlowEvent], flow: BuiltWorkflow, means: FlowMeans) -> None:
        self._journal, self._flow, self._flight, self._means = segment.journal, flow, segment.flight, means
        self._reach, self._watching, self._forget = segment.environment.reach, segment.watcher, segment.forget
        self._child_of = partial(ChildPlace.below, segment)
        self._store = segment.environment.store
        self._prepared: dict[TaskKey, NodeCall] = {}
        self._cut_for: dict[TaskKey, CutReason] = {}
        inner = ((node.id, working_node(node, 0)) for node in flow.definition.nodes)
        self._effects = {name: node.effect for name, node in inner if isinstance(node, FunctionNode)}
        self.resources: object = None

    def start(self, keys: tuple[TaskKey, ...]) -> None:
        """Record that these tries are about to be made, that they cannot be made, or that a kept result stands in."""
        for key in keys:
            run, visit = self._place(key)
            node = run.node(key[0], key[2])
            task = run.tasks.get(key) or Task(*key)
            if (call := self._prepared_or_faulty(run, visit, task)) is None:
                continue
            now = self._journal.asked.as_of
            if (kept := _kept(run, visit, task, call, now)) is not None:
                self._journal.record(kept)
                continue
            left, effect = time_left_us(run, task, now), effect_id(visit.execution, *key)
            if self._is_late(node, task, left):
                continue
            self._prepared[key] = call
            runs_a_stream = stream_kind(node) is not None
            # It was cut off when it might be repeated, and what the workflow brings now may not do it twice.
            is_changed = task.attempt > task.failures and call.effect is ToolEffect.UNSAFE is not task.effect
            self._journal.record(
                NodeAttemptStarted(
                    **of_try(key, task.attempt + 1),
                    effect_id=effect,
                    effect=call.effect,
                    input_digest=digest_of(call.given),
                    deadline_at=None if left is None else now + left,
                    stream_effect=task.next_stream_effect(effect, run.retries) if runs_a_stream else None,
                )
            )
            if is_changed:
                self._journal.record(self._interrupted(key, CutReason.CRASH, 0.0))

    def begin(self, keys: tuple[TaskKey, ...]) -> None:
        """Make the tries that are recorded and not in flight. What leads to them must be durable."""
        for key in keys:
            if key not in self._flight:
                self._begin(key)

    def forgo(self, keys: tuple[TaskKey, ...], reason: CutReason) -> bool:
        """Record of tries that have not begun that they are not made after all; tell whether there were any."""
        left = [key for key in keys if key not in self._flight]
        for key in left:
            self._prepared.pop(key, None)
            self._journal.record(forgone(self._place(key)[0].tasks[key], reason))
        return bool(left)

    def cut(self, keys: tuple[TaskKey, ...], reason: CutReason) -> None:
        """Cut off tries. Their ends are recorded when they land."""
        self._cut_for.update(dict.fromkeys(keys, reason))
        self._flight.cut(keys)

    def _is_late(self, node: Node, task: Task, left_us: int | None) -> bool:
        """Tell whether there is no time for a try. That is recorded: it is not made, so its outcome is known.

        A stream below may have answered in time, and is asked.
        """
        if left_us is None or left_us > 0 or stream_kind(node) is not None:
            return False
        before = task.landing.error if isinstance(task.landing, NodeAttemptFailed) else None
        self._journal.record(never_ran(task.key, FailureClass.TIMEOUT, _late(node, before), {}, task.attempt))
        return True

    def _place(self, key: TaskKey) -> tuple[RunFold, VisitFold]:
        run = self._journal.peek().at_work()
        return run, run.open[key[0]]

    def _prepared_or_faulty(self, run: RunFold, visit: VisitFold, task: Task) -> NodeCall | None:
        """Return the call of a try; None for one that cannot be made, which is recorded."""
        try:
            return self._prepare(run, visit, task)
        except NodeFault as fault:
            could_not_run(self._journal.peek().flow_id, task.node, fault.failure)
            self._journal.record(faulty(task.key, fault, task.attempt))
            return None

    def _prepare(self, run: RunFold, visit: VisitFold, task: Task) -> NodeCall:
        outer = run.node(task.node)
        node = working_node(outer, task.item)
        # An item of a map spends from the budget of the map too.
        budgets, of_cost = (outer.budget, node.budget), {"limit": "max_cost_usd"}
        if run.options.prices is None and any(each is not None and each.max_cost_usd for each in budgets):
            why = "it has a limit on cost, and the run has no prices: RunOptions(prices=...)"
            raise NodeFault(FailureClass.CONFIG, why, of_cost)
        if stream_kind(node) is None and (over := over_budget(run, task)) is not None:
            raise NodeFault(over.failed.failure, over.failed.message, over.failed.details)
        seen = seen_by(run, visit, task.item)
        if isinstance(outer, MapNode) and task.item is None:
            needed_list(seen, outer.over)  # it is none, as its visit was opened without the number of its items
        if isinstance(node, FunctionNode):
            # As of a tool, what the code declares that is brought now holds for new tries.
            node = structs.replace(node, effect=self._effects.get(outer.id, node.effect))
        call = call_of(node, self._flow.code.get(outer.id), seen, task, self._means)
        # The code of today may ask another model than the one that is recorded.
        if isinstance(call, LlmCall) and run.options.limits_cost_of(call.model, *budgets):
            why = f"there is a limit on cost, and no price for {call.model!r}: add one, or say `unpriced='ignore'`"
            raise NodeFault(FailureClass.CONFIG, why, of_cost)
        return call

    def _begin(self, key: TaskKey) -> None:
        run, visit = self._place(key)
        node, task, now = run.node(key[0], key[2]), run.tasks[key], self._journal.now()
        call = self._prepared.pop(key, None) or self._prepared_or_faulty(run, visit, task)
        if call is None:
            return
        left = time_left_us(run, task, now)
        if self._is_late(node, task, left):
            return
        timeout = None if left is None else max(0.0, left / 1e6)
        at_most = shortest(call.timeout, timeout)
        state = self._journal.peek()
        shown = ShownTry(
            self._watching, self._forget, session_id=state.flow_id, execution_id=run.id, place=key, attempt=task.attempt
        )
        files = FilesOfRun(self._store, run.files, f"run flow:{state.flow_id}")
        context = NodeContext(
            effect_id=task.effect_id,
            flow_id=state.flow_id,
            execution_id=run.id,
            node=key[0],
            visit=key[1],
            attempt=task.attempt,
            index=key[2],
            deadline_seconds=timeout,
            context=own(run.started.context),
            resources=self.resources,
            report=shown.report,
            files=files,
        )
        made = Try(
            context=context,
            seen=seen_by(run, visit, key[2]),
            timeout=timeout,
            now=self._journal.now,
            read=files.bytes_of,
            tried=run.tries_of.get(key[0], 0),
            child=self._child(state, run, task),
            writer=shown.writer,
        )
        began = _Began(
            key=key,
            node=node,
            call=call,
            in_flight=CallInFlight(task.effect_id, task.attempt, runs_a_stream=task.runs_a_stream),
            at=now,
            timeout=at_most,
            shown=shown,
            files=files,
        )
        self._reach("before-node")
        RUNS.debug("flow %s: node %s starts, attempt %d", state.flow_id, key[0], task.attempt)
        place = LogPlace(state.flow_id, run.id, effect_id=task.effect_id, node=key[0], visit=key[1])
        self._flight.begin(
            key,
            within(place, partial(_in_time, call, made, node)),
            partial(self._ended, began),
            patience=call.patience,
            at_most=at_most,
            drops_late=call.patience is not None,
        )

    def _child(self, state: FlowState, run: RunFold, task: Task) -> ChildPlace:
        parent = ParentRef(
            kind="flow",
            session=state.flow_id,
            execution=run.id,
            effect=run.open[task.node].effects.get(task.place, task.effect_id),
        )
        retry_key = f"{parent.effect}:retry{run.retries}" if task.goes_on_below else None
        place = self._child_of(parent.under(state.parent))
        return place._replace(retry_key=retry_key, lent=lent_to(run, task))

    def _ended(self, began: _Began, outcome: Outcome | Cut | Deaf | Exception) -> None:
        self._reach("after-node")
        began.shown.end()
        seconds = (self._journal.now() - began.at) / 1e6
        if isinstance(outcome, PASSING) and began.files.is_away and began.call.effect is not ToolEffect.UNSAFE:
            raise outcome  # The store did not give a file for now. The node did not fail, and may be tried again.
        if isinstance(outcome, Deaf):
            late = _late(began.node, own=began.call.timeout if began.call.timeout == began.timeout else None)
            outcome = began.call.left_behind(late) if isinstance(began.call, ToolCall) else TimedOut(error=late)
        if isinstance(outcome, Exception):
            outcome = _raised(outcome, began, self._journal.now() / 1e6)
        if isinstance(outcome, Failed) and is_out_of_time(outcome.error, seconds, began.timeout):
            outcome = TimedOut(error=outcome.error, usage=outcome.usage, may_retry=outcome.may_retry)
        if isinstance(outcome, Failed):
            call_failed(f"flow {self._journal.peek().flow_id}", f"node {began.key[0]}", outcome.error, outcome.raised)
        self._journal.record_outcome(began.in_flight, self._event(began, outcome, seconds))

    def _event(self, began: _Began, outcome: Outcome | Cut, seconds: float) -> FlowEvent:
        tried, policy = of_try(began.key, began.in_flight.attempt), began.node.retry
        if isinstance(outcome, Succeeded):
            outcome = self._within_budget(began.key, outcome)
        if isinstance(outcome, TimedOut) and began.call.effect is not ToolEffect.UNSAFE:
            late, is_covered = FailureClass.TIMEOUT, outcome.may_retry
            outcome = Failed(failure=late, error=outcome.error, usage=outcome.usage, may_retry=is_covered)
        match outcome:
            case Succeeded():
                return NodeAttemptCompleted(
                    **tried,
                    output=outcome.output,
                    sets=dict(outcome.sets),
                    unsets=outcome.unsets,
                    messages=outcome.messages,
                    artifacts=outcome.artifacts,
                    files=outcome.files,
                    usage=outcome.usage,
                    route=outcome.route,
                    detail=dict(outcome.detail),
                    duration_seconds=seconds,
                )
            case Failed(may_have_acted=True) if began.call.effect is ToolEffect.UNSAFE:
                return self._interrupted(began.key, CutReason.CONNECTION, seconds)
            case Failed(failure=failure, error=error, may_retry=is_covered):
                return NodeAttemptFailed(
                    **tried,
                    failure=failure,
                    error=error,
                    details=dict(outcome.details),
                    may_retry=policy.covers(failure, is_retryable=is_covered and error.retryable),
                    usage=outcome.usage,
                    duration_seconds=seconds,
                )
            case TimedOut():
                # It may have taken effect, and may do so only once.
                return self._interrupted(began.key, CutReason.TIMEOUT, seconds)
            case Suspended():
                return NodeAttemptSuspended(
                    **tried,
                    stream=outcome.stream,
                    reason=outcome.reason,
                    until=outcome.until,
                    usage=outcome.usage,
                    duration_seconds=seconds,
                )
            case _:
                reason = self._cut_for.pop(began.key, CutReason.CANCELLED)
                return self._interrupted(began.key, reason, seconds)

    def _within_budget(self, key: TaskKey, outcome: Succeeded) -> Succeeded | Failed:
        """Return the outcome; for an item of a map that used more than its budget, that it has failed."""
        run, _ = self._place(key)
        # That of a whole visit is judged when it is concluded.
        over = None if key[2] is None else over_budget(run, run.tasks[key], outcome.usage)
        if over is None:
            return outcome
        error = fault_info(NodeFault(over.failed.failure, over.failed.message))
        return Failed(failure=over.failed.failure, error=error, details=over.failed.details, usage=outcome.usage)

    def _interrupted(self, key: TaskKey, reason: CutReason, seconds: float) -> FlowEvent:
        run, _ = self._place(key)
        return interrupted(run, run.tasks[key], reason, seconds=seconds)


def _kept(run: RunFold, visit: VisitFold, task: Task, call: NodeCall, now: int) -> NodeAttemptCompleted | None:
    """Return the end of a task for which a result is kept; None for none.

    One that was tried already, or whose arguments a person made, takes none.
    """
    if task.attempt or task.arguments is not None or call.effect not in CACHEABLE:
        return None
    kept = kept_result(run, visit, task.item, now)
    if kept is None:
        return None
    tried = of_try(task.key, 0)
    return NodeAttemptCompleted(**tried, output=kept.output, route=kept.route, is_kept=True, duration_seconds=0.0)


async def _in_time(call: NodeCall, made: Try, node: Node) -> Outcome:
    """Make the try, at most for what is left of the time of its node."""
    limit = TimeBound(made.timeout)
    try:
        outcome = await limit.around(partial(call.run, made))
        # A stream below rests when it is cut off, also by the end of this time. It would be cut off so again for ever.
        if limit.is_over and isinstance(outcome, Suspended):
            return TimedOut(error=_late(node), usage=outcome.usage)
        return outcome
    except TimeoutError as error:
        if limit.is_over:
            return TimedOut(error=_late(node))
        raise error


def _raised(error: Exception, began: _Began, now: float) -> Failed:
    if isinstance(error, NodeFault):
        info = fault_info(error)
        return Failed(failure=error.failure, error=info, details=error.details, raised=error)
    asks_a_model = began.call.usual is FailureClass.MODEL
    info = capture(error, default=ErrorType.MODEL if asks_a_model else ErrorType.TOOL, now=now)
    if asks_a_model and info.type is ErrorType.VALIDATION:
        info = structs.replace(info, type=ErrorType.MODEL)  # what a provider says and its driver cannot read
    return Failed(failure=failure_class(info, began.call.usual), error=info, raised=error)


def _late(node: Node, before: ErrorInfo | None = None, *, own: float | None = None) -> ErrorInfo:
    """Return the error of a node whose time is up, or of a call that had a time of its `own`.

    The failure `before` it is a cause: it waited for its next try.
    """
    within = node.timeout if own is None else own
    said = "its time was up" if within is None else f"it did not end within {text_of(within)} s"
    late = ErrorInfo(type=ErrorType.TIMEOUT, error_class="builtins:TimeoutError", message=said)
    if before is None:
        return late
    chain = (*(f"{each.error_class}: {each.message}" for each in (late, before)), *before.causes[1:])
    return structs.replace(late, causes=chain)
