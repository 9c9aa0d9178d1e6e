"""Whatever people and machines did to a session while it ran is done again when it is replayed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, Steptrail, ToolContext, ToolEffect, external_tool, tool
from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionStarted,
    InferenceInterrupted,
    MessagesAppended,
    SessionScored,
    StopRequested,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    WaitStarted,
)
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.messages import Message, MessageRole, TextPart
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ToolRetry
from steptrail.domain.usage import Usage
from steptrail.errors import NotARecording
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Recording, Reply, ScriptedModel, call, calls, normalise, replay
from steptrail.testing.replay_tools import replayed
from steptrail.workflow import Budget, FlowTool, RunOptions, Workflow
from tests.integration.replay.kit import SCRIPT, recording_of, shop
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of

Doing = Callable[[Steptrail], Awaitable[object]]


class Beset(ScriptedModel):
    """A model during whose n-th call, from 0, somebody does something to the session."""

    def __init__(self, script: list[Reply], doing: Doing, trail: Steptrail, *, at: int, hangs: bool = False) -> None:
        super().__init__(script)
        self._doing, self._trail, self._at, self._hangs = doing, trail, at, hangs

    async def infer(self, request: ModelRequest) -> ModelReply:
        if request.call_index == self._at:
            self._at = -1
            await self._doing(self._trail)
            if self._hangs:
                await asyncio.Event().wait()
        return await super().infer(request)


async def again(builder: AgentBuilder, trail: Steptrail) -> list[AgentEvent]:
    """Replay session `s`, see that everything happened again, and return what did."""
    recording = Recording("s", await trail.session("s").history())
    replayed = await replay(builder.build(), recording)
    assert normalise(replayed.events) == normalise(recording.events)
    assert [event.TYPE for event in replayed.events] == [event.TYPE for event in recording.events]
    return list(replayed.events)


async def beset(doing: Doing, *, at: int = 1, hangs: bool = False, resumed: bool = False) -> list[AgentEvent]:
    async with trail_of() as trail:
        script: list[Reply] = [*SCRIPT, "More."]
        builder = shop().with_model(Beset(script, doing, trail, at=at, hangs=hangs))
        builder.with_limits(Limits(stop_grace=0.0))
        await trail.run(builder.build(), "What is left?", session="s")
        if resumed:
            await trail.session("s").resume(builder.build())
        return await again(builder, trail)


async def test_given_a_message_during_a_model_call_then_it_comes_there_again() -> None:
    events = await beset(lambda trail: trail.session("s").send(shop().build(), "And milk?", by="ana"))
    (said,) = [event for event in events if isinstance(event, MessagesAppended)]
    assert said.by == "ana"


async def test_given_a_pause_during_a_model_call_and_a_resume_then_both_are_done_again() -> None:
    events = await beset(lambda trail: trail.session("s").pause(by="ana", reason="deploy"), resumed=True)
    assert events[-1].TYPE == "execution.finished.v1"


async def test_given_a_stop_that_cut_a_model_call_off_then_it_is_cut_off_again() -> None:
    events = await beset(lambda trail: trail.session("s").stop(by="ana", reason="enough"), hangs=True)
    assert [event.by for event in events if isinstance(event, StopRequested)] == ["ana"]
    assert [event.reason for event in events if isinstance(event, InferenceInterrupted)] == ["stop"]


async def test_given_a_caller_who_was_cancelled_then_the_replayed_one_is_cancelled_too() -> None:
    async with trail_of() as trail:
        asked = asyncio.Event()

        async def tell(_: Steptrail) -> None:
            asked.set()

        builder = shop().with_model(Beset(list(SCRIPT), tell, trail, at=1, hangs=True))
        running = asyncio.create_task(trail.run(builder.build(), "What is left?", session="s"))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await trail.session("s").resume(builder.build())
        events = await again(builder, trail)
    assert [event.reason for event in events if isinstance(event, InferenceInterrupted)] == ["cancelled"]


async def test_given_a_caller_who_was_cancelled_among_calls_then_each_call_has_the_same_fate() -> None:
    @tool(effect=ToolEffect.READ)
    async def hang() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    builder = AgentBuilder("desk").with_tools(hang, post)
    builder.with_model(ScriptedModel([calls(("hang", {}), ("post", {"letter": "a"})), "Done."]))
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(builder.build(), "Post", session="s"))
        while not await trail.runs():
            await asyncio.sleep(0)
        while "tool.execution.completed.v1" not in [r.event.TYPE for r in await trail.session("s").events()]:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await again(builder, trail))[-1].TYPE == "execution.paused.v1"


async def test_given_a_stop_of_a_crashed_session_then_it_is_stopped_where_it_crashed() -> None:
    async with trail_of(reach=crash_at("after-inference", 2)) as dying:
        with pytest.raises(Crash):
            await dying.run(shop().build(), "What is left?", session="s")
        trail = again_on(dying)
        await trail.session("s").stop(by="ana")
        assert [event.by for event in await again(shop(), trail) if isinstance(event, StopRequested)] == ["ana"]


async def test_given_a_message_to_a_session_at_rest_then_each_answer_is_given_again() -> None:
    async with trail_of() as trail:
        await trail.run(shop().build(), "What is left?", session="s", key="first")
        await trail.session("s").send(shop(*SCRIPT, "Milk, too.").build(), "And milk?")
        events = await again(shop(), trail)
    assert [event.TYPE for event in events].count("execution.finished.v1") == 2


@tool(effect=ToolEffect.UNSAFE, concurrent=True)
def post(letter: str) -> str:
    """Post a letter."""
    return f"posted {letter}"


@tool(effect=ToolEffect.READ)
async def slow() -> str:
    """Take longer than the others."""
    await asyncio.sleep(0.05)
    return "slow"


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_given_a_crash_among_calls_that_ran_side_by_side_then_each_has_the_same_fate(number: int) -> None:
    builder = AgentBuilder("desk").with_tools(post, slow)
    builder.with_model(
        ScriptedModel([calls(("post", {"letter": "a"}), ("slow", {}), ("post", {"letter": "b"})), "Done."])
    )
    async with trail_of(reach=crash_at("after-tool", number)) as dying:
        with pytest.raises(Crash):
            await dying.run(builder.build(), "Post", session="s")
        trail = again_on(dying)
        await trail.session("s").resume(builder.build())
        events = await again(builder, trail)
    interrupted = [event for event in events if isinstance(event, ToolExecutionInterrupted)]
    assert {event.reason for event in interrupted} == {"crash"}


async def test_given_retries_then_nobody_waits_and_each_failure_comes_as_it_was() -> None:
    clock = HandClock()
    policy = ErrorPolicy.retry_all(3)
    async with trail_of(clock) as trail:
        script: list[Reply] = [TimeoutError("slow"), call("stock", item="tea"), ConnectionError("gone"), "3."]
        builder = shop(*script).with_error_policy(policy)
        await trail.run(builder.build(), "go", session="s", on_commit=clock.sit_out)
        await again(builder, trail)


class SlowClock(HandClock):
    """The clock of a process that loses a second between any two looks at it."""

    def monotonic(self) -> int:
        self.advance(1.0)
        return super().monotonic()


@pytest.mark.parametrize("clock", [HandClock(), SlowClock()], ids=["quick", "slow"])
async def test_given_retries_that_are_due_before_anybody_looks_then_their_waits_are_recorded_all_the_same(
    clock: HandClock,
) -> None:
    failures = iter((TimeoutError("slow"),))
    delay = Backoff.linear(0.5)

    @tool(effect=ToolEffect.READ, retry=ToolRetry(attempts=2, backoff=delay))
    def take() -> int:
        """Take one."""
        if (error := next(failures, None)) is not None:
            raise error
        return 3

    async with trail_of(clock) as trail:
        model = ScriptedModel([TimeoutError("slow"), call("take"), "3."])
        builder = AgentBuilder("taker").with_model(model).with_tools(take)
        builder.with_error_policy(ErrorPolicy.retry_all(3).with_backoff(delay))
        await trail.run(builder.build(), "go", session="s", on_commit=clock.sit_out)
        events = await again(builder, trail)
    assert sum(isinstance(event, WaitStarted) for event in events) == 2


async def test_given_a_fork_then_its_past_is_there_and_only_its_own_part_is_driven_again() -> None:
    left = iter((3, 2, 1))

    @tool(effect=ToolEffect.READ)
    def take() -> int:
        """Take one, and say how many are left."""
        return next(left)

    def taker(*script: Reply) -> AgentBuilder:
        return AgentBuilder("taker").with_model(ScriptedModel(script)).with_tools(take)

    script = (call("take"), call("take"), "One left.", call("take"), "None left.")
    async with trail_of() as trail:
        await trail.run(taker(*script).with_max_steps(1).build(), "Take", session="first")
        second = await trail.session("first").fork(session="second", by="ana")
        await second.send(taker(*script).build(), "Go on")
        third = await second.fork(session="s", by="ben", metadata={"why": "test"})
        await third.send(taker(*script).build(), "Once more")
        events = await again(taker(), trail)
    assert [event.TYPE for event in events].count("session.forked.v1") == 2


async def test_given_a_run_out_of_time_in_a_model_call_then_the_clock_of_the_recording_says_so_again() -> None:
    clock = HandClock()

    def late(request: ModelRequest) -> str:
        del request
        clock.advance(400.0)
        raise TimeoutError

    async with trail_of(clock) as trail:
        builder = shop(call("stock", item="tea"), late)
        await trail.run(builder.build(), "go", session="s")
        events = await again(builder, trail)
    interrupted = [event for event in events if isinstance(event, InferenceInterrupted)]
    assert [event.reason for event in interrupted] == ["deadline"]


@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize(("timeout", "cut_by"), [(5, CutBy.TOOL_TIMEOUT), (None, CutBy.TIMEOUT)])
async def test_given_a_tool_that_gave_up_a_little_early_then_the_same_deadline_cuts_it_again(
    effect: ToolEffect, timeout: float | None, cut_by: CutBy
) -> None:
    clock = HandClock()

    @tool(effect=effect, timeout=timeout)
    async def patient(context: ToolContext) -> str:
        """Keep the deadline."""
        clock.advance((context.deadline_seconds or 0.0) - 0.02)
        raise TimeoutError

    builder = AgentBuilder("shop").with_model(ScriptedModel([call("patient"), "Sorry."])).with_tools(patient)
    builder.with_timeout(60)
    async with trail_of(clock) as trail:
        await trail.run(builder.build(), "go", session="s")
        events = await again(builder, trail)
        recording = Recording("s", await trail.session("s").history())
    ends = [event for event in events if isinstance(event, ToolExecutionFailed | ToolExecutionInterrupted)]
    assert [event.cut_by for event in ends] == [cut_by]
    # Nor does it take a driver: who only gives the recorded results says the same of it.
    async with trail_of() as trail:
        await trail.run(replayed(builder.build(), recording), "go", session="s")
        events = [record.event for record in await trail.session("s").events()]
    ends = [event for event in events if isinstance(event, ToolExecutionFailed | ToolExecutionInterrupted)]
    assert [event.cut_by for event in ends] == [cut_by]


async def test_given_a_deadline_on_active_time_in_a_real_run_then_only_its_instant_may_differ() -> None:
    model = ScriptedModel(["for ever"], delay=3600.0)
    builder = AgentBuilder("x").with_model(model).with_cumulative_timeout(0.05)
    async with Steptrail(Environment(store=open_store("sqlite:///:memory:"))) as trail:
        await trail.run(builder.build(), "go", session="s")
        events = await again(builder, trail)
    (cut,) = [event for event in events if isinstance(event, InferenceInterrupted)]
    assert cut.cut_by is CutBy.CUMULATIVE_TIMEOUT


async def test_given_a_command_for_which_a_replay_has_no_place_then_it_names_the_event() -> None:
    recording = await recording_of(shop())
    first, *rest = recording.records
    said = structs.replace(first, version=99, event=StopRequested(by="ana"))
    where = next(i for i, record in enumerate(rest) if record.event.TYPE == "tool.execution.completed.v1")
    torn = Recording("s", [first, *rest[: where + 1], said, *rest[where + 1 :]])
    with pytest.raises(NotARecording, match=r"event 99 \(stop\.requested\.v1\): it came between two effects"):
        await replay(shop().build(), torn)


async def test_given_a_session_that_began_with_a_history_then_its_replay_begins_with_it_too() -> None:
    history = [Message.user("Is there tea?"), Message(role=MessageRole.ASSISTANT, parts=(TextPart(text="Some."),))]
    async with trail_of() as trail:
        await trail.run(shop().build(), "What is left?", session="s", history=history)
        await trail.run(shop().build(), "And now?", session="s")
        recording = Recording("s", await trail.session("s").history())
    again = await replay(shop().build(), recording)
    assert normalise(again.events) == normalise(recording.events)
    assert [message.text for message in again.result.state.messages][:3] == ["Is there tea?", "Some.", "What is left?"]


async def test_given_the_same_words_twice_and_metadata_with_others_then_all_of_it_is_said_again() -> None:
    async with trail_of() as trail:
        builder = shop("One.", "Two.", "Three.")
        agent = builder.build()
        await trail.run(agent, "More?", session="s", by="ana", metadata={"tenant": "acme", "n": 1})
        await trail.session("s").send(agent, "More?", by="ben", key="m-2")
        await trail.run(agent, "And now?", session="s", metadata={"tenant": "acme", "n": 2})
        assert len([event for event in await again(builder, trail) if isinstance(event, ExecutionStarted)]) == 3


async def test_given_retries_then_every_execution_is_replayed_with_the_settings_that_it_was_given() -> None:
    async with trail_of() as trail:
        builder = shop(call("stock", item="tea"), ConnectionError("no line"), "3.").with_max_steps(1)
        agent = builder.build()
        await trail.run(agent, "What is left?", session="s", key="k")
        session = trail.session("s")
        failed = await session.retry(agent, by="ana", reason="more", limits=Limits(max_steps=9), key="r-1")
        assert failed.status == "failed"
        assert (await session.retry(agent, error_policy=ErrorPolicy.retry_all(2))).output == "3."
        events = await again(builder, trail)
        starts = [event for event in events if isinstance(event, ExecutionStarted)]
        assert [(event.retry_of, event.overrides) for event in starts] == [
            (None, ()),
            ("s:1", ("limits",)),
            ("s:2", ("error_policy",)),
        ]
        await session.fork(session="f")
        recording = Recording("f", await trail.session("f").history())
        assert normalise((await replay(agent, recording)).events) == normalise(recording.events)


async def test_given_forks_in_the_middle_of_a_commit_then_each_is_driven_again_from_its_past() -> None:
    builder = shop(call("stock", item="tea"), call("stock", item="coffee"), "None.")
    async with trail_of() as trail:
        await trail.run(builder.build(), "What is left?", session="first")
        stored = await trail.session("first").events()
        step, *_ = (each.version for each in stored if each.event.TYPE == "step.completed.v1")
        assert {each.version for each in stored if each.head == stored[step - 1].head} - set(range(step + 1))
        fork = await trail.session("first").fork(at=step, session="second")
        assert (await fork.resume(builder.build())).output == "None."
        for source, name in ((trail.session("first"), "s"), (fork, "third")):
            await (await source.fork(at=step if name == "s" else None, session=name)).send(builder.build(), "Sure?")
        await again(builder, trail)
        third = Recording("third", await trail.session("third").history())
    assert normalise((await replay(builder.build(), third)).events) == normalise(third.events)


async def _posted_twice(trail: Steptrail, agent: Agent) -> None:
    await trail.session("s").post(agent, "One?", by="ana", key="m-1")
    await trail.session("s").post(agent, "And two?")
    await trail.session("s").resume(agent, by="worker")


async def _started_and_sent(trail: Steptrail, agent: Agent) -> None:
    await trail.start(agent, "One?", session="s", key="m-1", metadata={"tenant": "acme"})
    await trail.session("s").send(agent, "And two?")
    await trail.session("s").post(agent, "Three?")
    await trail.run(agent, "Three?", session="s")


async def _stopped_before_it_began(trail: Steptrail, agent: Agent) -> None:
    await trail.start(agent, "One?", session="s")
    await trail.session("s").stop(by="ana")
    await trail.session("s").requeue(by="ben", reason="after all", limits=Limits(max_steps=3), key="r-1")
    await trail.session("s").resume(agent)


async def _paused_and_posted_to(trail: Steptrail, agent: Agent) -> None:
    await trail.start(agent, "One?", session="s")
    await trail.session("s").pause(by="ana")
    await trail.session("s").post(agent, "And two?")
    await trail.session("s").unpause(by="ben")
    await trail.session("s").post(agent, "Three?")
    await trail.session("s").send(agent, "Four?")


@pytest.mark.parametrize("did", [_posted_twice, _started_and_sent, _stopped_before_it_began, _paused_and_posted_to])
async def test_given_what_was_stored_for_a_worker_then_what_came_before_it_began_comes_before_it_begins_again(
    did: Callable[[Steptrail, Agent], Awaitable[None]],
) -> None:
    async with trail_of() as trail:
        builder = shop("Some.", "None.", "Three.")
        await did(trail, builder.build())
        await again(builder, trail)


@tool(effect=ToolEffect.UNSAFE, approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def test_given_questions_to_people_then_their_answers_come_again_and_when_they_expired_is_no_difference() -> None:
    builder = AgentBuilder("till").with_tools(pay)
    builder.with_model(ScriptedModel([calls(("pay", {"cents": 1}), ("pay", {"cents": 2})), "Paid one."]))
    async with Steptrail.open("sqlite:///:memory:") as trail:  # its clock goes on between an event and what follows
        asked = await trail.run(builder.build(), "Pay.", session="s")
        yes, no = (each.id for each in asked.state.open_approvals)
        await trail.session("s").approve(yes, by="ana", arguments={"cents": 3})
        await trail.session("s").deny(no, by="ben", reason="too much")
        await trail.session("s").resume(builder.build())
        await again(builder, trail)


async def test_given_a_call_that_does_not_fit_beside_a_question_then_nobody_is_asked_about_it_again() -> None:
    unfit = calls(("pay", {"cents": "many"}), ("pay", {"cents": 2}))
    builder = AgentBuilder("till").with_tools(pay).with_error_policy(ErrorPolicy.ignore_tool_errors())
    builder.with_model(ScriptedModel([unfit, "Paid two."]))
    async with trail_of() as trail:
        asked = await trail.run(builder.build(), "Pay.", session="s")
        (question,) = asked.state.open_approvals
        await trail.session("s").approve(question.id, by="ana")
        await trail.session("s").resume(builder.build())
        await again(builder, trail)


async def test_given_a_tool_that_runs_a_workflow_then_the_replay_is_of_the_same_agent() -> None:
    inner = Workflow("inner").function("say", lambda _: "said").build()
    builder = AgentBuilder("above").with_tools(FlowTool(inner)).with_model(ScriptedModel([call("inner"), "Done."]))
    async with trail_of() as trail:
        await trail.run(builder.build(), "Go.", session="s")
        await again(builder, trail)


async def test_a_session_below_a_run_is_driven_again_with_the_limits_that_it_was_lent() -> None:
    @tool(effect=ToolEffect.READ)
    def look() -> str:
        """Look."""
        return "seen"

    script = [calls(("look", {}), usage=Usage(output=50)) for _ in range(4)]
    agent = AgentBuilder("spender").with_model(ScriptedModel(script)).with_tools(look)
    flow = Workflow("t").agent("spend", agent.build(), prompt="x", retry=1).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=RunOptions(budget=Budget(max_total_tokens=100)))
        (below,) = [row.session_id for row in await trail.runs() if row.kind == "agent"]
        recording = Recording(below, await trail.session(below).history())
    assert result.error is not None
    assert result.error.details["stop_reason"] == "token_limit"
    driven = await replay(agent.build(), recording)
    assert [event.TYPE for event in driven.events] == [event.TYPE for event in recording.events]
    assert driven.result.stop_reason == "token_limit"


async def test_given_a_message_stored_long_before_the_run_went_on_then_the_time_between_them_is_the_same() -> None:
    clock = HandClock()
    ask = external_tool("ask", "Ask.", {"type": "object"}, expires=60)
    builder = shop(call("ask"), "Nobody knows.").with_tools(ask).with_error_policy(ErrorPolicy.retry_all(2))
    async with trail_of(clock) as trail:
        await trail.run(builder.build(), "What is left?", session="s")
        session = trail.session("s")
        await session.post(builder.build(), "Hurry up.", by="ana")
        clock.advance(61)
        assert (await session.resume(builder.build(), by="ana")).output == "Nobody knows."
        assert any(isinstance(event, ToolExecutionFailed) and event.expired for event in await again(builder, trail))


async def test_a_scored_session_is_driven_again_without_its_scores() -> None:
    trail = trail_of()

    async def scoring(trail: Steptrail) -> object:
        return await trail.session("s").score("helpful", 1, by="ana")

    async with trail:
        script: list[Reply] = [call("stock", item="tea"), "Three."]
        agent = shop().with_model(Beset(script, scoring, trail, at=1)).build()
        await trail.run(agent, "How much?", session="s")
        await scoring(trail)
        recording = Recording("s", await trail.session("s").history())
    replayed = await replay(shop(*script).build(), recording)
    assert normalise(replayed.events) == normalise(recording.events)
    assert not any(isinstance(event, SessionScored) for event in replayed.events)


async def test_given_a_fork_from_before_anything_was_started_then_it_begins_again_from_there() -> None:
    builder, past = shop("One.", "Two.", "Three."), [Message.user("Before"), Message.assistant("Yes")]
    async with trail_of() as trail:
        await trail.run(builder.build(), "What is left?", session="first", history=past)
        again_in = await trail.session("first").regenerate(builder.build(), session="s", key="k")
        await trail.session("s").send(builder.build(), "And now?")
        recording = Recording("s", await trail.session("s").history())
        assert normalise((await replay(builder.build(), recording)).events) == normalise(recording.events)
        assert again_in.state.fold.executions == 1
