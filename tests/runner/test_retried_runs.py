"""`retry` lets a run go on that came to no answer: in place, with what was done, once for whoever asks."""

import asyncio

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, RunResult, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ExecutionStarted
from steptrail.errors import CommandRejected, ConfigurationError, SessionBusy, SessionNotFound
from steptrail.messages import TextPart, ToolResultPart
from steptrail.models import ModelRequest
from steptrail.testing import Reply, ScriptedModel, call
from tests.runner.kit import Crash, again_on, crash_at, trail_of

LEDGER: list[str] = []
"""What happened in the outside world."""
NO_KEY = PermissionError("no key")
SCRIPT: tuple[Reply, ...] = (call("pay", amount=5), NO_KEY, "It is paid.")


@tool(effect=ToolEffect.UNSAFE)
def pay(amount: int) -> str:
    """Pay."""
    LEDGER.append(f"paid {amount}")
    return "paid"


@pytest.fixture(autouse=True)
def nothing_has_happened() -> None:
    LEDGER.clear()


def payer(*script: Reply, steps: int = 20) -> AgentBuilder:
    return AgentBuilder("payer").with_model(ScriptedModel(script)).with_tools(pay).with_max_steps(steps)


def shown(request: ModelRequest) -> list[str]:
    said: list[str] = []
    for message in request.messages:
        texts = [part.text for part in message.parts if isinstance(part, TextPart | ToolResultPart)]
        said += [f"{message.role.value}: {text}" for text in texts or [each.name for each in message.tool_calls]]
    return said


async def failed(trail: Steptrail, agent: Agent, *, key: str | None = None) -> RunResult:
    """Pay, and fail at the model call after that."""
    result = await trail.run(agent, "Pay 5.", session="s", key=key)
    assert (result.status, LEDGER) == ("failed", ["paid 5"])
    return result


async def starts(trail: Steptrail) -> list[ExecutionStarted]:
    events = [record.event for record in await trail.session("s").events()]
    return [event for event in events if isinstance(event, ExecutionStarted)]


async def test_a_failed_run_goes_on_with_what_was_done_and_nothing_is_done_or_said_twice() -> None:
    async with trail_of() as trail:
        model = ScriptedModel(SCRIPT)
        agent = AgentBuilder("payer").with_model(model).with_tools(pay).build()
        await failed(trail, agent)
        after = await trail.session("s").retry(agent, by="ana", reason="the key is there now")
        assert (after.output, after.execution_id, after.stored) == ("It is paid.", "s:2", False)
        assert LEDGER == ["paid 5"]
        assert shown(model.requests[-1]) == ["user: Pay 5.", "assistant: pay", "tool: paid"]
        first, again = await starts(trail)
        assert (first.by, again.by, again.reason, again.retry_of) == ("user", "ana", "the key is there now", "s:1")
        assert [message.text for message in after.state.messages if message.is_user()] == ["Pay 5."]


async def test_a_run_that_met_a_limit_goes_on_with_a_higher_one() -> None:
    async with trail_of() as trail:
        agent = payer(call("pay", amount=5), "It is paid.", steps=1).build()
        limited = await trail.run(agent, "Pay 5.", session="s")
        assert limited.stop_reason == "steps_limit"
        after = await trail.session("s").retry(agent, limits=Limits(max_steps=5))
        assert (after.output, after.stop_reason, LEDGER) == ("It is paid.", "completed", ["paid 5"])


async def test_a_run_that_was_stopped_goes_on_and_a_call_of_unknown_outcome_is_told_and_not_repeated() -> None:
    async with trail_of(reach=crash_at("after-tool")) as trail:
        model = ScriptedModel([call("pay", amount=5), "It may be paid."])
        agent = AgentBuilder("payer").with_model(model).with_tools(pay).build()
        with pytest.raises(Crash):
            await trail.run(agent, "Pay 5.", session="s")
        session = again_on(trail).session("s")
        assert (await session.stop(by="ana")).stop_reason == "user_requested"
        after = await session.retry(agent)
        assert (after.output, LEDGER) == ("It may be paid.", ["paid 5"])
        *_, told = shown(model.requests[-1])
        assert "unknown" in told


async def test_a_policy_may_be_given_for_the_retry_alone() -> None:
    async with trail_of() as trail:
        agent = payer(NO_KEY, ConnectionError("no line"), "Here I am.").build()
        await trail.run(agent, "Go.", session="s")
        after = await trail.session("s").retry(agent, error_policy=ErrorPolicy.retry_all(3))
        assert (after.output, after.state.step_count) == ("Here I am.", 2)


async def test_what_has_answered_is_not_retried() -> None:
    async with trail_of() as trail:
        agent = payer("Done.", steps=1).build()
        assert (await trail.run(agent, "Go.", session="s")).stop_reason == "steps_limit"
        with pytest.raises(CommandRejected, match="execution s:1 has answered: `send` asks for more"):
            await trail.session("s").retry(agent)
        with pytest.raises(SessionNotFound):
            await trail.session("nobody").retry(agent)
        assert len(await starts(trail)) == 1


async def test_whoever_asks_for_what_was_retried_gets_what_the_newest_retry_ended_with() -> None:
    async with trail_of() as trail:
        agent = payer(call("pay", amount=5), NO_KEY, NO_KEY, "It is paid.", "Good bye.").build()
        await failed(trail, agent, key="order-7")
        for _ in range(2):
            stored = await trail.run(agent, "Pay 5.", session="s", key="order-7")
            assert (stored.status, stored.stored) == ("failed", True)
            await trail.session("s").retry(agent)
        by_input = await trail.run(agent, "Pay 5.", session="s")
        by_key = await trail.run(agent, "Pay 5.", session="s", key="order-7")
        assert [(each.output, each.execution_id, each.stored) for each in (by_input, by_key)] == [
            ("It is paid.", "s:3", True)
        ] * 2
        await trail.session("s").send(agent, "Thanks.")
        later = await trail.run(agent, "Pay 5.", session="s", key="order-7")
        assert (later.output, later.execution_id, LEDGER) == ("It is paid.", "s:3", ["paid 5"])


async def test_a_retry_that_crashed_is_gone_on_with_by_whoever_asks_for_its_input_or_its_key() -> None:
    for ask in ("input", "key", "retry"):
        async with trail_of() as trail:
            LEDGER.clear()
            agent = payer(*SCRIPT).build()
            await failed(trail, agent, key="order-7")
            dying = again_on(trail, reach=crash_at("after-inference")).session("s")
            with pytest.raises(Crash):
                await dying.retry(agent, key="again")
            if ask == "retry":
                after = await trail.session("s").retry(agent, key="again")
            else:
                key = "order-7" if ask == "key" else None
                after = await trail.run(agent, "Pay 5.", session="s", key=key)
            assert (after.output, after.execution_id, LEDGER) == ("It is paid.", "s:2", ["paid 5"])
            assert len(await starts(trail)) == 2


async def test_the_same_key_is_one_retry_also_when_that_failed() -> None:
    async with trail_of() as trail:
        agent = payer(call("pay", amount=5), NO_KEY, NO_KEY, "It is paid.").build()
        await failed(trail, agent, key="order-7")
        first = await trail.session("s").retry(agent, key="again")
        second = await trail.session("s").retry(agent, key="again")
        assert (first.status, first.stored) == ("failed", False)
        assert (second.status, second.stored, second.execution_id) == ("failed", True, "s:2")
        assert (await trail.session("s").retry(agent, key="once more")).output == "It is paid."
        assert (await trail.session("s").retry(agent, key="again")).output == "It is paid."
        with pytest.raises(CommandRejected, match="came with another input, context or command before"):
            await trail.run(agent, "Pay 5.", session="s", key="again")
        with pytest.raises(CommandRejected, match="came with another input, context or command before"):
            await trail.session("s").retry(agent, key="order-7")


async def test_of_two_retries_at_once_one_is_busy_however_quick_the_other_is() -> None:
    for last in ("It is paid.", NO_KEY):
        async with trail_of() as trail:
            LEDGER.clear()
            agent = payer(call("pay", amount=5), NO_KEY, last, last).build()
            await failed(trail, agent)
            both = [trail.session("s").retry(agent) for _ in range(2)]
            ended = await asyncio.gather(*both, return_exceptions=True)
            assert {type(each) for each in ended} == {RunResult, SessionBusy}
            assert len(await starts(trail)) == 2


async def test_two_at_once_under_one_key_are_one_retry() -> None:
    async with trail_of() as trail:
        agent = payer(*SCRIPT).build()
        await failed(trail, agent)
        both = [trail.session("s").retry(agent, key="again") for _ in range(2)]
        ended = await asyncio.gather(*both, return_exceptions=True)
        assert {type(each) for each in ended} <= {RunResult, SessionBusy}
        assert len(await starts(trail)) == 2
        assert (await trail.session("s").retry(agent, key="again")).output == "It is paid."


async def test_a_fork_of_a_failed_run_is_retried_on_its_own() -> None:
    async with trail_of() as trail:
        agent = payer(*SCRIPT).build()
        await failed(trail, agent)
        fork = await trail.session("s").fork(session="f")
        after = await fork.retry(agent)
        assert (after.output, after.execution_id, LEDGER) == ("It is paid.", "f:2", ["paid 5"])
        assert (await trail.session("s").state()).fold.executions == 1
        again = await (await fork.fork(session="g")).state()
        assert again.execution is not None
        assert again.execution.retry_of == "g:1"


def test_the_blocking_twin_retries_as_well() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        agent = payer(*SCRIPT, steps=1).build()
        trail.run(agent, "Pay 5.", session="s")
        session = trail.session("s")
        assert session.retry(agent, by="ana", reason="again", limits=Limits()).status == "failed"
        after = session.retry(agent, error_policy=ErrorPolicy.retry_all(1), key="k")
        assert (after.output, LEDGER) == ("It is paid.", ["paid 5"])


async def test_why_of_what_was_retried_names_the_retry_and_why_of_the_retry_what_it_retries() -> None:
    async with trail_of() as trail:
        agent = payer(*SCRIPT).build()
        await failed(trail, agent)
        await trail.session("s").retry(agent)
        session = trail.session("s")
        newest = await session.why()
        assert (newest.status, newest.retry_of, newest.retried_as) == ("completed", "s:1", None)
        for name in (1, "s:1"):
            first = await session.why(execution=name)
            assert (first.status, first.retry_of, first.retried_as) == ("failed", None, "s:2")
        assert (await session.why(execution=2)) == newest
        with pytest.raises(ConfigurationError, match="no execution 3 in the session: it has s:1, s:2"):
            await session.why(execution=3)


async def test_why_of_a_fork_knows_what_was_before_it_by_its_own_ids_and_by_those_of_its_source() -> None:
    async with trail_of() as trail:
        agent = payer(*SCRIPT).build()
        await failed(trail, agent)
        fork = await trail.session("s").fork(session="f")
        await fork.retry(agent)
        assert (await fork.why()).retry_of == "f:1"
        first = await fork.why(execution=1)
        for name in ("f:1", "s:1"):
            assert await fork.why(execution=name) == first
        assert (await fork.why(execution="f:2")).status == "completed"
