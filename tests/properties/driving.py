"""Random lives of an agent, made by the machine itself: it is asked what is due, and each effect gets a legal outcome.

Commits, lost appends, commands, crashes and take-overs happen as they do to a runner: an overlay becomes durable before
every effect in the outside world, a crash drops it, and a command that came first leaves only its facts.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import takewhile
from typing import Literal, TypeVar, get_args

from hypothesis import strategies as st

from steptrail.domain.agent.commands import Approve, Command, Deny, Pause, Resume, Send, Settle, Start, Stop
from steptrail.domain.agent.config import AgentSnapshot, HookSpec, LimitName, Limits
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.deciding import decided
from steptrail.domain.agent.effects import (
    CallModel,
    Effect,
    ExecuteCalls,
    Record,
    RunHooks,
    ScheduleRetry,
    ScheduleToolRetry,
    StartCall,
    StartInference,
    TakeDecision,
    Wait,
)
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceRequestAmended,
    InferenceStarted,
    MessagesAppended,
    MetadataChanged,
    RetryScheduled,
    StepStarted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
)
from steptrail.domain.agent.evolve import evolve, evolve_all, initial
from steptrail.domain.agent.facts import is_fact, is_world_fact
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import Approval, CallStatus
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply
from steptrail.domain.messages import Message, TextPart, ToolCallPart
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import PriceTable
from steptrail.domain.record import Recorded
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.runtime.agent import criteria_for
from steptrail.testing.scenario import SECOND, START
from tests.properties.bills import billed, usage

T = TypeVar("T")

SESSION = "session"
MOST_EFFECTS = 1500
"""Far more than any of these lives needs: with so many the machine goes in circles."""


def weighted(*strategies: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """Choose among strategies; one that is named twice is chosen twice as often, which `one_of` would not do."""
    return st.sampled_from(strategies).flatmap(lambda chosen: chosen)


def rarely(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return weighted(*[st.none()] * 7, strategy)


PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
limits = st.builds(
    Limits,
    max_steps=st.sampled_from([4, 4, 3, 3, 2, 2, 1, 0]),
    max_tokens=rarely(st.integers(0, 60)),
    timeout=rarely(st.integers(1, 200).map(float)),
    cumulative_timeout=rarely(st.integers(1, 60).map(float)),
    finish_reasons=st.sampled_from([(), (FinishReason.OTHER,)]),
    max_unproductive_segments=st.integers(1, 3),
    max_concurrent_tools=st.sampled_from([8, 8, 2, 1]),
    max_tool_calls=rarely(st.integers(0, 4)),
    max_input_tokens=rarely(st.integers(0, 40)),
    max_output_tokens=rarely(st.integers(0, 40)),
    prices=st.just(PRICES),
    max_cost=rarely(st.integers(0, 90).map(lambda micros: Decimal(micros).scaleb(-6))),
    unpriced=st.sampled_from(["fail_closed", "warn", "ignore"]),
    shadow=st.lists(st.sampled_from(get_args(LimitName)), max_size=2).map(tuple),
)
backoffs = st.sampled_from([Backoff.none(), Backoff.linear(5.0), Backoff.exponential(2.0)])


def policy_of(preset: ErrorPolicy, backoff: Backoff, most: int) -> ErrorPolicy:
    return preset.with_backoff(backoff).with_max_retries(most)


presets = st.sampled_from([ErrorPolicy.ignore_tool_errors(), ErrorPolicy.retry_all(), ErrorPolicy.stop_on_any_error()])
policies = st.builds(policy_of, presets, backoffs, st.integers(0, 3))
effects, on_unknown = st.sampled_from(ToolEffect), st.sampled_from([*OnUnknown, OnUnknown.PARK])
retries = st.builds(ToolRetry, attempts=st.integers(1, 3), backoff=backoffs)
rules = st.builds(ApprovalRule, expires=st.sampled_from([1.0, 3600.0]))
tools = st.tuples(
    *[
        st.builds(
            ToolSpec,
            name=st.just(name),
            effect=effects,
            on_unknown=on_unknown,
            approval=rarely(rules),
            concurrent=st.sampled_from([None, True, True, False]),
            retry=st.none() | retries,
            max_calls=rarely(st.integers(0, 2)),
        )
        for name in "ab"
    ]
)
snapshots = st.builds(
    AgentSnapshot,
    name=st.just("random"),
    model=st.just(ModelInfo(driver="scripted", model="scripted")),
    fingerprint=st.sampled_from(["f1", "f2"]),
    tools=tools,
    limits=limits,
    error_policy=policies,
    hooks=st.lists(st.sampled_from(HookType), max_size=3, unique=True).map(
        lambda types: tuple(HookSpec(name=f"hook.{each}", type=each) for each in types)
    ),
)
errors = st.builds(
    ErrorInfo,
    type=st.sampled_from(ErrorType),
    error_class=st.just("tests:Error"),
    message=st.just("it failed"),
    retryable=st.booleans(),
    retry_after=st.none() | st.integers(0, 20).map(float),
)
calls = st.builds(
    ToolCallPart,
    id=st.sampled_from(["1", "2", "3"]),
    name=st.sampled_from(["a", "b", "a", "b", "unknown"]),
    arguments=st.none() | st.just({"n": 1}),
)
answered_by = st.sampled_from([None, None, "scripted", "scripted-2", "unheard-of"])
answers = st.builds(
    ModelReply,
    parts=st.sampled_from([(TextPart(text="done"),), ()]),
    finish_reason=st.sampled_from([FinishReason.STOP] * 5 + [*FinishReason]),
    usage=usage,
    response_model=answered_by,
)
requests = st.builds(
    ModelReply,
    parts=st.lists(calls, min_size=1, max_size=3).map(tuple),
    finish_reason=st.sampled_from([FinishReason.TOOL_CALLS] * 12 + [*FinishReason]),
    usage=usage,
    response_model=answered_by,
)
replies = weighted(requests, requests, answers)
results = st.sampled_from(["ok", None, 7, {"rows": [1, 2]}])
TOOK = st.just(1.0)
pauses = st.sampled_from([0, 1, 3600, 7 * 86_400])
"""Seconds between two segments."""


def model_calls(*, stopped: bool) -> st.SearchStrategy[AgentEvent]:
    """Return how a model call may end."""
    completed: st.SearchStrategy[AgentEvent] = st.builds(InferenceCompleted, reply=replies, duration_seconds=TOOK)
    failed: st.SearchStrategy[AgentEvent] = st.builds(InferenceFailed, error=errors, duration_seconds=TOOK)
    cut: st.SearchStrategy[AgentEvent] = st.just(InferenceInterrupted(reason="stop"))
    return weighted(*[completed] * 5, failed, *[cut] * stopped)


def tool_calls(position: int) -> st.SearchStrategy[AgentEvent]:
    """Return how a tool execution may end."""
    at = st.just(position)
    completed: st.SearchStrategy[AgentEvent] = st.builds(ToolExecutionCompleted, position=at, result=results)
    failed: st.SearchStrategy[AgentEvent] = st.builds(
        ToolExecutionFailed, position=at, error=errors, may_retry=st.booleans()
    )
    cut: st.SearchStrategy[AgentEvent] = st.just(ToolExecutionInterrupted(position=position, reason="timeout"))
    suspended: st.SearchStrategy[AgentEvent] = st.builds(
        ToolExecutionSuspended,
        position=at,
        session=st.just("child"),
        reason=st.just("waits"),
        until=rarely(st.just(START + 3600 * SECOND)),
        usage=rarely(billed),
    )
    return weighted(*[completed] * 4, *[failed] * 2, *[cut] * 2, suspended)


@dataclass(repr=False)
class Life:
    """One session on its way, with the two halves of what is known: stored, and about to be."""

    draw: st.DrawFn
    agent: AgentSnapshot
    troubles: int
    now: int = START
    committed: list[Recorded[AgentEvent]] = field(default_factory=list[Recorded[AgentEvent]])
    overlay: list[Recorded[AgentEvent]] = field(default_factory=list[Recorded[AgentEvent]])
    stored: AgentState = field(default_factory=lambda: initial(SESSION))
    state: AgentState = field(default_factory=lambda: initial(SESSION))
    commands: list[tuple[int, Command]] = field(default_factory=list[tuple[int, Command]])
    """Each accepted command and the version it was accepted at."""

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
            record = Recorded(self.state.version + 1, self.tick(), event)
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
        self.commands.append((self.state.version, command))
        self.record(*decide(self.state, command))
        self.commit()
        self.record(*facts)

    def resume(self, *, last_seen: int) -> None:
        self.now += self.draw(pauses) * SECOND
        changed = self.draw(st.none() | limits)
        self.command(Resume(agent=self.agent, worker="w", last_seen=last_seen, limits=changed))

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

    def flush(self) -> bool:
        """Make the overlay durable, unless something comes in between; then the machine must be asked anew."""
        trouble = "none"
        if self.troubles and self.stored.is_open:
            trouble = self.draw(st.sampled_from(["none"] * 4 + ["command", "crash before", "crash after"]))
        if trouble != "none":
            self.troubles -= 1
        match trouble:
            case "command":
                self.command(self.draw(st.sampled_from(COMMANDS)))
                return False
            case "crash before":
                self.crash()
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
        draw = self.draw
        match effect:
            case Record(events=events):
                self.record(*events)
            case TakeDecision():
                self.decide(effect)
            case ScheduleRetry():
                self.schedule(effect)
            case RunHooks():
                if not any(is_world_fact(record.event) for record in self.overlay) or self.flush():
                    self.hooks(effect)
            case StartInference(step=step, attempt=attempt):
                self.record(
                    InferenceStarted(step=step, attempt=attempt, model="m", request_digest="d", message_count=1)
                )
            case CallModel():
                if self.flush():
                    self.record(draw(model_calls(stopped=self.state.stop_request is not None)))
            case StartCall(position=position):
                self.start_call(position)
            case ScheduleToolRetry(position=position):
                self.schedule_call(position)
            case ExecuteCalls():
                if self.flush():
                    self.land(effect)
            case Wait(until=until):
                if self.flush():
                    self.wait(until)

    def decide(self, due: TakeDecision) -> None:
        recorded = self.state.agent
        assert recorded is not None
        if due.phase != "stop":
            criteria = criteria_for(recorded, ())
            asked = criteria.guards() if due.phase == "resume" else criteria
            now = self.state.at(self.now)
            votes = asked.votes(now if due.until is None else now.after_waiting(due.until))
            self.record(EvaluationsRecorded(phase=due.phase, votes=votes))
        self.record(decided(self.state, due))

    def schedule(self, retry: ScheduleRetry) -> None:
        recorded = self.state.agent
        assert recorded is not None
        delay = recorded.error_policy.backoff.delay(retry.failures, 0.5, retry.retry_after)
        due = self.now + round(delay * 1e6)
        self.record(
            RetryScheduled(error_type=retry.error_type, failures=retry.failures, delay_seconds=delay, due_at=due)
        )

    def schedule_call(self, position: int) -> None:
        call = self.state.tool_executions[position]
        spec = self.agent.tool(call.name)
        assert spec is not None
        assert spec.retry is not None
        delay = spec.retry.backoff.delay(call.failures, 0.5)
        due = self.now + round(delay * 1e6)
        self.record(ToolRetryScheduled(position=position, failures=call.failures, delay_seconds=delay, due_at=due))

    def land(self, calls: ExecuteCalls) -> None:
        """Let some of the calls in flight end, or none before the time that was asked for."""
        ended = self.draw(st.lists(st.sampled_from(calls.positions), unique=True).map(sorted))
        if calls.until is not None and not ended:
            self.now = max(self.now, calls.until)
        elif not ended:
            ended = [calls.positions[0]]
        for position in ended:
            self.record(self.draw(tool_calls(position)))

    def start_call(self, position: int) -> None:
        call = self.state.tool_executions[position]
        spec = self.agent.tool(call.name)
        if spec is None:
            error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:UnknownTool", message="there is no such tool")
            self.record(ToolExecutionFailed(position=position, error=error))
            return
        self.record(
            ToolExecutionStarted(
                position=position,
                call_id=call.call.id,
                tool=call.name,
                effect_id=f"{self.state.execution_id}:{self.state.open_step}:{position}",
                effect=spec.effect,
                attempt=call.attempt + 1,
                arguments_digest="d",
            )
        )

    def hooks(self, due: RunHooks) -> None:
        hook, hook_type = f"hook.{due.hook_type}", HookType(due.hook_type)
        changes: list[AgentEvent] = [MetadataChanged(changes={"seen": due.step}, by=hook)]
        if hook_type is not HookType.EXECUTION_END:
            asking = self.draw(st.sampled_from(ContinuationDecision))
            vote = ContinuationEvaluation.from_decision(hook, asking)
            phase = "stop" if hook_type is HookType.STOP else "boundary"
            changes.append(EvaluationsRecorded.model_validate({"phase": phase, "votes": (vote,), "hook": hook}))
            said = self.draw(st.sampled_from([Message.user("a hook asks"), Message.system("a hook notes")]))
            changes.append(MessagesAppended(messages=(said,), source="hook", by=hook))
        if hook_type is HookType.BEFORE_INFERENCE:
            changes.append(InferenceRequestAmended(hook=hook, tool_choice="none"))
        if hook_type is HookType.PRE_TOOL_USE and due.position is not None:
            changes.append(ToolCallAmended(position=due.position, arguments={"n": 2}, hook=hook))
            changes.append(ToolCallBlocked(position=due.position, reason="no", hook=hook))
            changes.append(ToolCallHeld(position=due.position, rule=ApprovalRule(), hook=hook))
        chosen = self.draw(st.lists(st.sampled_from(changes), max_size=2, unique_by=type))
        self.record(*chosen, HooksRan(hook_type=due.hook_type, step=due.step, position=due.position, hooks=(hook,)))

    def wait(self, until: int | None) -> None:
        """Sit the wait out, or let the process end and come back later; a person settles what is parked."""
        if until is not None and self.draw(st.booleans()):
            self.now = max(self.now, until)
            return
        parked = [call for call in self.state.tool_executions if call.parked]
        last_seen = self.state.as_of
        answers: bool = self.draw(st.booleans())
        if answers and self.state.open_approvals:
            self.now += self.draw(pauses) * SECOND
            self.answer(self.state.open_approvals[0])
            last_seen = self.state.as_of
        if parked:
            verdict = self.draw(st.sampled_from(VERDICTS))
            if self.draw(st.booleans()):
                self.command(PAUSE)
                self.run_until_a_command_is_needed()
            self.command(Settle(effect_id=parked[0].effect_id or "", by="ana", verdict=verdict))
            last_seen = self.state.as_of
        self.resume(last_seen=last_seen)

    def answer(self, asked: Approval) -> None:
        """Let a person answer, if there is still time."""
        if self.now >= asked.expires_at:
            return
        yes = Approve(approval_id=asked.id, by="ana", at=self.now)
        edited = Approve(approval_id=asked.id, by="ana", at=self.now, arguments={"n": 3})
        answers: tuple[Command, ...] = (yes, edited, Deny(approval_id=asked.id, by="ana", at=self.now))
        self.command(self.draw(st.sampled_from(answers)))

    def run_until_a_command_is_needed(self) -> None:
        """Record the pause that was just asked for."""
        (effect,) = next_effects(self.state, self.now)
        assert isinstance(effect, Record)
        self.record(*effect.events)
        self.commit()

    def live(self) -> None:
        """Answer one input to its end."""
        ordinal = self.state.fold.executions + 1
        start = Start(input=Message.user("go"), agent=self.agent, worker="w", key=f"key-{ordinal}")
        self.command(start)
        for _ in range(MOST_EFFECTS):
            effects = next_effects(self.state, self.now)
            if effects:
                self.perform(effects[0])
            elif not self.flush():
                continue
            elif self.state.is_open:
                assert self.state.phase is Phase.PAUSED
                self.resume(last_seen=self.state.as_of)
            else:
                return
        raise AssertionError(f"after {MOST_EFFECTS} effects the machine is in {self.state!r}")


VERDICTS: tuple[Literal["completed", "failed", "rerun", "tell"], ...] = ("completed", "failed", "rerun", "tell")
PAUSE = Pause(by="ana")
STOP = Stop(by="ana")
SEND = Send(messages=(Message.user("and this?"),))
COMMANDS: tuple[Command, ...] = (PAUSE, STOP, SEND)


@st.composite
def lives(draw: st.DrawFn, executions: int = 2) -> Life:
    """Return a session after one or more inputs, each answered to its end, whatever came in between."""
    life = Life(draw, draw(snapshots), troubles=draw(st.sampled_from([4, 3, 2, 1, 0])))
    for _ in range(draw(st.integers(1, executions))):
        life.live()
    return life
