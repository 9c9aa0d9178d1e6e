"""The commands to one stream of a workflow, from any process: run, resume, retry, and answers that a schema judges.

`StreamControl` owns the stream, drives it, and takes all other commands. This module decides which execution a command
is about.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from steptrail.domain.errors import CommandRejected, ConfigurationError, SessionBusy, stream_name
from steptrail.domain.flow.answers import open_question
from steptrail.domain.flow.commands import (
    AnswerQuestion,
    AnswerStep,
    Brought,
    FlowCommand,
    ResumeFlow,
    RetryFlow,
    SettleNode,
    StartFlow,
)
from steptrail.domain.flow.decide import decide, said_by, was_accepted
from steptrail.domain.flow.events import FlowEvent, HumanAnswered, HumanRequested, StepAnswered, StepHeld
from steptrail.domain.flow.ids import flow_stream, node_asked_in
from steptrail.domain.flow.kinds.people import PersonsAnswer, wrong_in
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.lacking import lacking
from steptrail.domain.flow.nodes import HumanNode
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.said import said
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.commands import OwnersCommand
from steptrail.domain.kernel.given import a_flag
from steptrail.domain.shared.run import SegmentEnd
from steptrail.runtime.flow.kind import OnFlowCommit, run_stream
from steptrail.runtime.flow.means import WITHOUT, FlowMeans
from steptrail.runtime.flow.performer import FlowRunner
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.verdicts import VERDICTS, verdict_on
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.below import LookBelow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.first_answers import answered_once
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.segment import Segment


def a_flow(given: object) -> BuiltWorkflow:
    """Return `given`, which must be a built workflow. Raises `ConfigurationError` for anything else."""
    if isinstance(given, BuiltWorkflow):
        return given
    hint = ": `.build()` makes one of it" if hasattr(given, "build") else ""
    raise ConfigurationError(f"what runs is a built workflow, not {type(given).__name__}{hint}")


def brought(flow: BuiltWorkflow) -> Brought:
    """Return what is recorded of a workflow."""
    return Brought(definition=flow.definition, text=flow.text, digest=flow.digest, locator=flow.locator, use=flow.use)


class FlowControl:
    """The commands to one stream of a workflow. Keeps no connection and no lease between two calls."""

    def __init__(
        self,
        environment: Environment,
        flow_id: str,
        means: FlowMeans = WITHOUT,
        on_commit: OnFlowCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        self._env, self._means = environment, means
        self.stream = run_stream(environment, flow_stream(flow_id), means, on_commit, on_update)

    async def run(self, flow: BuiltWorkflow, start: StartFlow) -> FlowResult:
        """Start an execution, go on with the one that has this input, or return where that one ended or waits.

        An execution is found again if it is the newest and has the same input, or if it came with the same key. Raises
        `CommandRejected` while another input is being answered, and `SessionBusy` while another process runs this one.
        """

        def begin(state: FlowState, took_over: bool) -> Sequence[FlowCommand | OwnersCommand]:
            if not _is_answered_by(state, start):
                return (start,)
            new_key = None if start.key in state.fold.keys else start.key
            if not state.is_open or (new_key is None and self.only_waits(state)):
                return ()
            moved = below.of(state.version)
            return (ResumeFlow(worker=self._env.worker, flow=start.flow, moved=moved, by=start.by, key=new_key),)

        journal = await self.stream.journal()
        if start.key is not None:
            was_accepted(journal.committed, start)  # refuses the key of another input or workflow
        below = await self._look_below(journal.committed)
        performed = partial(FlowRunner, flow, self._means)
        while True:
            before = journal.committed.version
            try:
                state = await self.stream.own(begin, performed, key=start.key, journal=journal)
                return FlowResult(state, stored=state.version <= before and not state.is_open)
            except SessionBusy:
                journal = await journal.reloaded()
                state = journal.committed
                for command in begin(state, False):
                    self.stream.machine.decide(state, command)  # says no if it is busy with another input
                if state.is_open or state.version == before:
                    raise

    async def start(self, start: StartFlow) -> FlowState:
        """Store that an execution is to be run, and run nothing: a worker begins with it. Safe to repeat like `run`.

        Raises `CommandRejected` as `run` does, and for the input of an open execution under a key that is new to it:
        nothing is stored that could keep that key.
        """

        def command_for(state: FlowState) -> FlowCommand | None:
            has_key = start.key is None or start.key in state.fold.keys
            return None if _is_answered_by(state, start) and has_key else start

        return await self.stream.append_until(command_for)

    async def resume(
        self,
        flow: BuiltWorkflow,
        *,
        take_over: bool = False,
        strict: bool = False,
        options: RunOptions | None = None,
        by: str = "user",
        obeys_pause: bool = False,
    ) -> FlowResult:
        """Go on with the open execution. One that has ended, or would only wait again, is returned as it is.

        With `obeys_pause`, for workers, a pause that a person asked for is not lifted but carried out, and a run that
        may come to a node whose code this version of the workflow lacks is refused: it would fail there.
        """
        a_flag(take_over, "`take_over`")
        a_flag(strict, "`strict`")
        # What is given is refused before it is known whether there is anything to go on with.
        reopening = ResumeFlow(worker=self._env.worker, flow=brought(flow), options=options, strict=strict, by=by)

        def begin(state: FlowState, took_over: bool) -> Sequence[FlowCommand | OwnersCommand]:
            if obeys_pause and not _only_ends(state) and (why := lacks_code_for(state, flow)) is not None:
                raise CommandRejected("resume", self.stream.stream, why)
            if state.run is None or not state.is_open:
                return ()
            is_said = options is not None and options != state.run.options
            if not took_over and not is_said and self.only_waits(state):
                decide(state, reopening)  # says no also where there is nothing to do
                return ()
            ended_by = SegmentEnd.TAKE_OVER if took_over else None
            return (replace(reopening, ended_by=ended_by, moved=below.of(state.version)),)

        def performed(segment: Segment[FlowState, FlowEvent]) -> FlowRunner:
            # What only ends here may go on after all, if the request for its pause is withdrawn first.
            lacks = obeys_pause and lacks_code_for(segment.journal.committed, flow) is not None
            return FlowRunner(None if lacks else flow, self._means, segment)

        journal = await self.stream.existing()
        below = await self._look_below(journal.committed)
        state = await self.stream.own(begin, performed, take_over=take_over, journal=journal, obeys_pause=obeys_pause)
        return FlowResult(state)

    async def _look_below(self, state: FlowState) -> LookBelow:
        # Of a run that is over nothing goes on, and nobody has to look.
        tasks = state.tasks if state.is_open else ()
        resting = [task.stream for task in tasks if task.phase is TaskPhase.SUSPENDED and task.stream is not None]
        segment = self.stream.machine.segment(state) + 1
        return await LookBelow.at(self._env, resting, version=state.version, segment=segment)

    def only_waits(self, state: FlowState) -> bool:
        """Tell whether the run waits for something that has not come, so that to resume it would change nothing."""
        # What is stored has come, also where the clock of whoever stored it is fast.
        stands, now = self.stream.machine.control.standing(state), max(self._env.clock.utc(), state.as_of)
        children = any(wait.on is not None for wait in stands.waits)
        return stands.state.value == "resting" and not stands.is_due(now) and not children

    async def retry(self, flow: BuiltWorkflow, command: RetryFlow) -> FlowResult:
        """Let a run that failed or was stopped go on where it was.

        Raises `CommandRejected` for any other run, and `SessionBusy` when another process retries it at the same time.
        """
        journal, performed = await self.stream.existing(), partial(FlowRunner, flow, self._means)
        seen = journal.committed.fold.executions
        decide(journal.committed, command)  # says no before anything is locked

        def begin(state: FlowState, took_over: bool) -> Sequence[FlowCommand | OwnersCommand]:
            if state.fold.executions != seen and not was_accepted(state, command):
                raise SessionBusy(stream_name(self.stream.stream))  # what was to be retried is no longer the last one
            return (command,)

        return FlowResult(await self.stream.own(begin, performed, key=command.key, journal=journal))

    async def answer_step(self, command: AnswerStep) -> FlowResult:
        """Store what a person says of a visit that is held. Raises `CommandRejected` when none is."""

        def said(event: StepHeld | StepAnswered) -> str | None:
            if event.node != command.node:
                return None
            return f'said "{event.action}" to' if isinstance(event, StepAnswered) else ""

        return await self._once(self.stream.tell(command), (StepHeld.TYPE, StepAnswered.TYPE), said)

    async def settle(self, command: SettleNode) -> FlowResult:
        """Store a verdict on a node in doubt. Raises `CommandRejected` when nobody waits for one."""
        return await self._once(self.stream.tell(command), VERDICTS, verdict_on(command.effect_id))

    async def answer(self, command: AnswerQuestion) -> FlowResult:
        """Store the answer to a human node. Raises `CommandRejected` for one that does not fit the question."""

        def said(event: HumanRequested | HumanAnswered) -> str | None:
            if command.to not in {event.request_id, node_asked_in(event.request_id)}:
                return None
            return "answered" if isinstance(event, HumanAnswered) else ""

        return await self._once(self._answer(command), (HumanRequested.TYPE, HumanAnswered.TYPE), said)

    async def _once(
        self, answering: Awaitable[FlowState], types: Sequence[str], said: Callable[[Any], str | None]
    ) -> FlowResult:
        return FlowResult(await answered_once(answering, self._env.store, self.stream.stream, types, said))

    async def _answer(self, command: AnswerQuestion) -> FlowState:
        state = (await self.stream.existing()).committed
        if command.key is None or command.key not in state.fold.keys:
            node = state.at_work().graph.node(open_question(state, command.to).node)
            given = PersonsAnswer(
                choice=command.choice, approved=command.approved, data=command.data, notes=command.notes
            )
            try:
                why = wrong_in(given, node, self._means.schemas) if isinstance(node, HumanNode) else None
            except NodeFault as fault:
                # A schema may show only with some values that it refers to another one.
                why = fault.message
            if why is not None:
                raise CommandRejected("answer", state.stream_id, why)
        return await self.stream.tell(command)


def lacks_code_for(state: FlowState, flow: BuiltWorkflow) -> str | None:
    """Return why this version of a workflow cannot do what a run of another may still come to; None where it can."""
    run = state.run
    if run is None or run.started.digest == flow.digest:
        return None
    if not (gone := lacking(run, flow.definition, flow.functions)):
        return None
    return (
        f"it was begun with another version of {flow.name!r}, and this one lacks what its node {gone[0]!r} calls: "
        "give a worker that version too"
    )


def _only_ends(state: FlowState) -> bool:
    """Tell whether all that a worker may do is to pause or stop the run, which any version of the workflow can."""
    pause = state.pause_request
    return not state.is_open or state.stop_request is not None or (pause is not None and pause.is_by_person)


def _is_answered_by(state: FlowState, start: StartFlow) -> bool:
    """Tell whether the newest execution is the one that was asked for: it has this input, and is open or has no key."""
    has_input = state.run is not None and said(state.run.started) == said_by(state, start)
    return has_input and (state.is_open or start.key is None)
