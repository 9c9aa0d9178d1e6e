"""Fallback models at work: the next one is asked when the one before fails, and everybody is told which that was."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import cast

import pytest
from pydantic import BaseModel

from steptrail import Agent, AgentBuilder, ErrorPolicy
from steptrail.domain.agent.events import (
    ExecutionResumed,
    ExecutionStarted,
    InferenceStarted,
    ModelSwitched,
    RetryScheduled,
    WaitStarted,
)
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import LiveUpdate, ReplyDelta
from steptrail.domain.output import OutputMode
from steptrail.errors import Backoff, CommandRejected, ConfigurationError, ErrorType
from steptrail.interfaces.python.loading import close_models
from steptrail.models import ModelDriver, PriceTable
from steptrail.testing import Recording, Reply, ScriptedModel, call, replay
from steptrail.tools import SubagentTool
from tests.runner.families import asks
from tests.runner.kit import Crash, HandClock, add, again_on, crash_at, run, trail_of


class Limited(Exception):
    """A provider says: not so fast."""

    status_code = 429

    def __init__(self, retry_after: str | None = None) -> None:
        super().__init__("slow down")
        self.headers = {} if retry_after is None else {"retry-after": retry_after}


BUSY = Limited()


def first(*script: Reply) -> ScriptedModel:
    return ScriptedModel(script, name="first")


def second(*script: Reply, behind: int = 2) -> ScriptedModel:
    """A model whose script begins behind so many calls of the one before."""
    return ScriptedModel([*["never said"] * behind, *script], name="second")


def falling_back(*script: Reply, after: int = 2) -> AgentBuilder:
    return AgentBuilder("clerk").with_model(first(BUSY, BUSY)).with_fallback(second(*script), after=after)


async def test_the_next_model_answers_and_each_attempt_is_in_the_log() -> None:
    ran = await run(falling_back("Hello.").build())
    assert ran.ending == ("completed", "completed")
    assert ran.result.output == "Hello."
    assert [each.model for each in ran.all(InferenceStarted)] == ["first", "first", "second"]
    switch = ran.one(ModelSwitched)
    assert str(switch) == "first -> second after 2 rate limits, step 2"
    assert ran.why.state.switches == (switch,)
    assert ran.why.to_dict()["switches"] == [
        {"step": 2, "fromModel": "first", "toModel": "second", "errorType": "rate_limit", "failures": 2}
    ]


async def test_a_try_with_the_same_model_waits_as_the_policy_says_and_a_switch_waits_for_nothing() -> None:
    policy = ErrorPolicy.stop_on_any_error().with_backoff(Backoff.linear(5.0))
    model, clock = first(BUSY, Limited("3600")), HandClock()
    agent = AgentBuilder("clerk").with_model(model).with_fallback(second("Hi.")).with_error_policy(policy).build()
    ran = await run(agent, clock=clock)
    assert ran.result.output == "Hi."
    assert [each.delay_seconds for each in ran.all(RetryScheduled)] == [5.0]
    assert len(ran.all(WaitStarted)) == 1


async def test_the_run_stays_with_it_and_a_new_execution_begins_with_the_first() -> None:
    model = ScriptedModel([BUSY, BUSY, "", "", "I am back."], name="first")
    agent = AgentBuilder("clerk").with_model(model).with_fallback(second(call("add", a=1, b=2), "3."))
    built = agent.with_tools(add).build()
    async with trail_of() as trail:
        assert (await trail.run(built, "go", session="s")).output == "3."
        assert (await trail.session("s").send(built, "again")).output == "I am back."
        asked = [e.event.model for e in await trail.session("s").events() if isinstance(e.event, InferenceStarted)]
        assert asked == ["first", "first", "second", "second", "first"]
        assert (await trail.session("s").why()).state.switches == ()


async def test_when_all_have_failed_the_policy_decides(caplog: pytest.LogCaptureFixture) -> None:
    ran = await run(falling_back(BUSY).build())
    asked = [name for each in caplog.records for name in ("first", "second") if f"model {name} failed" in each.message]
    assert asked == ["first", "first", "second"]
    assert ran.ending == ("failed", "error")
    assert ran.why.error is not None
    assert ran.why.error.error.type is ErrorType.RATE_LIMIT


async def test_replies_are_priced_and_counted_by_the_model_that_gave_them() -> None:
    prices = PriceTable.of({"first": {"input": 1, "output": 1}, "second": {"input": 10, "output": 10}}, version="1")
    ran = await run(falling_back("Hi.").with_max_cost("1", prices=prices).build())
    assert ran.result.cost is not None
    assert ran.result.cost.usd == Decimal("0.00015")
    assert [each.asked_for for each in ran.result.state.model_usage] == ["second"]


async def test_a_model_without_a_price_is_never_asked_under_a_limit_on_the_cost() -> None:
    prices = PriceTable.of({"first": {"input": 1, "output": 1}}, version="1")
    ran = await run(falling_back("Never said.").with_max_cost("1", prices=prices).build())
    assert ran.ending == ("failed", "guard")
    assert [each.model for each in ran.all(InferenceStarted)] == ["first", "first"]


class Total(BaseModel):
    eur: int


class Picky(ScriptedModel):
    """A model that is asked for an answer in one way only."""

    def __init__(self, script: Sequence[Reply], mode: OutputMode, name: str) -> None:
        super().__init__(script, name=name)
        self._mode = mode

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        return (self._mode,)


async def test_each_model_is_asked_for_an_answer_in_a_way_that_it_takes() -> None:
    model = Picky([BUSY, BUSY], OutputMode.NATIVE, "first")
    other = Picky(["", "", call("final_result", eur=7)], OutputMode.TOOL, "second")
    third = Picky([], OutputMode.TOOL, "third")
    agent = AgentBuilder("clerk").with_output(Total).with_model(model).with_fallback(other, third).build()
    ran = await run(agent)
    assert ran.result.output == Total(eur=7)
    assert [each.output_mode for each in ran.all(InferenceStarted)] == ["native", "native", "tool"]
    recorded = ran.one(ExecutionStarted).agent.fallback
    assert recorded is not None
    assert [each.output and each.output.mode for each in recorded.models] == ["tool", "tool"]


async def test_a_stream_comes_from_the_model_that_is_asked() -> None:
    seen: list[LiveUpdate] = []
    async with trail_of() as trail:
        await trail.run(falling_back("Hello you.").build(), "go", session="s", on_update=seen.append)
    assert [each.text for each in seen if isinstance(each, ReplyDelta) and each.text] == ["Hello ", "you."]


@pytest.mark.parametrize("point", ["before-append", "after-append"])
async def test_another_process_goes_on_with_the_model_that_the_run_has_come_to(point: str) -> None:
    whole = await run(falling_back("Hi.").build())
    for number in range(1, 7):
        clock = HandClock()
        dying = trail_of(clock, crash_at(point, number))
        try:
            await dying.run(falling_back("Hi.").build(), "go", session="s")
        except Crash:
            pass
        async with again_on(dying, clock) as trail:
            result = await trail.run(falling_back("Hi.").build(), "go", session="s")
            events = [each.event for each in await trail.session("s").events()]
        assert result.output == "Hi."
        assert [e for e in events if isinstance(e, ModelSwitched)] == whole.all(ModelSwitched)
        models = [e.model for e in events if isinstance(e, InferenceStarted) and e.attempt == 1]
        assert models == ["first", "first", "second"]


async def test_a_fork_goes_on_with_it_and_a_retry_begins_with_the_first() -> None:
    agent = AgentBuilder("clerk").with_model(first(BUSY, BUSY, "", "", "From the first.")).with_tools(add)
    built = agent.with_fallback(second(call("add", a=1, b=2), ConnectionError("cut"))).build()
    async with trail_of() as trail:
        assert (await trail.run(built, "go", session="s")).status == "failed"
        session = trail.session("s")
        place = next(e.version for e in await session.events() if e.event.TYPE == "tool.execution.completed.v1") + 1
        fork = await session.fork(at=place)
        other = AgentBuilder("clerk").with_model(first()).with_tools(add).with_fallback(second("", "From the second."))
        assert (await fork.resume(other.build())).output == "From the second."
        assert (await session.retry(built)).output == "From the first."


async def test_an_agent_without_that_model_goes_on_with_its_first() -> None:
    dying = trail_of(reach=crash_at("after-append", 3))
    with pytest.raises(Crash):
        await dying.run(falling_back("Never said.").build(), "go", session="s")
    plain = AgentBuilder("clerk").with_model(first("", "", "From the first.")).build()
    async with again_on(dying) as trail:
        assert (await trail.session("s").resume(plain)).output == "From the first."
        events = [each.event for each in await trail.session("s").events()]
    assert [e.changes for e in events if isinstance(e, ExecutionResumed)] == [("model",)]


async def test_a_resume_with_another_model_does_not_wait_as_the_one_before_was_to() -> None:
    def agent(model: ScriptedModel) -> Agent:
        return AgentBuilder("clerk").with_model(model).with_error_policy(ErrorPolicy.retry_all(3)).build()

    async with trail_of() as trail:
        assert (await trail.run(agent(first(Limited("7200"))), "go", session="s")).status == "waiting"
        assert (await trail.session("s").resume(agent(first("", "Too soon.")))).status == "waiting"
        result = await trail.session("s").resume(agent(second("Hi.", behind=1)))
    assert (result.status, result.output) == ("completed", "Hi.")


async def test_a_strict_resume_after_a_switch_names_only_what_has_changed() -> None:
    dying = trail_of(reach=crash_at("after-append", 3))
    with pytest.raises(Crash):
        await dying.run(falling_back("Hi.").build(), "go", session="s")
    changed = falling_back("Hi.").with_system_prompt("Be brief.").build()
    async with again_on(dying) as trail:
        with pytest.raises(CommandRejected, match=r"the agent is not the recorded one: system_prompt$"):
            await trail.session("s").resume(changed, strict=True)


async def test_a_recorded_switch_is_replayed_without_a_model() -> None:
    async with trail_of() as trail:
        await trail.run(falling_back("Hi.").build(), "go", session="s")
        recording = Recording("s", await trail.session("s").history())
    again = await replay(falling_back().build(), recording)
    assert again.result.output == "Hi."
    assert [each.event.model for each in again.records if isinstance(each.event, InferenceStarted)][-1] == "second"


async def test_a_subagent_has_fallback_models_of_its_own() -> None:
    boss = AgentBuilder("boss").with_model(ScriptedModel([asks("clerk", "go"), "Done."], name="boss"))
    ran = await run(boss.with_tools(SubagentTool(falling_back("Hi.").build(), name="clerk")).build())
    assert ran.result.output == "Done."
    assert {each.model for each in ran.all(InferenceStarted)} == {"boss"}
    assert [each.asked_for for each in ran.result.state.model_usage] == ["boss", "second"]


async def test_the_models_of_an_agent_are_closed_together_even_if_one_cannot_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    class Open(ScriptedModel):
        async def close(self) -> None:
            closed.append(name := self.describe().model)
            if name == "b":
                raise OSError("the connection is gone")

    models = [Open([], name=name) for name in "abc"]
    await close_models(AgentBuilder("clerk").with_model(models[0]).with_fallback(*models[1:]).build())
    assert closed == ["a", "b", "c"]
    assert "a model of clerk could not be closed" in caplog.text


def test_the_fingerprint_of_an_agent_names_its_fallback_models() -> None:
    def of(*models: ModelDriver, after: int = 2) -> str:
        return AgentBuilder("x").with_model(first()).with_fallback(*models, after=after).build().snapshot.fingerprint

    one, other, both, later = of(second()), of(first()), of(second(), first()), of(second(), after=3)
    plain = AgentBuilder("x").with_model(first()).build().snapshot.fingerprint
    assert len({one, other, both, later, plain}) == 5
    assert of(second()) == one


MODEL, OTHER = first(), second()


REFUSED: list[tuple[Callable[[AgentBuilder], object], str]] = [
    (lambda builder: builder.with_fallback(), "is given no models"),
    (lambda builder: builder.with_fallback(cast("ModelDriver", "gpt-5")), "'gpt-5' is no model"),
    (lambda builder: builder.with_fallback(MODEL).build(), "has the same model twice"),
    (lambda builder: builder.with_fallback(OTHER, OTHER).build(), "has the same model twice"),
    (lambda builder: builder.with_fallback(OTHER).with_model(OTHER).build(), "has the same model twice"),
    (lambda builder: builder.with_fallback(OTHER, after=0), "`after` is a number from 1"),
    (lambda builder: builder.with_fallback(OTHER, after=cast("int", "two")), "`after` is a whole number, not str"),
    (
        lambda builder: builder.with_fallback(OTHER, on=()),
        "`on` takes one or more of rate_limit, timeout, model",
    ),
    (lambda builder: builder.with_fallback(OTHER, on=["validation"]), "not .*validation"),
    (lambda builder: builder.with_fallback(OTHER, on=["slow"]), "not .*slow"),
    (lambda builder: builder.with_fallback(OTHER, on="timeout"), "`on`: Expected a list, got `str`"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_a_fallback_that_cannot_be_is_refused_at_once(given: Callable[[AgentBuilder], object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        given(AgentBuilder("x").with_model(MODEL))


def test_a_fallback_comes_after_the_first_model() -> None:
    with pytest.raises(ConfigurationError, match="agent 'x': `with_fallback` comes after `with_model`"):
        AgentBuilder("x").with_fallback(OTHER)
