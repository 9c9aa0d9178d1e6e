"""`decide(state, command)`: the only place where a command from outside is accepted or rejected.

There is one function for each command. A command that comes again after it was accepted yields no events, or is
refused.
"""

from typing import assert_never, cast

from msgspec import structs

from steptrail.domain.agent import events
from steptrail.domain.agent.answers import answer_approval, answer_call, settle
from steptrail.domain.agent.commands import AnswerCall, Approve, Command, Deny, Fork, Resume, Retry, Send, Settle, Start
from steptrail.domain.agent.config import AgentSnapshot, changes_between
from steptrail.domain.agent.events.execution import Override
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.given_history import refuse_disorder
from steptrail.domain.agent.ids import SessionId, execution_id
from steptrail.domain.agent.interruptions import forgone, was_productive
from steptrail.domain.agent.next_calls import paused
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.retrying import why_no_retry
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected
from steptrail.domain.files import refuse_absent_files
from steptrail.domain.instants import seconds_between
from steptrail.domain.kernel.commands import FromOutside, Leave, Pause, Stop, Unpause
from steptrail.domain.messages import Message
from steptrail.domain.shared.keys import said, use_of
from steptrail.domain.shared.run import SegmentEnd, end_of_segment
from steptrail.domain.shared.scores import GiveScore, score_said, scored
from steptrail.domain.shared.state import of_fork
from steptrail.domain.shared.steering import asked_by_leaving, steered
from steptrail.domain.tools import ToolSpec
from steptrail.domain.version import VERSION


def decide(state: AgentState, command: Command) -> tuple[events.AgentEvent, ...]:
    """Return the events that follow from the command; none when the command was accepted before.

    Raises `CommandRejected`, which says what to do instead, when the session cannot take the command in its state, or
    when the key was used for another input or command. Raises `ConfigurationError` for messages that no provider would
    take.
    """
    if isinstance(command, FromOutside) and (key := getattr(command, "key", None)) is not None:
        runs = command.runs if isinstance(command, Start) else None
        use = use_of(state.fold.keys, key, _what(command), runs=runs, command=command.DOING, session=state.agent_id)
        if use is not None:
            return ()
    match command:
        case Start():
            return _start(state, command)
        case Retry():
            return _retry(state, command)
        case Send():
            return _send(state, command)
        case Resume():
            return _resume(state, command)
        case Pause() | Unpause() | Stop():
            was_said_more = state.execution is not None and state.execution.asked_again
            return steered(command, state.agent_id, state, was_said_more=was_said_more)
        case Leave(at=at):
            return _leave(state, at)
        case Settle():
            return settle(state, command)
        case AnswerCall():
            return answer_call(state, command)
        case Approve() | Deny():
            return answer_approval(state, command)
        case GiveScore():
            return scored(command, state.agent_id, state)
        case Fork():
            return _fork(state, command)
    assert_never(command)


def _what(command: FromOutside) -> str:
    """Return the text that identifies the command under its key: a digest of its messages, or the command's name."""
    match command:
        case Start():
            return said(command.input, context=command.context)
        case Send():
            return said(*command.messages, context=command.context)
        case AnswerCall(effect_id=effect):
            return f"answer {effect}"
        case GiveScore():
            return score_said(command)
        case Approve() | Deny():
            return f"{type(command).__name__.lower()} {command.approval_id}"
        case _:
            return type(command).__name__.lower()


def _start(state: AgentState, command: Start) -> tuple[events.AgentEvent, ...]:
    if state.is_open:
        is_same = state.execution is not None and state.execution.input == command.input
        what, goes_on = ("this input without this key", "run") if is_same else ("another input", "resume")
        why = (
            f"execution {state.execution_id} is {state.status.value} and answers {what}: `send` adds this to it, "
            f"`{goes_on}` goes on with it, `stop` ends it"
        )
        raise CommandRejected("run", state.agent_id, why)
    refuse_disorder((command.input,), "`run`")
    refuse_absent_files((*command.history, command.input), "`run`")
    opened: tuple[events.AgentEvent, ...] = ()
    if state.phase is Phase.ABSENT:
        opened = (events.SessionStarted(name=command.agent.name, parent=command.parent, metadata=command.metadata),)
        if command.history:
            opened = (*opened, events.MessagesAppended(messages=command.history, by="history"))
    elif command.new:
        raise CommandRejected("open", state.agent_id, "it exists already: send to it")
    elif command.history:
        raise CommandRejected("begin with a history in", state.agent_id, "it exists, and has one of its own")
    elif changes := {k: v for k, v in command.metadata.items() if k not in state.metadata or state.metadata[k] != v}:
        opened = (events.MetadataChanged(changes=changes, by=command.by),)
    given = command.external_tools
    return (*opened, _execution(state, command, command.agent, input=command.input, external_tools=given))


def _retry(state: AgentState, command: Retry) -> tuple[events.AgentEvent, ...]:
    if (why := why_no_retry(state)) is not None:
        raise CommandRejected("retry", state.agent_id, why)
    given = {"limits": command.limits, "error_policy": command.error_policy}
    changes = {name: value for name, value in given.items() if value is not None}
    overrides = cast("tuple[Override, ...]", tuple(changes))
    snapshot = structs.replace(command.agent, **changes)
    begun = _execution(
        state,
        command,
        snapshot,
        retry_of=state.execution_id,
        reason=command.reason,
        overrides=overrides,
        external_tools=state.external_tools,
    )
    return (begun,)


def _execution(
    state: AgentState,
    command: Start | Retry,
    agent: AgentSnapshot,
    *,
    input: Message | None = None,  # noqa: A002 - the event's own name
    retry_of: str | None = None,
    reason: str | None = None,
    overrides: tuple[Override, ...] = (),
    external_tools: tuple[ToolSpec, ...] = (),
) -> events.ExecutionStarted:
    ordinal = state.fold.executions + 1
    return events.ExecutionStarted(
        execution_id=execution_id(SessionId(state.agent_id), ordinal),
        ordinal=ordinal,
        segment=state.fold.segment + (command.worker is not None),
        worker=command.worker,
        library=VERSION,
        input=input,
        agent=agent,
        key=command.key,
        by=command.by,
        retry_of=retry_of,
        reason=reason,
        overrides=overrides,
        context=command.context,
        external_tools=external_tools,
    )


def _send(state: AgentState, command: Send) -> tuple[events.AgentEvent, ...]:
    if not state.is_open:
        raise CommandRejected("send to", state.agent_id, "no execution is open: start one with this input")
    if command.context is not None and state.execution is not None and command.context != state.execution.context:
        why = (
            f"execution {state.execution_id} is {state.status.value} and has another context: wait for its end, or "
            "replace its context with `resume`"
        )
        raise CommandRejected("send to", state.agent_id, why)
    refuse_disorder(command.messages, "`send`")
    refuse_absent_files(command.messages, "`send`")
    return (events.MessagesAppended(messages=command.messages, by=command.by, key=command.key),)


def _resume(state: AgentState, command: Resume) -> tuple[events.AgentEvent, ...]:
    execution = state.execution
    if execution is None or not state.is_open:
        raise CommandRejected("resume", state.agent_id, "no execution is open: its last one has finished")
    ended_by = command.ended_by or _how_the_segment_ended(state)
    step = state.fold.step
    since = step.clock.since if step is not None and ended_by in {SegmentEnd.CRASH, SegmentEnd.TAKE_OVER} else None
    differs = command.agent.fingerprint != execution.agent.fingerprint
    switched = switches_to_its_model(execution, command.agent) if differs else 0
    return (
        events.ExecutionResumed(
            segment=state.fold.segment + 1,
            worker=command.worker,
            library=VERSION,
            ended_by=ended_by,
            was_productive=was_productive(state, ended_by),
            interrupted_seconds=seconds_between(since, command.last_seen) if since is not None else 0.0,
            agent=command.agent if differs else None,
            switched=switched,
            changes=_changes(execution, command.agent.switched(switched)) if differs else (),
            limits=command.limits,
            error_policy=command.error_policy,
            moved=command.moved,
            by=command.by,
            key=command.key,
            context=command.context if command.context != execution.context else None,
        ),
    )


def _changes(execution: ExecutionFold, agent: AgentSnapshot) -> tuple[str, ...]:
    return changes_between(execution.agent, agent.with_external(execution.external_tools))


def switches_to_its_model(execution: ExecutionFold, agent: AgentSnapshot) -> int:
    """Return which model of an agent the execution goes on with: the one that it asks; the first if there is none."""
    places = [place for place, each in enumerate(agent.models) if each.model == execution.agent.model.model]
    return execution.switched if execution.switched in places else next(iter(places), 0)


def _how_the_segment_ended(state: AgentState) -> SegmentEnd:
    step = state.fold.step
    # A verdict ends the wait, but the clock of the step stays stopped until the next segment.
    waited = state.phase is Phase.WAITING or (step is not None and step.clock.since is None)
    return end_of_segment(state.phase, waited=waited)


def _leave(state: AgentState, at: int) -> tuple[events.AgentEvent, ...]:
    if not state.is_open or state.phase in {Phase.PAUSED, Phase.UNPAUSED}:
        return ()
    requested, by, reason = asked_by_leaving(state.pause_request)
    return (*forgone(state), *requested, paused(state.fold.step, at, by=by, reason=reason))


def why_no_fork(state: AgentState) -> str | None:
    """Return why a session cannot be forked after the events of a state, and where it can be; None when it can."""
    # No step is open in these phases and no wait is going on, so the fork shares no effect that is in flight.
    rests = state.phase in {Phase.PAUSED, Phase.UNPAUSED} and state.fold.resume_to is Phase.BOUNDARY
    if state.phase in {Phase.BOUNDARY, Phase.IDLE} or rests:
        return None
    return f"after {state.version} events it is in {state.phase.value}: fork where a step or an execution has ended"


def _fork(state: AgentState, command: Fork) -> tuple[events.AgentEvent, ...]:
    if (why := why_no_fork(state)) is not None:
        raise CommandRejected("fork", state.agent_id, why)
    return (
        events.SessionForked(
            **of_fork(state, command, session_id=state.agent_id, steps=state.step_count),
            agent=state.execution.agent if state.execution is not None and state.is_open else None,
        ),
    )
