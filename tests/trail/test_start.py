"""`start` stores that something is to be answered, and runs nothing; whoever comes first begins with it, once."""

import asyncio
import json
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.commands import Start
from steptrail.domain.agent.events import ExecutionResumed, ExecutionStarted
from steptrail.domain.agent.ids import SessionId
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.errors import CommandRejected, ConfigurationError, SessionErased
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import call
from steptrail.workflow import Workflow
from tests.runner.kit import Crash, agent_of, crash_at
from tests.trail.workers import PATIENCE, ended, opened

AGENT = agent_of([call("add", a=1, b=2), "Three."]).build()


async def test_a_started_session_is_pending_due_and_not_crashed_until_a_worker_answers_it(store_url: str) -> None:
    async with opened(store_url) as trail:
        session = await trail.start(AGENT, "1 + 2?", session="s", metadata={"user": "ana"})
        state = await session.state()
        assert (state.status, state.is_open, state.step_count) == (ExecutionStatus.PENDING, True, 0)
        (row,) = await trail.runs(status="pending")
        assert (row.standing, row.is_crashed, row.executions) == (StandingState.PENDING, False, 1)
        assert [each.session_id for each in await trail.due()] == ["s"]
        assert "waiting for a worker since" in (await session.why()).verdict
        async with trail.work(AGENT):
            await ended(trail, "s")
        done = await session.state()
        assert (done.output, done.metadata["user"], done.fold.segment) == ("Three.", "ana", 1)
        started, resumed = [
            each.event for each in await session.events() if isinstance(each.event, ExecutionStarted | ExecutionResumed)
        ]
        assert isinstance(started, ExecutionStarted)
        assert (started.worker, started.segment) == (None, 0)
        assert isinstance(resumed, ExecutionResumed)
        assert (resumed.ended_by, resumed.segment, resumed.was_productive) == (SegmentEnd.START, 1, True)


async def test_to_start_the_same_again_starts_it_once_also_at_the_same_moment(store_url: str) -> None:
    async with opened(store_url) as trail, opened(store_url) as other:
        await asyncio.gather(*(each.start(AGENT, "1 + 2?", session="s") for each in (trail, other) for _ in range(5)))
        await asyncio.gather(*(each.start(AGENT, "1 + 2?", key="k") for each in (trail, other) for _ in range(5)))
        keyed = await trail.start(AGENT, "1 + 2?", key="k")
        assert len(await trail.runs()) == 2
        async with trail.work(AGENT):
            await ended(trail, "s", keyed.session_id)
        again = await trail.start(AGENT, "1 + 2?", key="k")
        assert (await again.state()).fold.executions == 1
        assert (await trail.run(AGENT, "1 + 2?", session="s")).stored
        with pytest.raises(CommandRejected, match="another input"):
            await trail.start(AGENT, "2 + 2?", key="k")


async def test_another_input_is_refused_while_one_is_pending_and_begins_a_run_after_it(store_url: str) -> None:
    async with opened(store_url) as trail:
        await trail.start(AGENT, "1 + 2?", session="s")
        with pytest.raises(CommandRejected, match="answers another input"):
            await trail.start(AGENT, "2 + 2?", session="s")
        assert (await trail.run(AGENT, "1 + 2?", session="s")).output == "Three."
        await trail.start(AGENT, "2 + 2?", session="s")
        state = await trail.session("s").state()
        assert (state.status, state.fold.executions) == (ExecutionStatus.PENDING, 2)
        assert (await trail.session("s").resume(agent_of(["", "", "Four."]).build())).output == "Four."


async def test_what_is_said_to_a_pending_session_is_answered_with_it(store_url: str) -> None:
    agent = agent_of(["Both."]).build()
    async with opened(store_url) as trail:
        await trail.start(agent, "one", session="s")
        result = await trail.session("s").send(agent, "two")
        assert (result.output, [m.text for m in result.state.messages]) == ("Both.", ["one", "two", "Both."])


async def test_what_is_posted_is_stored_at_once_and_answered_by_a_worker_wherever_the_session_stands(
    store_url: str,
) -> None:
    agent = agent_of(["One.", "Two.", "Three."]).build()
    async with opened(store_url) as trail:
        session = trail.session("s")
        assert (await session.post(agent, "a", key="1")).status is ExecutionStatus.PENDING
        joined = await session.post(agent, "b", key="2")
        assert [message.text for message in joined.state.messages] == ["a", "b"]
        async with trail.work(agent):
            await ended(trail, "s")
            assert [m.text for m in (await session.state()).messages] == ["a", "b", "One."]
            await session.post(agent, "c", key="3")
            await session.post(agent, "c", key="3")
            async with asyncio.timeout(PATIENCE):
                while (await session.state()).output != "Two.":
                    await asyncio.sleep(0.01)
        assert [m.text for m in (await session.state()).messages] == ["a", "b", "One.", "c", "Two."]
        with pytest.raises(CommandRejected):
            await session.post(agent, "something else", key="3")


async def test_messages_that_are_posted_at_the_same_moment_are_all_said(store_url: str) -> None:
    agent = agent_of(["Done."] * 20).build()
    said = [f"m{number}" for number in range(12)]
    async with opened(store_url) as trail, opened(store_url) as other:
        async with trail.work(agent):
            posts = [(trail, other)[n % 2].session("s").post(agent, text) for n, text in enumerate(said)]
            await asyncio.gather(*posts)
            await ended(trail, "s")
        users = [message.text for message in (await trail.session("s").state()).messages if message.is_user()]
        assert sorted(users) == sorted(said)


@pytest.mark.parametrize("command", ["pause", "stop"])
async def test_a_pending_session_takes_a_pause_and_a_stop_at_once(store_url: str, command: str) -> None:
    async with opened(store_url) as trail:
        session = await trail.start(AGENT, "1 + 2?", session="s")
        if command == "stop":
            stopped = await session.stop(by="ana")
            assert (stopped.status, stopped.stop_reason) == (ExecutionStatus.COMPLETED, "user_requested")
            assert list(await trail.due()) == []
            return
        assert (await session.pause(by="ana")).status is ExecutionStatus.PAUSED
        assert list(await trail.due()) == []
        assert (await session.resume(AGENT)).output == "Three."


async def test_a_claim_of_a_pending_session_that_dies_is_taken_up_and_counts_as_one_crash(store_url: str) -> None:
    async with opened(store_url) as trail:
        await trail.start(AGENT, "1 + 2?", session="s")
    async with Steptrail(Environment(store=open_store(store_url), reach=crash_at("before-inference"))) as dying:
        with pytest.raises(Crash):
            await dying.session("s").resume(AGENT)
    async with opened(store_url) as trail:
        assert [row.is_crashed for row in await trail.due()] == [True]
        async with trail.work(AGENT):
            await ended(trail, "s")
        assert (await trail.session("s").state()).fold.segment == 2


async def test_who_follows_a_pending_session_sees_all_of_it(store_url: str) -> None:
    async with opened(store_url) as trail:
        session = await trail.start(AGENT, "1 + 2?", session="s")
        async with session.follow() as following, trail.work(AGENT):
            seen = [each async for each in following]
        assert len(seen) >= (await session.state()).version


def test_the_command_line_starts_and_prints_the_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, file = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "app.py"
    file.write_text(
        "from steptrail import AgentBuilder\nfrom steptrail.testing import ScriptedModel\n"
        'agent = AgentBuilder("greeter").with_model(ScriptedModel(["Hello."])).build()\n',
        encoding="utf-8",
    )
    started = ["start", str(file), "hi", "--id", "g", "--store", url]
    assert (main(started), main(started)) == (0, 0)
    assert capsys.readouterr().out == "g\ng\n"
    assert main(["due", "--store", url, "--json"]) == 0
    assert [row["status"] for row in json.loads(capsys.readouterr().out)] == ["pending"]
    assert main(["why", "g", "--store", url]) == 0
    assert "waiting for a worker since" in capsys.readouterr().out
    assert main(["run", str(file), "hi", "--id", "g", "--store", url]) == 0
    assert "Hello." in capsys.readouterr().out


@pytest.mark.parametrize("name", [".", ".."])
async def test_nothing_begins_under_a_name_that_leads_elsewhere_in_an_address(name: str) -> None:
    flow = Workflow("t").noop("a").build()
    async with opened("sqlite:///:memory:") as trail:
        await trail.run(agent_of(["Hi."]).build(), "Hello.", session="..a")
        await trail.run(flow, session="..b")
        for begun in (
            lambda: trail.run(AGENT, "1 + 2?", session=name),
            lambda: trail.start(AGENT, "1 + 2?", session=name),
            lambda: trail.start(flow, session=name),
            lambda: trail.session("..a").fork(session=name),
            lambda: trail.flow("..b").fork(session=name),
        ):
            with pytest.raises(ConfigurationError, match="leads elsewhere"):
                await begun()
        assert {each.session_id for each in await trail.runs()} == {"..a", "..b"}


async def test_one_that_began_so_before_is_worked_on_looked_at_and_erased_as_any_other() -> None:
    async with opened("sqlite:///:memory:") as trail:
        control = SessionControl(Environment(store=trail.store), SessionId(".."))
        await control.start(AGENT, Start(input=Message.user("1 + 2?"), agent=AGENT.snapshot, worker=None))
        async with trail.work(AGENT):
            await ended(trail, "..")
        assert (await trail.session("..").state()).output == "Three."
        await trail.erase("..", by="ana", reason="asked for")
        with pytest.raises(SessionErased):
            await trail.session("..").state()
