"""Random lives of an agent, made by the machine itself: it is asked what is due, and each effect gets a legal outcome.

Commits, lost appends, commands, crashes and take-overs happen as they do to a runner: an overlay becomes durable before
every effect in the outside world, a crash drops it, and a command that came first leaves only its facts.
"""

from dataclasses import dataclass, field
from itertools import takewhile

import msgspec
from hypothesis import strategies as st
from msgspec import structs

from steptrail.domain.agent.asking import is_asked
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.commands import AnswerCall, Approve, Command, Deny, Fork, Resume, Retry, Settle, Start
from steptrail.domain.agent.compacting import Plan, compacted
from steptrail.domain.agent.conclude import Judges, conclude
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import (
    CallModel,
    Compact,
    Effect,
    JudgeAnswer,
    KeepWaiting,
    Record,
    ResolveInstructions,
    RunCalls,
    RunHooks,
    StartInference,
)
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    InferenceRequestAmended,
    MessagesAppended,
    MetadataChanged,
    SessionForked,
    StepStarted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    UsageRecorded,
)
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.evolve import evolve, evolve_all, initial
from steptrail.domain.agent.interruptions import has_tries_left, restated
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ToolChoice
from steptrail.domain.kernel.event import is_fact, is_world_fact
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.tools import ApprovalRule
from steptrail.runtime.agent.agent import criteria_for
from steptrail.runtime.agent.request import Requests
from steptrail.testing.scenario import SECOND, START
from tests.properties.bills import billed
from tests.properties.drawing import (
    ANYTHING,
    EVENTFUL,
    PAUSE,
    UNFIT,
    UNPAUSE,
    VERDICTS,
    Mix,
    answers_in,
    instructed,
    model_calls,
    summaries,
    tool_calls,
    weighted,
)
from tests.properties.pairs import unpaired

SESSION = "session"
MOST_EFFECTS = 1500
"""Far more than any of these lives needs: with so many the machine goes in circles."""


_DOES_NOT_FIT = ErrorInfo(type=ErrorType.TOOL, error_class="tests:Error", message="it does not fit")
JUDGES = Judges(
    criteria=lambda recorded: criteria_for(recorded, ()),
    are_ours=True,
    failed=ContinuationEvaluation.from_exception,
    requests=Requests(),
    draw=lambda: 0.5,
    unfit=lambda call: _DOES_NOT_FIT if call.arguments == UNFIT else None,
)
"""Who judges in the lives that are drawn."""


@dataclass(repr=False)
class Life:
    """One session on its way, with the two halves of what is known: stored, and about to be."""

    draw: st.DrawFn
    agent: AgentSnapshot
    troubles: int
    mix: Mix = ANYTHING
    forks: bool = False
    now: int = START
    committed: list[Recorded[AgentEvent]] = field(default_factory=list[Recorded[AgentEvent]])
    overlay: list[Recorded[AgentEvent]] = field(default_factory=list[Recorded[AgentEvent]])
    stored: AgentState = field(default_factory=lambda: initial(SESSION))
    state: AgentState = field(default_factory=lambda: initial(SESSION))
    commands: list[tuple[int, Command]] = field(default_factory=list[tuple[int, Command]])
    """Each accepted command and how many events came before it."""

    def __repr__(self) -> str:
        head = f"max_steps={self.agent.limits.max_steps}, hooks={[hook.type for hook in self.agent.hooks]}"
        return f"<Life {head}: {' '.join(record.event.TYPE.removesuffix('.v1') for record in self.committed)}>"

    def states(self) -> list[AgentState]:
        """Return the state at every version, from 0."""
        states = [initial(SESSION)]
        for record in self.committed:
            states.append(evolve(states[-1], record))
        return states

    def tick(self) -> int:
        self.now += self.draw(st.sampled_from([0, 1, 400_000, SECOND, 20 * SECOND]))
        return self.now

    def record(self, *events: AgentEvent) -> None:
        for event in events:
            # A fork is a session of its own: its events are counted from 1 again.
            version = 1 if isinstance(event, SessionForked) else self.state.version + 1
            record = Recorded(version, self.tick(), event)
            self.overlay.append(record)
            self.state = evolve_all(self.state, [record])

    def commit(self) -> None:
        self.committed += self.overlay
        self.overlay, self.stored = [], self.state

    def command(self, command: Command) -> None:
        """Append what a command brings about after what is stored, and put the facts of the overlay on top again."""
        events = [record.event for record in self.overlay]
        lasting = takewhile(lambda event: not isinstance(event, ContinuationEvaluated | StepStarted), events)
        facts = [event for event in lasting if is_fact(event)]
        self.overlay, self.state = [], self.stored
        self.commands.append((len(self.committed), command))
        self.record(*decide(self.state, command))
        self.commit()
        for fact in facts:
            self.record(restated(self.state, fact))

    def resume(self, *, last_seen: int) -> None:
        self.now += self.draw(st.sampled_from(self.mix.pauses)) * SECOND
        changed = self.draw(st.none() | self.mix.limits)
        suspended = [call for call in self.state.tool_executions if call.phase is CallPhase.SUSPENDED]
        resting = [call.below for call in suspended if call.below is not None]
        looked = st.lists(st.sampled_from(resting), min_size=1, unique=True).map(tuple) if resting else st.none()
        moved = self.draw(st.none() | looked)
        self.command(Resume(agent=self.agent, worker="w", last_seen=last_seen, limits=changed, moved=moved))

    def crash(self) -> None:
        """Lose what is not stored, and go on in a new segment; the old worker may still say what its tool did."""
        self.overlay, self.state = [], self.stored
        running = [call for call in self.state.tool_executions if call.status is CallStatus.RUNNING]
        segment, last_seen = self.state.fold.segment, self.state.as_of
        self.resume(last_seen=last_seen)
        for call in running:
            if self.draw(st.booleans()):
                late = ToolExecutionSettledLate(
                    effect_id=call.effect_id or "", attempt=call.attempt, segment=segment, result="late"
                )
                self.record(late)
                self.commit()

    def may_fork(self) -> bool:
        fold = self.stored.fold
        return self.forks and (fold.resume_to if fold.phase is Phase.PAUSED else fold.phase) is Phase.BOUNDARY

    def fork(self) -> None:
        """Leave the session where its last commit stands, and go on in a fork of it."""
        self.overlay, self.state = [], self.stored
        self.command(Fork(by="ana", digest="d"))
        self.forks = False
        if self.state.is_open:
            self.resume(last_seen=self.state.as_of)

    def flush(self) -> bool:
        """Make the overlay durable, unless something comes in between; then the machine must be asked anew."""
        trouble = "none"
        if self.troubles and self.stored.is_open:
            trouble = self.draw(
                st.sampled_from(["none"] * 4 + ["command", "crash before", "crash after", *["fork"] * self.may_fork()])
            )
        if trouble != "none":
            self.troubles -= 1
        match trouble:
            case "command":
                may_unpause = self.stored.pause_request is not None
                results = [self.result_of(call) for call in self.stored.tool_executions if self.may_answer(call)]
                self.command(self.draw(st.sampled_from([*self.mix.commands, *[UNPAUSE] * may_unpause, *results])))
                return False
            case "crash before":
                self.crash()
                return False
            case "fork":
                self.fork()
                return False
            case "crash after":
                self.commit()
                if self.state.is_open:
                    self.crash()
                return False
            case _:
                self.commit()
                return True

    def perform(self, effect: Effect) -> None:
        """Give an effect a legal outcome."""
        concluded = conclude(self.state.at(self.now), effect, self.now, JUDGES)
        self.record(*(concluded or ()))
        if isinstance(effect, StartInference):
            request = JUDGES.requests.build(self.state, self.state.agent or self.agent)
            assert unpaired(request) == [], "no provider takes a call without its result"
        match effect:
            case RunHooks():
                if not any(is_world_fact(record.event) for record in self.overlay) or self.flush():
                    self.hooks(effect)
            case ResolveInstructions(names=names):
                if self.flush():
                    changed = self.draw(instructed(names, self.mix.votes))
                    failed = any(isinstance(event, EvaluationsRecorded) for event in changed)
                    self.record(*changed, *[StepStarted(number=effect.step)] * (not failed))
            case CallModel():
                if self.flush():
                    calls = model_calls(self.mix.replies, stopped=self.state.stop_request is not None)
                    self.record(self.draw(calls))
            case Compact(plan=plan) if plan.summarises:
                if self.flush():
                    self.summarise(plan)
            case JudgeAnswer():
                if self.flush():
                    waiting = [call.position for call in self.state.tool_executions if call.phase is CallPhase.ANSWER]
                    self.record(*self.draw(answers_in(effect.step, waiting)))
            case RunCalls():
                if all(isinstance(event, ToolExecutionStarted) for event in concluded or ()) and self.flush():
                    self.land(effect)
            case KeepWaiting(until=until):
                if self.flush():
                    self.wait(until)
            case _:
                assert concluded is not None

    def summarise(self, plan: Plan) -> None:
        """Let a summary be written, or not; a stop may cut it off, and then nothing comes of it."""
        execution, fold = self.state.execution, self.state.fold
        assert execution is not None
        if self.state.stop_request is None:
            made = self.draw(summaries("tests.summary"))
            self.record(compacted(fold, execution, plan, duration_seconds=1.0, **made))

    def land(self, calls: RunCalls) -> None:
        """Let some of the calls in flight end, or none before the time that was asked for."""
        flying = sorted((*calls.starts, *calls.running))
        assert flying, "an effect that does nothing is due again for ever"
        ended = self.draw(st.lists(st.sampled_from(flying), unique=True).map(sorted))
        if calls.until is not None and not ended:
            self.now = max(self.now, calls.until)
        elif not ended:
            ended = [flying[0]]
        for position in ended:
            self.record(self.judged(self.draw(tool_calls(position))))

    def judged(self, end: AgentEvent) -> AgentEvent:
        """Return how a call ended, with what the machine says that follows."""
        execution = self.state.execution
        assert execution is not None
        match end:
            case ToolExecutionFailed(position=position, may_retry=True):
                call = self.state.tool_executions[position]
                may = has_tries_left(execution, call.name, call.failures + 1)
                return structs.replace(end, may_retry=may)
            case ToolExecutionInterrupted():
                return restated(self.state, end)
            case _:
                return end

    def hooks(self, due: RunHooks) -> None:
        hook, hook_type = f"hook.{due.hook_type}", HookType(due.hook_type)
        changes: list[AgentEvent] = [
            MetadataChanged(changes={"seen": due.step}, by=hook),
            UsageRecorded(hook=hook, usage=self.draw(billed)),
        ]
        if hook_type is not HookType.EXECUTION_END:
            asking = self.draw(st.sampled_from(self.mix.votes))
            vote = ContinuationEvaluation.from_decision(hook, asking)
            phase = "stop" if hook_type is HookType.STOP else "boundary"
            changes.append(msgspec.convert({"phase": phase, "votes": (vote,), "hook": hook}, EvaluationsRecorded))
            said = self.draw(st.sampled_from([Message.user("a hook asks"), Message.system("a hook notes")]))
            changes.append(MessagesAppended(messages=(said,), source=MessageSource.HOOK, by=hook))
        if hook_type is HookType.BEFORE_INFERENCE:
            changes.append(InferenceRequestAmended(hook=hook, tool_choice=ToolChoice.NONE))
        if hook_type is HookType.PRE_TOOL_USE and due.position is not None:
            changes.append(ToolCallAmended(position=due.position, arguments={"n": 2}, hook=hook))
            changes.append(ToolCallBlocked(position=due.position, reason="no", hook=hook))
            changes.append(ToolCallHeld(position=due.position, rule=ApprovalRule(), hook=hook))
        chosen = self.draw(st.lists(st.sampled_from(changes), max_size=self.mix.hook_changes, unique_by=type))
        votes = [vote for event in chosen if isinstance(event, EvaluationsRecorded) for vote in event.votes]
        mark = HooksRan(
            hook_type=due.hook_type,
            step=due.step,
            position=due.position,
            hooks=(hook,),
            forbidden_by=hook if any(vote.decision is ContinuationDecision.FORBID for vote in votes) else None,
        )
        self.record(*chosen, mark)

    def wait(self, until: int | None) -> None:
        """Sit the wait out, or let the process end and come back later; a person settles what is parked."""
        if until is not None and not self.draw(st.sampled_from(self.mix.comes_back)):
            self.now = max(self.now, until)
            return
        parked = [call for call in self.state.tool_executions if call.phase is CallPhase.PARKED]
        last_seen = self.state.as_of
        answers = self.draw(st.sampled_from(self.mix.answers))
        open_ones = [call for call in self.state.tool_executions if is_asked(call)]
        if answers and open_ones:
            self.now += self.draw(st.sampled_from(self.mix.pauses)) * SECOND
            chosen = st.lists(st.sampled_from(open_ones), min_size=1, unique_by=lambda each: each.position)
            for call in self.draw(chosen):
                if (asked := call.open_approval) is not None:
                    self.answer(asked)
                elif self.may_answer(call):
                    self.command(self.result_of(call))
            last_seen = self.state.as_of
        if parked:
            if self.draw(st.booleans()):
                self.command(PAUSE)
                self.run_until_a_command_is_needed()
            # Of a call that the run does not ask about yet, such as beside an approval, one may only say how it ended.
            wait = self.state.execution.wait if self.state.execution is not None else None
            is_asked_about = wait is not None and (wait.kind, wait.position) == ("unknown_outcome", parked[0].position)
            verdict = self.draw(st.sampled_from(VERDICTS if is_asked_about else VERDICTS[:2]))
            self.command(Settle(effect_id=parked[0].effect_id or "", by="ana", verdict=verdict))
            last_seen = self.state.as_of
        self.resume(last_seen=last_seen)

    def may_answer(self, call: ToolExecution) -> bool:
        """Tell whether somebody is asked for the result of a call, and there is still time."""
        return call.open_deferral is not None and self.now < call.open_deferral.expires_at

    def result_of(self, call: ToolExecution) -> Command:
        """Return an answer to an external call."""
        error = self.draw(st.sampled_from([None, None, "it failed"]))
        effect, at = call.effect_id or "", self.now
        return AnswerCall(effect_id=effect, by="ana", at=at, result="done", error=error, key=f"result-{effect}")

    def answer(self, asked: Approval) -> None:
        """Let a person answer, if there is still time."""
        if self.now >= asked.expires_at:
            return
        key = f"answer-{asked.id}"
        yes = Approve(approval_id=asked.id, by="ana", at=self.now, key=key)
        edited = Approve(approval_id=asked.id, by="ana", at=self.now, key=key, arguments={"n": 3})
        no = Deny(approval_id=asked.id, by="ana", at=self.now, key=key)
        answers: tuple[Command, ...] = (yes, edited, no)
        self.command(self.draw(st.sampled_from(answers)))

    def run_until_a_command_is_needed(self) -> None:
        """Record the pause that was just asked for."""
        (effect,) = next_effects(self.state, self.now)
        assert isinstance(effect, Record)
        self.record(*effect.events)
        self.commit()

    def live(self) -> None:
        """Answer one input to its end, or what came to no answer once more."""
        key = f"key-{self.state.fold.executions + 1}"
        if can_be_retried(self.state) and self.draw(st.booleans()):
            self.command(Retry(agent=self.agent, worker="w", by="ana", key=key))
        else:
            worker = self.draw(st.sampled_from(["w", "w", None]))
            self.command(Start(input=Message.user("go"), agent=self.agent, worker=worker, key=key))
        for _ in range(MOST_EFFECTS):
            effects = next_effects(self.state, self.now)
            if effects:
                self.perform(effects[0])
            elif not self.flush():
                continue
            elif self.state.is_open:
                assert self.state.phase in {Phase.PAUSED, Phase.PENDING}
                if self.state.phase is Phase.PAUSED and self.draw(st.booleans()):
                    self.command(UNPAUSE)
                    assert (self.state.phase, next_effects(self.state, self.now)) == (Phase.UNPAUSED, ())
                self.resume(last_seen=self.state.as_of)
            else:
                return
        raise AssertionError(f"after {MOST_EFFECTS} effects the machine is in {self.state!r}")


@st.composite
def _lives(draw: st.DrawFn, mix: Mix, *, executions: int, forks: bool) -> Life:
    life = Life(draw, draw(mix.snapshots), troubles=draw(st.sampled_from([4, 3, 2, 1, 0])), mix=mix, forks=forks)
    for _ in range(draw(st.integers(1, executions))):
        if life.committed and life.forks and draw(st.booleans()):
            life.fork()
        life.live()
    return life


def eventful_lives(executions: int = 1, *, forks: bool = False) -> st.SearchStrategy[Life]:
    """Return a session in which much happens: calls side by side that are asked about, retried, blocked and amended."""
    return _lives(EVENTFUL, executions=executions, forks=forks)


def lives(executions: int = 2, *, forks: bool = False) -> st.SearchStrategy[Life]:
    """Return a session after one or more inputs, each answered to its end, whatever came in between.

    With `forks` it may go on in a fork of itself on the way: its events are the history of the fork, and those of the
    fork alone are counted from 1.
    """
    anything = _lives(ANYTHING, executions=executions, forks=forks)
    return weighted(anything, eventful_lives(forks=forks))
