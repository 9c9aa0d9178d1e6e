"""`decide(state, command)`: the only place where a command from outside is accepted or rejected."""

from typing import assert_never

from steptrail.domain.errors import CommandRejected
from steptrail.domain.files import refuse_absent_files
from steptrail.domain.flow import commands, events
from steptrail.domain.flow.answers import answer, answer_approval, answer_step, settle
from steptrail.domain.flow.cutting import forgone
from steptrail.domain.flow.definition import changes_between
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.ids import execution_id
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.said import said, said_to
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.commands import FromOutside, Leave, Pause, Stop, Unpause
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.keys import use_of
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, end_of_segment
from steptrail.domain.shared.scores import GiveScore, score_said, scored
from steptrail.domain.shared.state import of_fork
from steptrail.domain.shared.steering import asked_by_leaving, steered
from steptrail.domain.version import VERSION


def decide(state: FlowState, command: commands.FlowCommand) -> tuple[events.FlowEvent, ...]:
    """Return the events that follow from the command; none when the command was accepted before.

    Raises `CommandRejected`, which says what to do instead.
    """
    if was_accepted(state, command):
        return ()
    match command:
        case commands.StartFlow():
            return _start(state, command)
        case commands.ResumeFlow():
            return _resume(state, command)
        case commands.RetryFlow():
            return _retry(state, command)
        case Fork():
            return _fork(state, command)
        case commands.SettleNode():
            return settle(state, command)
        case commands.AnswerQuestion():
            return answer(state, command)
        case commands.AnswerStep():
            return answer_step(state, command)
        case Approve() | Deny():
            return answer_approval(state, command)
        case GiveScore():
            return scored(command, state.stream_id, state)
        case Pause() | Unpause() | Stop():
            return steered(command, state.stream_id, state)
        case Leave():
            return _leave(state)
    assert_never(command)


def was_accepted(state: FlowState, command: commands.FlowCommand) -> bool:
    """Tell whether the command was accepted before, by its key.

    Raises `CommandRejected` for a key that came with something else.
    """
    key = getattr(command, "key", None)
    if not isinstance(command, FromOutside) or key is None:
        return False
    runs, what = command.runs if isinstance(command, commands.StartFlow) else None, _what(state, command)
    return use_of(state.fold.keys, key, what, runs=runs, command=command.DOING, session=state.stream_id) is not None


def said_by(state: FlowState, command: commands.StartFlow) -> str:
    """Return the text by which the input of a command is recognised."""
    return said(_started(state, command))


def _what(state: FlowState, command: FromOutside) -> str:
    match command:
        case commands.StartFlow():
            return said_by(state, command)
        case commands.ResumeFlow() if state.run is not None:
            return said(state.run.started)
        case commands.AnswerQuestion(to=to):
            return said_to(to, command)
        case commands.AnswerStep(node=node, action=action):
            return f"step {node} {action}"
        case GiveScore():
            return score_said(command)
        case Approve() | Deny():
            return f"{type(command).__name__.lower()} {command.approval_id}"
        case _:
            return command.DOING


def _start(state: FlowState, command: commands.StartFlow) -> tuple[events.FlowEvent, ...]:
    if state.is_open:
        is_same = state.run is not None and said(state.run.started) == said_by(state, command)
        what, goes_on = ("this input without this key", "run") if is_same else ("another input", "resume")
        why = (
            f"execution {state.execution_id} is {state.status.value} and has {what}: `{goes_on}` goes on with it, "
            "`stop` ends it"
        )
        raise CommandRejected("run", state.stream_id, why)
    state.refuse_unknown_files(command.files, input=command.input, vars=command.vars)
    refuse_absent_files(command.messages, "messages", state.files)
    refuse_absent_files(command.artifacts, "artifacts", state.files)
    opened: tuple[events.FlowEvent, ...] = ()
    if state.phase is RunPhase.ABSENT:
        name = command.flow.definition.name
        opened = (events.SessionStarted(name=name, parent=command.parent, metadata=command.metadata),)
    elif command.new:
        raise CommandRejected("open", state.stream_id, "it exists already")
    elif changes := {k: v for k, v in command.metadata.items() if k not in state.metadata or state.metadata[k] != v}:
        opened = (events.MetadataChanged(changes=changes, by=command.by),)
    return (*opened, _started(state, command))


def _started(state: FlowState, command: commands.StartFlow) -> events.FlowStarted:
    ordinal = state.fold.executions + 1
    return events.FlowStarted(
        execution_id=execution_id(state.flow_id, ordinal),
        ordinal=ordinal,
        segment=state.fold.segment + (command.worker is not None),
        worker=command.worker,
        library=VERSION,
        flow=command.flow.definition.name,
        definition=command.flow.text,
        digest=command.flow.digest,
        locator=command.flow.locator,
        use=command.flow.use,
        options=command.options,
        input=command.input,
        vars=command.vars,
        messages=command.messages,
        artifacts=command.artifacts,
        files=command.files,
        context=command.context,
        key=command.key,
        by=command.by,
    )


def _changes(
    state: FlowState, run: RunFold, brought: commands.Brought | None, *, strict: bool, doing: str
) -> tuple[str, ...]:
    recorded = state.definition
    if brought is None or recorded is None or brought.digest == run.started.digest:
        return ()
    changes = changes_between(recorded, brought.definition)
    if strict and changes:
        raise CommandRejected(doing, state.stream_id, f"the workflow is not the recorded one: {', '.join(changes)}")
    return changes


def _resume(state: FlowState, command: commands.ResumeFlow) -> tuple[events.FlowEvent, ...]:
    run = state.run
    if run is None or not state.is_open:
        raise CommandRejected("resume", state.stream_id, "no execution is open: its last one has finished")
    ended_by = command.ended_by or _how_the_segment_ended(state, run)
    was_productive = run.productive or ended_by in {SegmentEnd.PAUSE, SegmentEnd.WAIT, SegmentEnd.START}
    return (
        events.FlowResumed(
            segment=state.fold.segment + 1,
            worker=command.worker,
            library=VERSION,
            ended_by=ended_by,
            # What runs streams of its own makes progress there, and their own guard counts.
            was_productive=was_productive or any(task.runs_a_stream for task in state.tasks),
            changes=_changes(state, run, command.flow, strict=command.strict, doing="resume"),
            options=command.options,
            moved=command.moved,
            by=command.by,
            key=command.key,
        ),
    )


def _how_the_segment_ended(state: FlowState, run: RunFold) -> SegmentEnd:
    # An answer ends the wait, and no process has gone on since.
    return end_of_segment(state.phase, waited=state.phase is RunPhase.WAITING or bool(run.waits))


def why_no_retry(state: FlowState) -> str | None:
    """Return why a run cannot be retried; None when it can."""
    if state.run is None:
        return "no execution has run yet"
    if state.is_open:
        return f"execution {state.execution_id} is {state.status.value}: `resume` goes on with it"
    if state.status is ExecutionStatus.COMPLETED:
        return "its last execution has completed: `run` begins the next"
    return None


def _retry(state: FlowState, command: commands.RetryFlow) -> tuple[events.FlowEvent, ...]:
    run = state.run
    if (why := why_no_retry(state)) is not None or run is None:
        raise CommandRejected("retry", state.stream_id, why or "no execution has run yet")
    ordinal = state.fold.executions + 1
    return (
        events.FlowRetried(
            execution_id=execution_id(state.flow_id, ordinal),
            ordinal=ordinal,
            segment=state.fold.segment + (command.worker is not None),
            worker=command.worker,
            library=VERSION,
            visits=tuple(visit.number for visit in run.open.values()),
            changes=_changes(state, run, command.flow, strict=command.strict, doing="retry"),
            options=command.options,
            reason=command.reason,
            by=command.by,
            key=command.key,
        ),
    )


def why_no_fork(state: FlowState) -> str | None:
    """Return why a run cannot be forked after the events of a state, and where it can be; None when it can."""
    if (run := state.run) is None:
        return f"after {state.version} events nothing was started in it: fork where a run has begun"
    if not run.acted:
        return None
    done = ", ".join(f'"{node}"' for node in sorted(run.acted))
    return (
        f"after {state.version} events {done} may have done what counts only once, and would do it again in the fork: "
        f"fork after event {run.forkable_at}, before it began, or where it has ended"
    )


def _fork(state: FlowState, command: Fork) -> tuple[events.FlowEvent, ...]:
    if (why := why_no_fork(state)) is not None or (run := state.run) is None:
        raise CommandRejected("fork", state.stream_id, why or "nothing was started in it")
    return (
        events.FlowForked(
            **of_fork(state, command, session_id=state.flow_id, steps=run.finished_visits),
            definition=run.started.definition,
            fingerprint=run.started.digest,
            options=run.options,
        ),
    )


def _leave(state: FlowState) -> tuple[events.FlowEvent, ...]:
    if not state.is_open or state.phase in {RunPhase.PAUSED, RunPhase.UNPAUSED}:
        return ()
    requested, by, reason = asked_by_leaving(state.pause_request)
    # All tries that were made have ended when the owner leaves.
    running = state.run.running() if state.run is not None else ()
    never_made = [forgone(task, events.CutReason.CANCELLED) for task in running if not task.in_doubt]
    return (*never_made, *requested, events.ExecutionPaused(by=by, reason=reason, step_seconds=0.0))
