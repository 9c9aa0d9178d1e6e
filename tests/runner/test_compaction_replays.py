"""A run that was compacted is driven again, whatever came while its summaries were written."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from steptrail import Agent, Limits, Message
from steptrail.domain.agent.events import AgentEvent, ConversationCompacted
from steptrail.domain.errors import NotARecording
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.testing import Recording, Reply, replay
from tests.runner.kit import Crash, again_on, crash_at, trail_of
from tests.runner.test_compaction import FOUR, TooLong, page, reader


async def comes_about_again(trail: Steptrail, session: str, agent: Agent) -> None:
    recording = Recording(session, await trail.session(session).history())
    again = await replay(agent, recording)
    assert [event.TYPE for event in again.events] == [event.TYPE for event in recording.events]
    assert summaries_in(again.events) == summaries_in(recording.events)


def summaries_in(events: Sequence[AgentEvent]) -> list[str | None]:
    return [event.summary for event in events if isinstance(event, ConversationCompacted)]


async def say_more(session: Session, agent: Agent) -> None:
    await session.post(agent, "And count them.")


async def stop(session: Session, agent: Agent) -> None:
    del agent
    await session.stop(by="ana")


async def pause(session: Session, agent: Agent) -> None:
    del agent
    await session.pause(by="ana")


@pytest.mark.parametrize(("command", "grace"), [(say_more, 60.0), (pause, 60.0), (stop, 60.0), (stop, 0.0)])
async def test_a_command_that_came_while_a_summary_was_written(
    command: Callable[[Session, Agent], Awaitable[None]], grace: float
) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def slowly(messages: Sequence[Message]) -> str:
        asked.set()
        await told.wait()
        if not grace:
            await asyncio.sleep(3600)
        return f"{len(messages)} messages"

    builder = reader(*FOUR, "Done.", "Twelve.", summarizer=slowly)
    agent = builder.with_limits(Limits(stop_grace=grace)).build()
    async with trail_of() as trail:
        at_work = asyncio.create_task(trail.run(agent, "Read all.", session="s"))
        await asked.wait()
        await command(again_on(trail).session("s"), agent)
        told.set()
        await at_work
        if command is pause:
            await trail.session("s").unpause(by="ana")
            await trail.session("s").resume(agent)
        await comes_about_again(trail, "s", agent)
        if command is pause:
            records = await trail.session("s").history()
            unwritten = [each for each in records if not isinstance(each.event, ConversationCompacted)]
            with pytest.raises(NotARecording, match=r"execution\.paused.*came between two effects"):
                await replay(agent, Recording("s", unwritten))


async def test_a_caller_that_was_cancelled_in_a_summary() -> None:
    asked, first = asyncio.Event(), [True]

    async def at_last(messages: Sequence[Message]) -> str:
        asked.set()
        if first:
            first.clear()
            await asyncio.sleep(3600)
        return f"{len(messages)} messages"

    agent = reader(*FOUR, "Done.", summarizer=at_last).build()
    async with trail_of() as trail:
        at_work = asyncio.create_task(trail.run(agent, "Read all.", session="s"))
        await asked.wait()
        at_work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await at_work
        await trail.session("s").resume(agent)
        await comes_about_again(trail, "s", agent)


@pytest.mark.parametrize("script", [[*FOUR, "Pages.", "Done."], [*FOUR[:3], TooLong("no"), "Pages.", "Done."]])
async def test_a_process_that_died_in_a_summary_and_one_to_which_more_is_said_then(script: list[Reply]) -> None:
    for more in (False, True):
        agent = reader(*script, "Twelve.").build()
        async with trail_of(reach=crash_at("after-inference", 5)) as trail:
            with pytest.raises(Crash):
                await trail.run(agent, "Read all.", session="s")
            later = again_on(trail)
            session = later.session("s")
            await (session.send(agent, "And count them.") if more else session.resume(agent))
            await comes_about_again(later, "s", agent)


async def test_a_fork_from_behind_a_compaction_is_given_its_own_summaries() -> None:
    written = list[str]()

    def numbered(messages: Sequence[Message]) -> str:
        written.append(f"Summary {len(written) + 1} of {len(messages)}")
        return written[-1]

    agent = reader(*FOUR, page(4), page(5, 900), "Done.", summarizer=numbered).build()
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        first = next(e.version for e in await trail.session("s").events() if isinstance(e.event, ConversationCompacted))
        await trail.session("s").fork(at=first + 8, session="f")
        await trail.session("f").resume(agent)
        assert len(written) == 3
        await comes_about_again(trail, "f", agent)


async def test_a_summary_that_took_longer_than_the_run_had_time() -> None:
    async def never(messages: Sequence[Message]) -> str:
        await asyncio.sleep(3600)
        return str(len(messages))

    agent = reader(*FOUR, summarizer=never).with_timeout(0.05).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "Read all.", session="s")
        assert result.stop_reason == "time_limit"
        await comes_about_again(trail, "s", agent)


async def test_a_compaction_that_only_left_results_out_before_one_with_a_summary() -> None:
    def counted(messages: Sequence[Message]) -> str:
        return f"{len(messages)} messages"

    builder = reader(*FOUR, page(4, 900), "Done.", keep_steps=1, clear_results_above=2_000, summarizer=counted)
    agent = builder.build()
    async with trail_of() as trail:
        await trail.run(agent, "Read all.", session="s")
        events = [record.event for record in await trail.session("s").history()]
        assert summaries_in(events) == [None, "9 messages"]
        await comes_about_again(trail, "s", agent)
