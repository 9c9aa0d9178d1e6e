"""Instructions at work: functions are asked before a step, what changed is recorded, and the model is shown it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, HookType, Limits, Message
from steptrail.domain.agent.events import (
    EvaluationsRecorded,
    ExecutionStarted,
    InferenceStarted,
    InstructionsResolved,
    StepStarted,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.inference import ModelRequest
from steptrail.errors import ConfigurationError
from steptrail.hooks import InstructionsState
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.instructions import InstructionsFunction
from steptrail.runtime.agent.request import Requests
from steptrail.testing import Recording, Reply, ScriptedModel, call, replay
from steptrail.tools import SubagentTool
from tests.runner.families import asks
from tests.runner.kit import Crash, HandClock, Run, add, again_on, crash_at, hook, run, trail_of

ADDS: list[Reply] = [call("add", a=1, b=2), call("add", a=3, b=4), "Done."]


def clerk(model: ScriptedModel) -> AgentBuilder:
    return AgentBuilder("clerk").with_model(model).with_tools(add).with_system_prompt("You add.")


def shown(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in request.messages]


def resolved(ran: Run) -> list[tuple[str, str]]:
    return [(event.name.rpartition(".")[2], event.text) for event in ran.all(InstructionsResolved)]


async def today(state: InstructionsState) -> str:
    await asyncio.sleep(0)
    return f"  It is Monday, says {len(state.messages)} message.\n"


def left(state: InstructionsState) -> str | None:
    return "Come to an end." if state.step_count == 2 else None


async def test_texts_stand_behind_what_the_system_says_and_behind_the_conversation() -> None:
    model, example = ScriptedModel(ADDS), Message.user("1+1?")
    agent = clerk(model).with_examples(example, Message.assistant("2")).with_instructions(today)
    note = hook("note", lambda state: state.with_request(extra_messages=(Message.user("Be quick."),)))
    agent.with_instructions(left, every="step", at="tail").with_hook(HookType.BEFORE_INFERENCE, note)
    ran = await run(agent.build())
    assert resolved(ran) == [("today", "It is Monday, says 1 message."), ("left", "Come to an end.")]
    first, second, last = model.requests
    assert shown(first) == [
        ("system", "You add."),
        ("user", "1+1?"),
        ("assistant", "2"),
        ("system", "It is Monday, says 1 message."),
        ("user", "go"),
        ("user", "Be quick."),
    ]
    assert shown(second) == [*shown(first)[:-1], ("assistant", ""), ("tool", "3"), ("user", "Be quick.")]
    assert shown(last)[-3:] == [
        ("tool", "7"),
        ("user", "<instructions>Come to an end.</instructions>"),
        ("user", "Be quick."),
    ]
    assert [(each.opening, each.tail) for each in model.requests] == [(3, 1), (3, 1), (3, 2)]


@pytest.mark.acceptance("10.2-1")
async def test_a_text_that_did_not_change_is_not_recorded_again_in_the_whole_session() -> None:
    model = ScriptedModel([*ADDS, "Again.", "And again."])
    asked = list[int]()

    def counted(state: InstructionsState) -> str:
        asked.append(state.step_count)
        return "Be kind."

    agent = clerk(model).with_instructions(counted, every="step").build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        await trail.session("s").send(agent, "more")
        types = [each.event.TYPE for each in await trail.session("s").events()]
    assert asked == [0, 1, 2, 0]
    assert types.count("instructions.resolved.v1") == 1
    assert {shown(request)[1] for request in model.requests} == {("system", "Be kind.")}


class Odd(Exception):
    pass


def raises(state: InstructionsState) -> str:
    raise Odd("no almanac")


def cancels(state: InstructionsState) -> str:
    raise asyncio.CancelledError


WRONG: dict[str, tuple[Callable[[InstructionsState], Any], str]] = {
    "raises": (raises, "no almanac"),
    "no text": (lambda state: 7, "instructions are a text or None, and this function returned int"),
    "half a character": (lambda state: "\ud800", "text that is not valid Unicode"),
    "cancels itself": (cancels, "the function cancelled itself, and nobody had asked it to"),
}


@pytest.mark.parametrize(("function", "why"), WRONG.values(), ids=WRONG)
async def test_a_function_that_fails_stops_the_run_before_the_step(
    function: InstructionsFunction, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(ADDS)
    agent = clerk(model).with_instructions(today).with_instructions(function, name="odd")
    ran = await run(agent.with_instructions(left).build())
    assert ran.ending == ("failed", "error")
    assert model.requests == []
    vote = next(each for each in ran.all(EvaluationsRecorded) if each.hook is not None).votes[0]
    assert (vote.criterion_class, vote.decision.value) == ("odd", "forbid")
    assert why in str(vote.context)
    assert "decided by odd" in ran.why.verdict
    assert any("the instructions odd raised" in record.getMessage() for record in caplog.records)


async def test_a_function_that_has_its_own_task_cancelled_stops_the_run_too() -> None:
    async def cancels_its_task(state: InstructionsState) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return state.agent_id

    ran = await run(clerk(ScriptedModel(ADDS)).with_instructions(cancels_its_task, name="odd").build())
    assert ran.ending == ("failed", "error")
    assert "decided by odd" in ran.why.verdict


async def test_a_stop_ends_a_function_that_hangs_and_no_step_starts() -> None:
    begun = asyncio.Event()

    async def hangs(state: InstructionsState) -> str:
        begun.set()
        await asyncio.Event().wait()
        return state.agent_id

    agent = clerk(ScriptedModel(ADDS)).with_instructions(hangs).with_limits(Limits(stop_grace=0.0)).build()
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await begun.wait()
        await trail.session("s").stop(by="ana")
        result = await running
        assert (result.stop_reason, result.state.step_count) == ("user_requested", 0)
        assert not any(isinstance(each.event, StepStarted) for each in await trail.session("s").events())


async def test_a_stop_that_comes_while_a_function_answers_starts_no_step() -> None:
    async with trail_of() as trail:

        async def stops(state: InstructionsState) -> str:
            await trail.session(state.agent_id).stop(by="ana")
            return "Written."

        agent = clerk(ScriptedModel(ADDS)).with_instructions(stops).build()
        result = await trail.run(agent, "go", session="s")
        types = [each.event.TYPE for each in await trail.session("s").events()]
    assert result.stop_reason == "user_requested"
    assert "step.started.v1" not in types
    assert types.index("stop.requested.v1") < types.index("instructions.resolved.v1")


async def test_a_pause_that_is_seen_while_a_function_answers_starts_no_step() -> None:
    begun = asyncio.Event()

    async def slow(state: InstructionsState) -> str:
        begun.set()
        await asyncio.sleep(0.4)  # until the log is looked at for commands
        return "Here."

    agent = clerk(ScriptedModel(ADDS)).with_instructions(slow).build()
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await begun.wait()
        await trail.session("s").pause()
        assert (await running).status == "paused"
        types = [each.event.TYPE for each in await trail.session("s").events()]
    assert types[-3:] == ["pause.requested.v1", "instructions.resolved.v1", "execution.paused.v1"]


async def test_a_function_has_the_time_that_the_run_has_left() -> None:
    async def hangs(state: InstructionsState) -> str:
        await asyncio.Event().wait()
        return state.agent_id

    ran = await run(clerk(ScriptedModel(ADDS)).with_timeout(0.01).with_instructions(hangs, name="slow").build())
    vote = next(each for each in ran.all(EvaluationsRecorded) if each.hook == "slow").votes[0]
    assert "it used up the time that the run had left" in vote.reason
    assert ran.result.state.step_count == 0


async def test_all_functions_together_have_the_time_that_the_run_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, gone = asyncio.get_running_loop(), [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + gone[0])

    def takes_a_minute(state: InstructionsState) -> str:
        gone[0] += 60.0
        return "Late."

    async def yields(state: InstructionsState) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "Later."

    agent = clerk(ScriptedModel(ADDS)).with_instructions(takes_a_minute).with_instructions(yields, name="next")
    ran = await run(agent.with_cumulative_timeout(50).build())
    vote = next(each for each in ran.all(EvaluationsRecorded) if each.hook == "next").votes[0]
    assert "it used up the time that the run had left" in vote.reason
    assert resolved(ran) == [("takes_a_minute", "Late.")]


@pytest.mark.parametrize("fails", [True, False])
async def test_a_run_whose_time_is_over_when_a_function_ends_is_at_its_limit(fails: bool) -> None:
    clock = HandClock()

    def slow(state: InstructionsState) -> str:
        clock.advance(6.0)
        return raises(state) if fails else "Late."

    agent = clerk(ScriptedModel(ADDS)).with_timeout(5).with_instructions(slow).build()
    ran = await run(agent, clock=clock)
    assert ran.ending == ("completed", "time_limit")
    assert "step.started" not in ran.types
    again = await replay(agent, Recording("s", ran.records))
    assert [event.TYPE for event in again.events] == [event.TYPE for event in ran.events]


async def test_a_cancelled_caller_pauses_the_run_which_asks_again() -> None:
    begun, open_now = asyncio.Event(), list[bool]()

    async def hangs(state: InstructionsState) -> str:
        begun.set()
        if not open_now:
            await asyncio.Event().wait()
        return "Here."

    model = ScriptedModel(["Done."])
    agent = clerk(model).with_instructions(hangs).build()
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        open_now.append(True)
        assert (await trail.session("s").resume(agent)).output == "Done."
    assert shown(model.requests[0])[1] == ("system", "Here.")


@pytest.mark.acceptance("10.2-2")
@pytest.mark.parametrize(("point", "expected"), [("before-inference", "first"), ("after-hooks", "second")])
async def test_after_a_crash_the_recorded_text_serves_the_open_step(point: str, expected: str) -> None:
    async with trail_of(reach=crash_at(point)) as trail:
        with pytest.raises(Crash):
            await trail.run(
                clerk(ScriptedModel(ADDS)).with_instructions(lambda _: "first", name="n").build(), "go", session="s"
            )
        model = ScriptedModel(ADDS)
        async with again_on(trail) as later:
            agent = clerk(model).with_instructions(lambda _: "second", name="n").build()
            assert (await later.session("s").resume(agent)).output == "Done."
    assert [shown(request)[1][1] for request in model.requests] == [expected] * 3


async def test_a_resume_with_another_agent_asks_what_is_new_and_shows_no_more_what_is_gone() -> None:
    async with trail_of(reach=crash_at("before-inference", 2)) as trail:
        with pytest.raises(Crash):
            await trail.run(clerk(ScriptedModel(ADDS)).with_instructions(today).build(), "go", session="s")
        model = ScriptedModel(ADDS)
        async with again_on(trail) as later:
            agent = clerk(model).with_instructions(lambda _: "New.", name="new", at="tail").build()
            assert (await later.session("s").resume(agent)).output == "Done."
    assert [text for request in model.requests for _, text in shown(request)[1:2]] == ["go", "go"]
    assert [shown(request)[-1][1] for request in model.requests] == ["3", "<instructions>New.</instructions>"]


async def test_the_digest_of_each_request_is_the_one_that_a_fresh_process_makes() -> None:
    agent = clerk(ScriptedModel([*[call("add", a=n, b=0) for n in range(5)], "Done."]))
    agent.with_instructions(lambda state: f"{state.step_count // 2} pairs.", name="pairs", every="step")
    agent.with_instructions(lambda state: f"Step {state.step_count}.", name="step", every="step", at="tail")
    ran = await run(agent.build())
    places = [place for place, event in enumerate(ran.events) if isinstance(event, InferenceStarted)]
    assert len(places) == 6
    for place in places:
        state, requests = evolve_all(initial("s"), ran.records[:place]), Requests()
        assert state.agent is not None
        started = ran.events[place]
        assert isinstance(started, InferenceStarted)
        assert requests.digest(requests.build(state, state.agent)) == started.request_digest


class Caller(BaseModel):
    city: str


async def test_a_function_reads_what_is_said_of_the_run_and_what_is_open_for_it() -> None:
    @asynccontextmanager
    async def weather(caller: Caller) -> AsyncGenerator[dict[str, str]]:
        yield {caller.city: "rain"}

    def outside(state: InstructionsState) -> str:
        return f"In {state.data.city} there is {state.resources[state.data.city]}."

    model = ScriptedModel(["Done."])
    agent = clerk(model).with_context(Caller).with_resources(weather).with_instructions(outside).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s", context=Caller(city="Bonn"))
    assert shown(model.requests[0])[1] == ("system", "In Bonn there is rain.")


@pytest.mark.acceptance("10.2-5")
async def test_a_replay_reads_the_texts_and_asks_no_function_that_was_there() -> None:
    agent = clerk(ScriptedModel(ADDS)).with_instructions(today).with_instructions(left, every="step", at="tail")
    async with trail_of() as trail:
        await trail.run(agent.build(), "go", session="s")
        recording = Recording("s", await trail.session("s").history())
    now = clerk(ScriptedModel([])).with_instructions(raises, name=f"{__name__}.today")
    now.with_instructions(raises, name=f"{__name__}.left", every="step", at="tail")
    asked = list[InstructionsState]()
    again = await replay(now.with_instructions(asked.append, name="of today").build(), recording)
    assert again.result.output == "Done."
    assert len(asked) == 1
    written = [each.text for each in again.events if isinstance(each, InstructionsResolved)]
    assert written == ["It is Monday, says 1 message.", "Come to an end."]
    digests = [event.request_digest for event in again.events if isinstance(event, InferenceStarted)]
    assert digests == [event.request_digest for event in recording.events if isinstance(event, InferenceStarted)]


async def test_a_failure_of_a_function_is_replayed_too() -> None:
    async with trail_of() as trail:
        await trail.run(clerk(ScriptedModel(ADDS)).with_instructions(raises, name="n").build(), "go", session="s")
        recording = Recording("s", await trail.session("s").history())
    again = await replay(clerk(ScriptedModel([])).with_instructions(today, name="n").build(), recording)
    assert again.result.stop_reason == "error"


async def say_more(session: Session, agent: Agent) -> None:
    await session.post(agent, "And count them.")


async def pause(session: Session, agent: Agent) -> None:
    del agent
    await session.pause(by="ana")


async def stop(session: Session, agent: Agent) -> None:
    del agent
    await session.stop(by="ana")


@pytest.mark.parametrize("came", [say_more, pause, stop, "cancelled", "crash"])
async def test_what_came_while_a_function_was_asked_comes_there_again(came: Any) -> None:
    asked, told, clock = asyncio.Event(), asyncio.Event(), HandClock()

    async def slow(state: InstructionsState) -> str:
        asked.set()
        await told.wait()
        return f"After {state.step_count} steps."

    agent = clerk(ScriptedModel(ADDS)).with_timeout(60).with_instructions(slow, every="step").build()
    async with trail_of(clock) as trail:
        dying = again_on(trail, clock, crash_at("after-hooks" if came == "crash" else "never"))
        at_work = asyncio.create_task(dying.run(agent, "go", session="s"))
        await asked.wait()
        if came == "cancelled":
            at_work.cancel()
        elif came != "crash":
            await came(again_on(trail).session("s"), agent)
        told.set()
        await asyncio.wait([at_work])
        clock.advance(600)
        if came is not stop:
            await trail.session("s").resume(agent)
        records = await trail.session("s").history()
    again = await replay(agent, Recording("s", records))
    assert [event.TYPE for event in again.events] == [record.event.TYPE for record in records]


async def test_a_subagent_has_instructions_of_its_own() -> None:
    model = ScriptedModel(["Five."])
    boss = AgentBuilder("boss").with_model(ScriptedModel([asks("clerk", "2+3?"), "Done."]))
    ran = await run(boss.with_tools(SubagentTool(clerk(model).with_instructions(today).build(), name="clerk")).build())
    assert ran.result.output == "Done."
    assert shown(model.requests[0])[1] == ("system", "It is Monday, says 1 message.")


async def test_instructions_are_recorded_with_the_agent_and_a_change_of_them_is_named() -> None:
    plain = clerk(ScriptedModel(ADDS)).build()
    agent = clerk(ScriptedModel(ADDS)).with_instructions(left, name="left", every="step", at="tail").build()
    assert plain.snapshot.fingerprint != agent.snapshot.fingerprint
    ran = await run(agent)
    (spec,) = ran.one(ExecutionStarted).agent.instructions
    assert (spec.name, spec.every, spec.at) == ("left", "step", "tail")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"function": "Be kind."}, "what writes instructions is a function, not str"),
        ({"function": lambda: "x"}, "what writes instructions"),
        ({"every": "day"}, "'day' is not a valid InstructionsTime; the times are execution, step"),
        ({"at": "head"}, "'head' is not a valid InstructionsPlace; the places are system, tail"),
        ({"name": "taken"}, "has two instructions named 'taken': give one of them another `name`"),
        ({"name": 7}, "the name of instructions is a text, not int"),
    ],
)
def test_what_is_no_such_function_is_refused_where_it_is_given(given: dict[str, Any], why: str) -> None:
    builder = clerk(ScriptedModel([])).with_instructions(left, name="taken")
    with pytest.raises(ConfigurationError, match="agent 'clerk'") as refused:
        builder.with_instructions(**cast("Any", {"function": left, **given}))
    assert why in str(refused.value)
