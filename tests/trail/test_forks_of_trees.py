"""Forks of runs that have sessions below them: what is below belongs to the run that began it."""

import asyncio

from steptrail import AgentBuilder, ErrorPolicy, Steptrail
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.errors import CommandRejected
from steptrail.events import StepCompleted
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool
from tests.runner.kit import agent_of
from tests.trail.workers import Desk, Place


def _boss(below: Agent) -> Agent:
    model = ScriptedModel([call("below", prompt="pay"), "Done.", "Done again."])
    builder = AgentBuilder("boss").with_model(model).with_tools(SubagentTool(below, name="below"))
    return builder.with_error_policy(ErrorPolicy.stop_on_any_error()).build()


async def _run_whose_subagent_was_retried_by_hand(trail: Steptrail, desk: Desk) -> Agent:
    """Run session `s`, which ends when its subagent fails; that one is retried by a person, and asks for a yes."""
    below = agent_of([RuntimeError("no"), call("pay"), "Paid."]).with_tools(*desk.tools)
    boss = _boss(below.with_error_policy(ErrorPolicy.stop_on_any_error()).build())
    await trail.run(boss, "go", session="s")
    (failed,) = [row for row in await trail.runs() if row.parent is not None]
    await trail.session(failed.session_id).retry(below.build())
    assert len(await trail.inbox()) == 1
    return boss


async def test_what_a_fork_goes_on_to_do_stops_nothing_below_its_source(place: Place, desk: Desk) -> None:
    async with place.opened() as trail:
        boss = await _run_whose_subagent_was_retried_by_hand(trail, desk)
        fork = await trail.session("s").fork(session="f")
        await fork.send(boss, "And now?")
        assert len(await trail.inbox()) == 1


async def test_a_yes_in_a_fork_is_none_in_its_source(place: Place, desk: Desk) -> None:
    below = SubagentTool(desk.agent(first="pay"), name="below")
    boss = agent_of([call("below", prompt="1"), call("below", prompt="2"), "Done."]).with_tools(below).build()
    async with place.opened() as trail:
        source = trail.session("s")
        await trail.run(boss, "go", session="s")
        (asked,) = await trail.inbox()
        await trail.session(id_of(asked.stream)).approve(asked.id, by="ana")
        await source.resume(boss)
        first = next(each.version for each in await source.events() if isinstance(each.event, StepCompleted))
        fork = await source.fork(at=first, session="f")
        await fork.resume(boss)
        (newest, other) = await trail.inbox()
        await trail.session(id_of(newest.stream)).approve(newest.id, by="ana")
        assert (await fork.resume(boss)).status == "completed"
        assert (await source.resume(boss)).status == "waiting"
        assert await trail.inbox() == [other]


async def test_of_several_forks_into_one_session_at_the_same_moment_one_is_there(place: Place, desk: Desk) -> None:
    async with place.opened() as trail, place.opened() as other:
        await trail.run(desk.agent(), "go", session="s")
        forks = [each.session("s").fork(session="f") for each in 4 * (trail, other)]
        made = await asyncio.gather(*forks, return_exceptions=True)
        assert [isinstance(each, CommandRejected) for each in made].count(True) == 7
        assert (await trail.session("f").state()).version == 1
