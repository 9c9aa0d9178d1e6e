"""The same command twice at once: whoever comes second finds what the first one did, whatever that was."""

from collections.abc import Awaitable, Callable

import pytest

from steptrail.domain.shared.run import StopReason
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call
from tests.processes.agents.interposed import Interposed

ran: list[str] = []


def comes_second(first: Callable[[], Awaitable[object]], store: Interposed) -> Interposed:
    """Return the store, on which somebody else does something between our first look and our lease."""
    others = [first]

    async def let_others_come_first(stream: str) -> None:
        del stream
        if others:
            await others.pop()()

    store.before_acquire = let_others_come_first
    return store


class Died(BaseException):
    pass


def dies_before_the_tool(point: str) -> None:
    if point == "before-tool":
        raise Died


@tool
def charge() -> str:
    """Charge the card; not to be repeated blindly."""
    ran.append("charge")
    return "charged"


def biller() -> Agent:
    return AgentBuilder("biller").with_model(ScriptedModel([call("charge"), "paid"])).with_tools(charge).build()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def test_given_another_process_answered_the_key_meanwhile_then_its_result_is_returned() -> None:
    second_store = Interposed()
    store = second_store.inner
    first = Steptrail(Environment(store=store))
    second = comes_second(lambda: first.run(biller(), "pay", session="s1", key="k"), second_store)
    result = await Steptrail(Environment(store=second)).run(biller(), "pay", session="s1", key="k")
    assert result.output == "paid"
    assert ran == ["charge"]
    assert result.state.fold.executions == 1
    await store.close()


async def test_given_another_process_crashed_on_the_key_meanwhile_then_its_run_is_recovered() -> None:
    second_store = Interposed()
    store = second_store.inner

    async def crash() -> None:
        first = Steptrail(Environment(store=store, reach=dies_before_the_tool))
        with pytest.raises(Died):
            await first.run(biller(), "pay", session="s1", key="k")

    second = Steptrail(Environment(store=comes_second(crash, second_store)))
    result = await second.run(biller(), "pay", session="s1", key="k")
    events = [record.event.TYPE for record in await second.session("s1").events()]
    assert "execution.resumed.v1" in events
    assert "tool.execution.interrupted.v1" in events
    assert result.output == "paid"
    assert ran == []
    await store.close()


async def test_given_another_process_finished_the_run_meanwhile_then_a_resume_returns_the_result() -> None:
    second_store = Interposed()
    store = second_store.inner
    dying = Steptrail(Environment(store=store, reach=dies_before_the_tool))
    with pytest.raises(Died):
        await dying.run(biller(), "pay", session="s1")
    first = Steptrail(Environment(store=store)).session("s1")
    taken = comes_second(lambda: first.resume(biller()), second_store)
    second = Steptrail(Environment(store=taken)).session("s1")
    assert (await second.resume(biller())).output == "paid"
    await store.close()


async def test_given_another_process_carried_the_stop_out_meanwhile_then_who_asked_again_finds_it_done() -> None:
    second_store = Interposed()
    store = second_store.inner
    first = Steptrail(Environment(store=store, reach=dies_before_the_tool))
    with pytest.raises(Died):
        await first.run(biller(), "pay", session="s1")
    lease = await store.acquire("agent:s1", owner="an owner who does not look")
    await first.session("s1").stop(by="ops")
    await lease.release()
    second = comes_second(lambda: first.session("s1").stop(by="ops"), second_store)
    result = await Steptrail(Environment(store=second)).session("s1").stop(by="me")
    assert result.stop_reason is StopReason.USER_REQUESTED
    await store.close()
