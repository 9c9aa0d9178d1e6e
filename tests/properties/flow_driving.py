"""Random lives of runs of workflows, made by the machine itself: each effect that it asks for gets a legal outcome.

Commits, lost appends, answers of people, commands and crashes happen as they do to a runner: an overlay becomes durable
before every effect in the outside world, a crash drops it, and a command that came first leaves only its facts.
"""

from dataclasses import dataclass, field
from itertools import takewhile

from hypothesis import strategies as st
from msgspec import structs

from steptrail.domain.digests import digest_of
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
from steptrail.domain.flow.concluding import time_left_us
from steptrail.domain.flow.cutting import interrupted
from steptrail.domain.flow.decide import why_no_fork, why_no_retry
from steptrail.domain.flow.definition import FlowDefinition, definition_text
from steptrail.domain.flow.effects import (
    Ask,
    Await,
    CutOff,
    Evaluate,
    FlowEffect,
    RecordEvents,
    RestUntil,
    ScheduleNodeRetry,
    StartTasks,
)
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptSettledLate,
    NodeAttemptStarted,
    NodeAttemptSuspended,
    NodeRetryScheduled,
)
from steptrail.domain.flow.failing import stream_kind, working_node
from steptrail.domain.flow.ids import effect_id
from steptrail.domain.flow.keeping import kept_result
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.nodes import HumanNode, LlmRouterNode, MapNode
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.policies import CACHEABLE, FailureClass
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskKey, TaskPhase, of_try
from steptrail.domain.flow.waits import stays_for, waiting_until
from steptrail.domain.kernel.commands import Pause, Stop, Unpause
from steptrail.domain.kernel.event import begins_anew, is_fact
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.scores import GiveScore
from steptrail.runtime.flow.asking import question
from steptrail.runtime.flow.evaluating import evaluated
from steptrail.runtime.flow.failure_class import faulty
from steptrail.runtime.flow.means import WITHOUT
from steptrail.testing.scenario import SECOND, START
from tests.properties.flow_drawing import ITEMS, effect_of, options, tried, worked_flows

FLOW_ID = "f"
_MOST_EFFECTS = 1500
"""Far more than any of these lives needs: with so many the machine goes in circles."""


@dataclass(repr=False)
class FlowLife:
    """One stream on its way, with the two halves of what is known: stored, and about to be.

    `troubles` is how often something may come in between, and `delays` how often a stream below may rest, or a person
    may have a try made again: else a life need not end.
    """

    draw: st.DrawFn
    flow: FlowDefinition
    troubles: int
    delays: int = 3
    now: int = START
    committed: list[Recorded[FlowEvent]] = field(default_factory=list[Recorded[FlowEvent]])
    overlay: list[Recorded[FlowEvent]] = field(default_factory=list[Recorded[FlowEvent]])
    stored: FlowState = field(default_factory=lambda: FLOW.initial(FLOW_ID))
    state: FlowState = field(default_factory=lambda: FLOW.initial(FLOW_ID))
    flying: set[TaskKey] = field(default_factory=set[TaskKey])

    def __repr__(self) -> str:
        kinds = [str(node.__struct_config__.tag) for node in self.flow.nodes]
        return f"<FlowLife of {kinds}: {' '.join(each.event.TYPE.removesuffix('.v1') for each in self.committed)}>"

    def tick(self) -> int:
        self.now += self.draw(st.sampled_from([0, 0, 0, 1, SECOND, 20 * SECOND]))
        return self.now

    def record(self, *events: FlowEvent) -> None:
        for event in events:
            record = Recorded(self.state.version + 1, self.now, event)
            self.overlay.append(record)
            self.state = FLOW.evolve_all(self.state, [record])

    def commit(self) -> None:
        self.committed += self.overlay
        self.overlay, self.stored = [], self.state

    def command(self, command: FlowCommand) -> None:
        """Append what a command brings about after what is stored, and put the facts of the overlay on top again."""
        events = [each.event for each in self.overlay]
        facts = [event for event in takewhile(lambda event: not begins_anew(event), events) if is_fact(event)]
        self.overlay, self.state = [], self.stored
        self.record(*FLOW.decide(self.state, command))
        self.commit()
        for fact in facts:
            self.record(FLOW.restated(self.state, fact))

    def resume(self) -> None:
        self.overlay, self.state, self.flying = [], self.stored, set()
        self.now += self.draw(st.sampled_from([0, 1, 600])) * SECOND
        flow = self.draw(st.sampled_from([None, self.brought()]))
        changed = self.draw(st.sampled_from([None, None, RunOptions(max_unproductive_segments=2, max_visits=3)]))
        self.command(ResumeFlow(worker="w", flow=flow, options=changed))

    def crash(self) -> None:
        """Lose what is not stored, and go on in a new segment; the old worker may still say what its tries came to."""
        running = [task for task in self.stored.tasks if task.phase is TaskPhase.RUNNING]
        segment = self.stored.fold.segment
        self.resume()
        for task in running:
            if self.draw(st.booleans()):
                late = NodeAttemptSettledLate(
                    effect_id=task.effect_id, attempt=task.attempt, segment=segment, output="late"
                )
                self.record(late)
                self.commit()

    def flush(self) -> bool:
        """Make the overlay durable, unless something comes in between; then the machine must be asked anew."""
        trouble = "none"
        if self.troubles and self.stored.is_open:
            trouble = self.draw(st.sampled_from(["none"] * 4 + ["command", "answer", "crash before", "crash after"]))
            self.troubles -= trouble != "none"
        match trouble:
            case "command":
                is_paused = self.stored.run is not None and self.stored.run.pause_request is not None
                score = GiveScore(name="helpful", value=1, by="ana")
                commands: list[FlowCommand] = [Pause(by="ana"), Stop(by="ana"), score]
                self.command(self.draw(st.sampled_from([*commands, *[Unpause(by="ana")] * is_paused])))
                return False
            case "answer":
                return not self.answer_one() and self.flushed()
            case "crash before":
                self.crash()
                return False
            case "crash after":
                self.commit()
                if self.state.is_open:
                    self.crash()
                return False
            case _:
                return self.flushed()

    def flushed(self) -> bool:
        self.commit()
        return True

    def perform(self, effect: FlowEffect) -> None:
        """Give an effect a legal outcome."""
        run = self.state.at(self.now).at_work()
        match effect:
            case RecordEvents(events=events):
                assert events, "an effect that does nothing is due again for ever"
                self.record(*events)
            case ScheduleNodeRetry(key=key):
                self.schedule(run.tasks[key], self.draw(st.sampled_from([0.0, 0.5])))
            case Ask(key=key):
                self.record(question(run, run.tasks.get(key) or Task(*key), self.now, WITHOUT.schemas))
            case Evaluate(key=key):
                self.record(evaluated(self.state, key, None, WITHOUT, self.now))
            case StartTasks(keys=keys):
                assert keys, "an effect that does nothing is due again for ever"
                for key in keys:
                    self.start(key)
            case Await(keys=keys, until=until):
                assert keys, "an effect that does nothing is due again for ever"
                assert until is None or until > self.now, "a process that waits for what has been looks again at once"
                if self.flush():
                    self.flying.update(keys)
                    self.land(keys, until)
            case CutOff():
                if self.flush():
                    self.cut_off(effect)
            case RestUntil(until=until):
                assert until is None or until > self.now, "a process that waits for what has been looks again at once"
                if self.flush():
                    self.wait(until)

    def schedule(self, task: Task, draw: float) -> None:
        graph = self.state.at_work().graph
        node = working_node(graph.node(task.node), task.item)
        asked = task.landing.error.retry_after if isinstance(task.landing, NodeAttemptFailed) else None
        delay = node.retry.delay(max(1, task.failures), draw, asked)
        self.record(
            NodeRetryScheduled(
                **of_try(task.key, task.attempt + 1),
                draw=draw,
                delay_seconds=delay,
                due_at=self.now + round(delay * 1e6),
                retry_after=asked,
            )
        )

    def start(self, key: TaskKey) -> None:
        """Record that a try is about to be made, that it cannot be made, or that a kept result stands in."""
        run = self.state.at_work()
        outer, visit, task = run.node(key[0]), run.open[key[0]], run.tasks.get(key) or Task(*key)
        node = working_node(outer, key[2])
        has_no_list = isinstance(outer, MapNode) and key[2] is None
        if has_no_list or self.draw(st.sampled_from([False] * 19 + [True])):
            self.record(faulty(key, NodeFault(FailureClass.CONFIG, "it cannot run"), task.attempt))
            return
        effect = effect_of(node)
        if not task.attempt and effect in CACHEABLE:
            kept = kept_result(run, visit, key[2], self.now)
            if kept is not None:
                self.record(
                    NodeAttemptCompleted(
                        **of_try(key, 0), output=kept.output, route=kept.route, is_kept=True, duration_seconds=0.0
                    )
                )
                return
        left, name = time_left_us(run, task, self.now), effect_id(visit.execution, *key)
        self.record(
            NodeAttemptStarted(
                **of_try(key, task.attempt + 1),
                effect_id=name,
                effect=effect,
                input_digest=digest_of([]),
                deadline_at=None if left is None else self.now + left,
                stream_effect=task.next_stream_effect(name, run.retries) if stream_kind(node) is not None else None,
            )
        )

    def land(self, keys: tuple[TaskKey, ...], until: int | None) -> None:
        """Let some of the tries in flight end, or none before the time that was asked for."""
        ended = self.draw(st.lists(st.sampled_from(keys), unique=True))
        if until is not None and not ended:
            self.now = max(self.now, until)
            return
        for key in ended or [keys[0]]:
            self.tick()
            self.end(key)

    def end(self, key: TaskKey, cut: CutReason | None = None) -> None:
        run = self.state.at_work()
        task = run.tasks[key]
        assert task.phase is TaskPhase.RUNNING
        end = cut or self.draw(tried(run.graph, task, self.now))
        if isinstance(end, NodeAttemptSuspended):
            if self.delays == 0:
                end = NodeAttemptCompleted(**of_try(key, task.attempt), output=[1], duration_seconds=0.0)
            else:
                self.delays -= 1
                effect = run.open[key[0]].effects[task.place]
                kind = stream_kind(run.node(key[0], key[2]))
                end = structs.replace(end, stream=f"{kind}:{session_for_call(effect)}")
        self.flying.discard(key)
        self.record(interrupted(run, task, end) if isinstance(end, CutReason) else end)

    def cut_off(self, due: CutOff) -> None:
        assert due.now or due.others, "an effect that does nothing is due again for ever"
        for key in due.now:
            # What was cut off may have come to its end before it heard of that.
            self.end(key, self.draw(st.sampled_from([due.reason, due.reason, None])))
        ended = self.draw(st.lists(st.sampled_from(due.others), unique=True)) if due.others else []
        for key in ended:
            self.end(key)
        if not due.now and not ended:
            self.now = max(self.now, due.until)

    def wait(self, until: int | None) -> None:
        """Sit the wait out, or let the process end and come back later; people answer what they are asked."""
        run = self.state.at_work()
        if until is not None and (stays_for(run, until, self.now) or self.draw(st.booleans())):
            self.now = max(self.now, until)
            return
        has_answered = False
        while self.draw(st.booleans()) or not has_answered:
            if not self.answer_one():
                break
            has_answered = True
        if not has_answered and until is not None:
            self.now = max(self.now, until)
        if self.stored.is_open:
            self.resume()

    def answer_one(self) -> bool:
        """Let a person say something to one of the stored questions that are open; False when there is none."""
        run = self.stored.at_work()
        asked = [task for task in self.stored.tasks if task.phase in {TaskPhase.ASKED, TaskPhase.PARKED}]
        due = [task for task in asked if (waiting_until(run, task) or self.now + 1) > self.now]
        if not due:
            return False
        task = self.draw(st.sampled_from(due))
        node = run.node(task.node, task.item)
        answers: list[FlowCommand]
        if task.phase is TaskPhase.PARKED:
            again = SettleNode(effect_id=task.effect_id, by="ana", verdict="rerun")
            answers = [SettleNode(effect_id=task.effect_id, by="ana", verdict="completed", output=[2])]
            answers += [SettleNode(effect_id=task.effect_id, by="ana", verdict="failed"), *[again] * (self.delays > 0)]
        elif task.held is not None:
            targets = tuple(node.routes.values())[:1] if isinstance(node, LlmRouterNode) else None
            skip = AnswerStep(node=task.node, action="skip", by="ana", at=self.now, targets=targets)
            answers = [AnswerStep(node=task.node, action="continue", by="ana", at=self.now)] * 3
            abort = AnswerStep(node=task.node, action="abort", by="ana", at=self.now)
            answers += [abort, *[skip] * (task.held == "before")]
        elif isinstance(node, HumanNode):
            choice = node.options[0] if node.options else None
            answers = [
                AnswerQuestion(to=task.node, by="ana", at=self.now, choice=choice, approved=yes)
                for yes in (True, False)
            ]
        else:
            assert task.approval is not None
            answers = [Approve(approval_id=task.approval.id, by="ana", at=self.now)] * 2
            answers.append(Deny(approval_id=task.approval.id, by="ana", at=self.now))
        said = self.draw(st.sampled_from(answers))
        self.delays -= isinstance(said, SettleNode) and said.verdict == "rerun"
        self.command(said)
        return True

    def brought(self) -> Brought:
        text = definition_text(self.flow)
        return Brought(definition=self.flow, text=text, digest=digest_of(text))

    def live(self) -> None:
        """Run to the end, or go on with what came to none once more."""
        self.flying = set()
        settings = self.draw(options(self.flow))
        worker = self.draw(st.sampled_from(["w", "w", None]))
        if why_no_retry(self.stored) is None and self.draw(st.booleans()):
            changed = self.draw(st.sampled_from([None, settings]))
            self.command(RetryFlow(worker=worker, flow=self.brought() if worker else None, options=changed))
        else:
            self.command(
                StartFlow(flow=self.brought(), worker=worker, options=settings, vars={ITEMS: [1, 2, 3]}, input="go")
            )
        self.go_on()

    def fork(self, at: int) -> None:
        """Go on from the first `at` events as a fork, if there can be one. It has the id of its source, but no more."""
        past = FLOW.evolve_all(FLOW.initial(FLOW_ID), self.committed[:at])
        if why_no_fork(past) is None:
            (event,) = FLOW.decide(past, Fork(by="ana", digest="d"))
            self.committed = [*self.committed[:at], Recorded(1, self.now, event)]
            self.state = self.stored = FLOW.evolve_all(past, self.committed[-1:])
            self.overlay = []

    def go_on(self) -> None:
        """Run to the end, whatever comes in between."""
        for _ in range(_MOST_EFFECTS):
            self.tick()
            effects = FLOW.next_effects(self.state.at(self.now), self.now)
            if effects:
                self.perform(effects[0])
            elif not self.flush():
                continue
            elif self.state.is_open:
                assert self.state.phase in {RunPhase.PAUSED, RunPhase.UNPAUSED, RunPhase.PENDING}
                if self.state.phase is RunPhase.PAUSED and self.draw(st.booleans()):
                    self.command(Unpause(by="ana"))
                self.resume()
            else:
                return
        raise AssertionError(f"after {_MOST_EFFECTS} effects the machine is in {self.state!r} {self!r}")


@st.composite
def worked_lives(draw: st.DrawFn, executions: int = 2) -> FlowLife:
    """Draw a stream after one or more runs, each to its end, whatever came in between."""
    life = FlowLife(draw, draw(worked_flows()), troubles=draw(st.integers(0, 4)))
    for _ in range(draw(st.integers(1, executions))):
        life.live()
    return life


@st.composite
def forked_lives(draw: st.DrawFn) -> FlowLife:
    """Draw a stream that goes on from the past of a whole one, up to any event, and once more from there."""
    life = FlowLife(draw, draw(worked_flows()), troubles=draw(st.integers(0, 4)))
    life.live()
    for _ in range(2):
        life.fork(draw(st.integers(1, len(life.committed))))
        if life.state.is_open:
            life.go_on()
        else:
            life.live()
    return life
