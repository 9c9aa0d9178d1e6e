"""Forks on a real store: they share a past by reference, and from there on each goes its own way."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import structs

from steptrail import AgentBuilder, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.errors import CommandRejected, ConfigurationError, CorruptRecord, SessionNotFound
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead
from steptrail.events import SessionForked, StepCompleted
from steptrail.inspector import Access
from steptrail.interfaces.http.inspector.place import Place
from steptrail.interfaces.http.inspector.run import read_run
from steptrail.interfaces.python.explaining import Explainers
from steptrail.projections.masking import Masking
from steptrail.projections.stop_reasons import STOP_REASON_TYPES
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call
from tests.harness.hands import by_hand
from tests.trail.test_log_reader import Counting

EFFECTS: list[str] = []
CHAIN = 500
"""Where each fork was read inside the one that goes on from it, Python had no room for so many."""


@tool(effect=ToolEffect.KEYED)
def book(room: str, context: ToolContext) -> str:
    """Book a room."""
    EFFECTS.append(context.effect_id)
    return f"{room} booked"


def desk(*script: Reply) -> Agent:
    """A scripted model goes by how many replies there have been, those of the past included."""
    return AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(book).build()


SOURCE = desk(call("book", room="a"), call("book", room="b"), "Both.")


async def on_a_store(url: str, scenario: Callable[[Steptrail], Awaitable[None]]) -> None:
    EFFECTS.clear()
    async with Steptrail.open(url) as trail:
        await trail.run(SOURCE, "Book two", session="s", metadata={"team": "a"})
        await scenario(trail)


async def after_step(trail: Steptrail, number: int) -> int:
    events = await trail.session("s").events()
    return next(e.version for e in events if isinstance(e.event, StepCompleted) and e.event.number == number)


async def test_a_fork_after_the_first_step_takes_another_way_and_its_source_does_not_notice(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        before = await trail.session("s").state()
        fork = await trail.session("s").fork(at=await after_step(trail, 1), session="f", by="ana", reason="cheaper")
        assert (await fork.result()).status == "paused"
        other = desk(call("book", room="a"), call("book", room="c"), "A and c.")
        done = await fork.resume(other)
        assert (done.status, done.output) == ("completed", "A and c.")
        assert EFFECTS == ["s:1:1:0", "s:1:2:0", "f:1:2:0"]
        assert dict(done.state.metadata) == {"team": "a"}
        assert [step.number for step in done.state.steps] == [1, 2, 3]
        after = await trail.session("s").state()
        assert (after.version, list(after.messages)) == (before.version, list(before.messages))

    await on_a_store(store_url, scenario)


async def test_the_past_is_shared_and_not_copied(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        fork = await trail.session("s").fork(session="f")
        (own,) = await fork.events()
        assert isinstance(own.event, SessionForked)
        past = await trail.session("s").events()
        assert list(await fork.history()) == [*past, own]
        ends = [record for record in past if record.event.TYPE in STOP_REASON_TYPES]
        assert len(ends) == 2
        assert list(await fork.history(types=STOP_REASON_TYPES)) == ends
        assert list(await fork.history(types=[SessionForked.TYPE])) == [own]
        assert list(await trail.session("s").history(types=STOP_REASON_TYPES, at=ends[0].version)) == ends[:1]
        assert (await fork.state()).total_usage == (await trail.session("s").state()).total_usage

    await on_a_store(store_url, scenario)


async def test_the_past_is_read_once() -> None:
    store = Counting()
    async with Steptrail(Environment(store=store)) as trail:
        await trail.run(desk("Hello."), "hi", session="s")
        store.asked.clear()
        await trail.session("s").fork(session="f")
        assert store.asked.count("agent:s") == 1
        assert (await trail.session("f").state()).agent_id == "f"
        assert [row.session_id for row in await trail.runs()] == ["f", "s"]


async def test_a_session_can_be_forked_from_a_fork_any_number_of_times(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        past, store = await trail.session("s").events(), trail.store
        (own,) = await (await trail.session("s").fork(session="f1")).events()
        assert isinstance(own.event, SessionForked)
        for number in range(1, CHAIN):
            begun = await store.read(f"agent:f{number}")
            forked = structs.replace(own.event, source=f"f{number}", version=1, digest=begun.head.digest.hex())
            head = CommitHead(commit_id=f"c{number}", actor="ana")
            await store.append(f"agent:f{number + 1}", EMPTY_STREAM, Commit(head, ((own.at, forked),)))
        last = trail.session(f"f{CHAIN}")
        assert len(await last.history()) == len(past) + CHAIN
        assert len(await last.history(types=[SessionForked.TYPE])) == CHAIN
        assert (await last.why()).status == "completed"
        said = await (await last.fork(session="f")).send(desk("", "", "", "Both, still."), "And now?")
        assert said.output == "Both, still."

    await on_a_store(store_url, scenario)


async def test_a_fork_that_goes_on_from_itself_is_damage(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        (own,) = await (await trail.session("s").fork(session="f")).events()
        assert isinstance(own.event, SessionForked)
        forked = structs.replace(own.event, source="g", version=1)
        await trail.store.append(
            "agent:g", EMPTY_STREAM, Commit(CommitHead(commit_id="c", actor="ana"), ((own.at, forked),))
        )
        with pytest.raises(CorruptRecord, match="it goes on from agent:g, which goes on from it"):
            await trail.session("g").state()
        with pytest.raises(CorruptRecord, match="it goes on from agent:g, which goes on from it"):
            await trail.session("g").history(types=[SessionForked.TYPE])

    await on_a_store(store_url, scenario)


async def test_a_fork_of_a_finished_session_answers_the_next_input_with_what_was_said(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        fork = await trail.session("s").fork(session="f")
        done = await fork.send(desk("", "", "", "Only those."), "Any more?")
        assert (done.status, done.output, done.execution_id) == ("completed", "Only those.", "f:2")
        assert [message.text for message in done.state.messages if message.is_user()] == ["Book two", "Any more?"]
        assert (await fork.state(at=1)).version == 1

    await on_a_store(store_url, scenario)


async def test_a_fork_of_a_fork_explains_itself(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        first = await trail.session("s").fork(at=await after_step(trail, 1), session="f")
        second = await first.fork(session="g")
        done = await second.resume(desk("", "Enough."))
        assert (done.status, done.output) == ("completed", "Enough.")
        why = await second.why()
        assert why.verdict.startswith("completed, stopped after 2 steps (completed)")
        assert why.events["forked"] == 1
        rows = {row.session_id: row for row in await trail.runs()}
        assert (rows["f"].status, rows["f"].steps, rows["g"].status, rows["g"].steps) == ("paused", 1, "completed", 2)

    await on_a_store(store_url, scenario)


async def test_where_a_step_is_open_and_into_what_exists_it_is_refused(store_url: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        session = trail.session("s")
        with pytest.raises(CommandRejected, match="fork where a step or an execution has ended"):
            await session.fork(at=await after_step(trail, 1) - 1)
        with pytest.raises(CommandRejected, match=r"it has \d+ events and not 999"):
            await session.fork(at=999)
        with pytest.raises(ConfigurationError, match="`at`, a version, is a number from 1 to"):
            await session.fork(at=0)
        await session.fork(session="f")
        with pytest.raises(CommandRejected, match="the session 'f' exists already"):
            await session.fork(session="f")
        with pytest.raises(SessionNotFound):
            await trail.session("nobody").fork()

    await on_a_store(store_url, scenario)


async def test_a_fork_whose_past_was_lost_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f.db"

    async def forked(trail: Steptrail) -> None:
        await trail.session("s").fork(session="f")

    await on_a_store(f"sqlite:///{path}", forked)
    with by_hand(path) as connection:
        connection.execute("DELETE FROM stored_events WHERE stream = 'agent:s' AND version > 5")
    async with Steptrail.open(f"sqlite:///{path}") as trail:
        with pytest.raises(CorruptRecord, match="of agent:s, which ends at 5"):
            await trail.session("f").state()


def test_the_blocking_twin_forks_too(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        trail.run(SOURCE, "Book two", session="s")
        fork = trail.session("s").fork(session="f")
        assert fork.state().forked_from is not None
        assert fork.history()[-1].version == 1


async def test_what_is_told_of_an_earlier_execution_that_a_fork_shares_names_no_event_of_its_source(
    store_url: str,
) -> None:
    async def scenario(trail: Steptrail) -> None:
        source, talker = trail.session("s"), desk("", "", "", "Yes.", "Well.")
        await source.send(talker, "And?")
        fork = await source.fork(session="f")
        await fork.send(talker, "Well?")
        shared, own = await fork.why(execution=1), await fork.why()
        assert (shared.status, shared.events) == ("completed", {"forked": 1})
        assert own.events["started"] == 2
        (row,) = [each for each in await trail.runs() if each.session_id == "f"]
        page = Place(
            path="",
            canonical="",
            alone={},
            execution=1,
            **dict.fromkeys(("event", "until", "decision", "at", "since", "bars", "asks")),
        )
        view = await read_run(trail, Access(), row, Masking(), store=None, asked=page, explainers=Explainers())
        assert (view.window.first, view.window.last, list(view.bars.rows)) == (1, 1, [])

    await on_a_store(store_url, scenario)
