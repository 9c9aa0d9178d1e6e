"""Live progress of a run: one line for what a person would want to know while waiting, as soon as it is durable.

Where somebody watches it appear, the model's text is shown while it is written, before the line that says it is whole.
"""

from collections.abc import Callable, Sequence

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, ReplyDelta
from steptrail.interfaces.cli.output import one_line
from steptrail.interfaces.cli.summaries import because, changed_by, how_it_stopped, words_of
from steptrail.projections.rendering import many, why_cut
from steptrail.runtime.kernel.live_updates import OnUpdate

_CUT = 160


class Progress:
    """Listens to the commits of a run. Before a resume, show it where the session stands: calls are named in there.

    `tell` prints a line. With `write`, which prints a piece of one, `on_update` shows text as it is written.
    """

    def __init__(self, tell: Callable[[str], None], write: Callable[[str], None] | None = None) -> None:
        self._tell, self._write = tell, write
        self._is_writing = False
        self._calls: dict[int, str] = {}
        self._asked: dict[str, str] = {}
        self._votes: list[ContinuationEvaluation] = []

    @property
    def on_update(self) -> OnUpdate | None:
        """The function that watches the run, or None: a run that nobody watches is not streamed."""
        return None if self._write is None else self._show

    def look_at(self, state: AgentState) -> None:
        """Learn the names of the calls that are open."""
        self._calls = {call.position: call.name for call in state.tool_executions}
        self._asked = {asked.id: call.name for call in state.tool_executions if (asked := call.approval) is not None}

    def __call__(self, records: Sequence[Recorded[stored.AgentEvent]]) -> None:
        """Print what these events tell."""
        for record in records:
            for line in self._lines(record.event):
                self._end_writing()
                self._tell(one_line(line, _CUT) if line.lstrip() == line else "  " + one_line(line, _CUT))

    def _show(self, update: LiveUpdate) -> None:
        if self._write is None or not isinstance(update, ReplyDelta) or update.kind != "text":
            return
        if update.is_final:
            self._end_writing()
            return
        indent = "" if self._is_writing else "    "
        self._is_writing = True
        self._write(indent + update.text.replace("\n", "\n    "))

    def _end_writing(self) -> None:
        if self._is_writing and self._write is not None:
            self._is_writing = False
            self._write("\n")

    def _lines(self, event: stored.AgentEvent) -> Sequence[str]:
        match event:
            case stored.StepStarted(number=number):
                return (f"step {number}",)
            case stored.InferenceStarted(model=model, attempt=attempt):
                return (f"  model {model} called{f', attempt {attempt}' if attempt > 1 else ''}",)
            case stored.InferenceCompleted(reply=reply, duration_seconds=seconds):
                self._calls = {i: call.name for i, call in enumerate(reply.tool_calls)}
                wanted = f", calls {', '.join(self._calls.values())}" if self._calls else ""
                return (f"  model replied in {seconds:.2f} s, {many(reply.usage.total, 'token')}{wanted}",)
            case stored.InferenceFailed(error=error, duration_seconds=seconds):
                return (f"  model failed in {seconds:.2f} s ({error.type.value}): {error}",)
            case stored.InferenceInterrupted():
                return (f"  model call interrupted: {why_cut(event)}",)
            case stored.EvaluationsRecorded(votes=votes):
                self._votes += votes
                return ()
            case stored.ContinuationEvaluated():
                return self._decision(event)
            case stored.RetryScheduled(error_type=kind, failures=failures, delay_seconds=delay):
                return (f"retry in {delay:.1f} s after failure {failures} ({kind.value})",)
            case stored.ModelSwitched():
                return (str(event),)
            case stored.ConversationCompacted():
                return (f"compacted: {event}",)
            case stored.WaitStarted(kind="unknown_outcome", position=position):
                return (f"waiting for somebody to say what {self._name(position)} did",)
            case stored.WaitStarted(kind="resources", problem=problem):
                return (f"waiting: its resources could not be opened ({problem})",)
            case stored.ExecutionResumed(ended_by=ended_by, segment=segment, changes=changes):
                return (f"resumed after {ended_by.value} (segment {segment}){changed_by(changes)}",)
            case stored.ExecutionPaused(by=by, reason=reason):
                return (f"paused by {by}{because(reason)}",)
            case stored.ExecutionFinished(status=status, stop_reason=reason, answered=answered):
                return (f"finished: {status.value} ({how_it_stopped(reason, answered=answered)})",)
            case stored.ToolExecutionStarted(position=position, tool=tool, attempt=attempt):
                self._calls[position] = tool
                return (f"  {tool} started{f', attempt {attempt}' if attempt > 1 else ''}",)
            case stored.ToolCallDeferred(position=position, tool=tool, effect_id=effect):
                self._calls[position] = tool
                return (f"  {tool} waits for its result: {effect}",)
            case stored.ToolExecutionCompleted(position=position, duration_seconds=seconds):
                return (f"  {self._name(position)} finished in {seconds:.2f} s",)
            case stored.ToolExecutionFailed(position=position, duration_seconds=seconds, error=error):
                return (f"  {self._name(position)} failed in {seconds:.2f} s ({error.type.value}): {error}",)
            case stored.ToolExecutionInterrupted(position=position):
                return (f"  {self._name(position)} interrupted: {why_cut(event)}",)
            case stored.ToolExecutionSuspended(position=position, session=session, reason=reason):
                return (f"  {self._name(position)} rests: session {session} {reason}",)
            case stored.ApprovalRequested(position=position, asked_by=asked_by, approval_id=approval):
                self._asked[approval] = self._name(position)
                return (f"  {self._name(position)} needs approval, asked for by {asked_by}",)
            case stored.ApprovalGranted(by=by, arguments=edited, approval_id=approval):
                how = " with other arguments" if edited is not None else ""
                return (f"  {self._asked.get(approval, 'a call')} approved by {by}{how}",)
            case stored.ApprovalDenied(by=by, reason=reason, approval_id=approval):
                return (f"  {self._asked.get(approval, 'a call')} denied by {by}{because(reason)}",)
            case stored.ApprovalExpired(approval_id=approval):
                return (f"  {self._asked.get(approval, 'a call')} not run: nobody approved it in time",)
            case stored.AnswerRejected(problems=problems):
                return (f"  answer rejected: {'; '.join(map(str, problems))}",)
            case stored.InstructionsResolved():
                return (f"instructions {words_of(event)}",)
            case stored.ToolCallBlocked(position=position, reason=reason, hook=hook):
                return (f"  {self._name(position)} blocked by {hook}: {reason}",)
            case stored.ToolCallCancelled(position=position, reason=reason):
                return (f"  {self._name(position)} called off: {reason}",)
            case _:
                return ()

    def _decision(self, event: stored.ContinuationEvaluated) -> Sequence[str]:
        votes, self._votes = self._votes, []
        if event.should_continue:
            return ()
        ending = {ContinuationDecision.FORBID, ContinuationDecision.STOP}
        return tuple(
            f"  {vote.criterion_class} votes {vote.decision.value}: {vote.reason}"
            for vote in votes
            if vote.decision in ending
        )

    def _name(self, position: int | None) -> str:
        return "a call" if position is None else self._calls.get(position, f"call {position}")


class FlowProgress:
    """Listens to the commits of a run of a workflow, and tells what a person would want to know of each."""

    on_update = None
    """Nobody watches what nodes write."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, records: Sequence[Recorded[Event]]) -> None:
        """Print what these events tell."""
        from steptrail.interfaces.cli.flow_summaries import flow_summary

        for record in records:
            if (verb := _VERBS.get(record.event.TYPE)) is not None:
                self._tell(f"  {verb:<9} {one_line(flow_summary(record.event), _CUT)}")


_VERBS = {
    "node.attempt.started.v1": "started",
    "node.attempt.completed.v1": "returned",
    "node.attempt.failed.v1": "failed",
    "node.attempt.interrupted.v1": "cut off",
    "node.attempt.suspended.v1": "rests",
    "node.retry.scheduled.v1": "waits",
    "node.evaluated.v1": "evaluated",
    "node.failure.recorded.v1": "recorded",
    "node.failed.v1": "failed",
    "node.skipped.v1": "skipped",
    "node.cancelled.v1": "cancelled",
    "limit.reached.v1": "limit",
    "human.requested.v1": "asks",
    "human.expired.v1": "expired",
    "step.held.v1": "held",
    "approval.requested.v1": "asks",
    "approval.expired.v1": "expired",
    "flow.resumed.v1": "resumed",
    "execution.paused.v1": "paused",
    "execution.finished.v1": "finished",
}
"""The events of a workflow that are told, by their types, and the word for each."""
