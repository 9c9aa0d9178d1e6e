"""Forks of runs that have sessions below them: what is below belongs to the run that began it."""

from steptrail import AgentBuilder, ErrorPolicy, Steptrail
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
