"""Handlers of the runs of workflows: they begin, go on, are retried, wait no more and end."""

from steptrail.domain.flow import events as stored
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.storable import plain
from steptrail.projections.runs_view.executions import begin_fork, begin_run, end_run, end_wait, resume_run, run_at
from steptrail.projections.runs_view.memory import RunMemory, RunMoment, StreamMemory
from steptrail.projections.runs_view.visits import count_cut_visits, take_up_again

FLOW_STREAM_HANDLERS = Handlers[StreamMemory, [RunMoment], None]()
FLOW_RUN_HANDLERS = Handlers[RunMemory, [RunMoment], None]()


@FLOW_STREAM_HANDLERS.of(stored.FlowStarted)
def _started(memory: StreamMemory, event: stored.FlowStarted, moment: RunMoment) -> None:
    memory.name = plain(event.flow)
    run = run_at(memory, event.ordinal, event.worker, moment)
    run.fingerprint, run.definition, run.prices = plain(event.digest), event.definition, event.options.prices
    begin_run(memory, run, moment)


@FLOW_STREAM_HANDLERS.of(stored.FlowForked)
def _forked(memory: StreamMemory, event: stored.FlowForked, moment: RunMoment) -> None:
    memory.forked = event
    if (run := begin_fork(memory, event, moment)) is not None:
        _go_on_from(run, event)


def _go_on_from(run: RunMemory, event: stored.FlowForked) -> None:
    run.fingerprint, run.definition, run.prices = plain(event.fingerprint), event.definition, event.options.prices


@FLOW_STREAM_HANDLERS.of(stored.FlowRetried)
def _retried(memory: StreamMemory, event: stored.FlowRetried, moment: RunMoment) -> None:
    """Begin another execution with the visits that had not ended well."""
    before = memory.run
    run = run_at(memory, event.ordinal, event.worker, moment)
    if before is not None:
        run.fingerprint, run.definition, run.prices = before.fingerprint, before.definition, before.prices
        run.bills = before.bills
    elif memory.forked is not None:
        _go_on_from(run, memory.forked)
    if event.options is not None:
        run.prices = event.options.prices
    begin_run(memory, run, moment)
    if before is not None:
        take_up_again(run, before.visits.values(), moment)


@FLOW_RUN_HANDLERS.of(stored.FlowResumed)
def _resumed(run: RunMemory, event: stored.FlowResumed, moment: RunMoment) -> None:
    # A segment that has crashed lived until its last event.
    lived_until = run.seen[1] if event.ended_by in {SegmentEnd.CRASH, SegmentEnd.TAKE_OVER} else moment.at
    run.active = run.active.stopped(lived_until)
    if event.options is not None:
        run.prices = event.options.prices
    if run.standing is not None:
        run.wait = None  # a run that was paused in a wait is at work, and waits anew if it has to
    resume_run(run, moment, worker=event.worker, by=event.by, ended_by=event.ended_by)


FLOW_RUN_HANDLERS.of(stored.WaitEnded)(end_wait)


@FLOW_RUN_HANDLERS.of(stored.ExecutionFinished)
def _finished(run: RunMemory, event: stored.ExecutionFinished, moment: RunMoment) -> None:
    count_cut_visits(run, moment)
    end_run(run, event, moment)


@FLOW_RUN_HANDLERS.of(stored.ApprovalRequested, stored.HumanRequested)
def _asked(run: RunMemory, event: Event, moment: RunMoment) -> None:
    run.approvals += 1


@FLOW_RUN_HANDLERS.of(
    stored.ApprovalDenied,
    stored.ApprovalExpired,
    stored.ApprovalGranted,
    stored.HumanAnswered,
    stored.HumanExpired,
    stored.LimitReached,
    stored.StepAnswered,
    stored.StepHeld,
)
def _nothing(run: RunMemory, event: Event, moment: RunMoment) -> None:
    """Change nothing: the wait for it ends, or the run does."""
