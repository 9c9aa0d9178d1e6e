"""Handlers of the executions of agents: they begin, go on, wait no more and end."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import is_looked_after
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.storable import plain
from steptrail.projections.runs_view.calls import close_step, move_call
from steptrail.projections.runs_view.executions import (
    begin_fork,
    begin_run,
    end_run,
    end_wait,
    resume_run,
    run_at,
)
from steptrail.projections.runs_view.memory import RunMemory, RunMoment, StreamMemory

AGENT_STREAM_HANDLERS = Handlers[StreamMemory, [RunMoment], None]()
AGENT_RUN_HANDLERS = Handlers[RunMemory, [RunMoment], None]()


@AGENT_STREAM_HANDLERS.of(stored.ExecutionStarted)
def _started(memory: StreamMemory, event: stored.ExecutionStarted, moment: RunMoment) -> None:
    run = run_at(memory, event.ordinal, event.worker, moment)
    _take(run, event.agent)
    run.prices = event.agent.limits.prices
    begin_run(memory, run, moment)


@AGENT_STREAM_HANDLERS.of(stored.SessionForked)
def _forked(memory: StreamMemory, event: stored.SessionForked, moment: RunMoment) -> None:
    run = begin_fork(memory, event, moment)
    if run is not None and event.agent is not None:
        _take(run, event.agent)
        run.prices = event.agent.limits.prices


def _take(run: RunMemory, agent: AgentSnapshot) -> None:
    run.name, run.model, run.fingerprint = plain(agent.name), plain(agent.model.model), plain(agent.fingerprint)
    run.answers = agent.output.name if agent.output is not None else None
    run.kinds_below = {tool.name: tool.runs_children for tool in agent.tools if tool.runs_children is not None}


@AGENT_RUN_HANDLERS.of(stored.ExecutionResumed)
def _resumed(run: RunMemory, event: stored.ExecutionResumed, moment: RunMoment) -> None:
    if event.agent is not None:
        _take(run, event.agent.switched(event.switched))
    if event.limits is not None:
        run.prices = event.limits.prices
    moved = None if event.moved is None else frozenset(event.moved)
    for place, call in enumerate(run.calls):
        below = call.row["child"]
        if is_looked_after(call.phase, below if isinstance(below, str) else None, moved):
            move_call(run, place, event, moment)
    resume_run(run, moment, worker=event.worker, by=event.by, ended_by=event.ended_by)


@AGENT_RUN_HANDLERS.of(stored.ModelSwitched)
def _switched(run: RunMemory, event: stored.ModelSwitched, moment: RunMoment) -> None:
    run.model = plain(event.to_model)


@AGENT_RUN_HANDLERS.of(stored.WaitEnded)
def _wait_ended(run: RunMemory, event: stored.WaitEnded, moment: RunMoment) -> None:
    if run.wait is not None:
        move_call(run, run.wait.position, event, moment)
    end_wait(run, event, moment)


@AGENT_RUN_HANDLERS.of(stored.ExecutionFinished)
def _finished(run: RunMemory, event: stored.ExecutionFinished, moment: RunMoment) -> None:
    close_step(run, moment)
    end_run(run, event, moment)


@AGENT_RUN_HANDLERS.of(stored.UsageRecorded)
def _used(run: RunMemory, event: stored.UsageRecorded, moment: RunMoment) -> None:
    """Count what a hook used. It is written with the next row of the execution."""
    run.own.add(event.usage, event.usage.models)


@AGENT_RUN_HANDLERS.of(stored.ConversationCompacted)
def _compacted(run: RunMemory, event: stored.ConversationCompacted, moment: RunMoment) -> None:
    """Count what a summary used, as what a hook used. The call that was refused is made again in its step."""
    if run.step is not None:
        run.step.error = None
    if event.usage is not None:
        run.own.add(event.usage, event.usage.models)


@AGENT_RUN_HANDLERS.of(stored.MessagesAppended, stored.InferenceRequestAmended, stored.InstructionsResolved)
def _nothing(run: RunMemory, event: Event, moment: RunMoment) -> None:
    """Change nothing: it is content."""
