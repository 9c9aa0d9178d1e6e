"""What was stored by a clock that was hours ahead has come, for workers whose clock is right."""

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.instants import to_datetime
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.testing import ManualClock, ScriptedModel, call
from steptrail.tools import SubagentTool
from tests.trail.workers import Desk, Place, ended

HOURS = 5 * 3_600 * 10**6


@pytest.mark.usefixtures("often")
async def test_what_is_started_said_or_answered_is_carried_on_at_once_after_a_clock_was_set_back(
    place: Place, desk: Desk
) -> None:
    paying = desk.agent(first="pay")
    asking = AgentBuilder("boss").with_model(ScriptedModel([call("below", prompt="go"), "Done."]))
    boss = asking.with_tools(SubagentTool(paying, name="below")).build()
    talker = AgentBuilder("talker").with_model(ScriptedModel(["One.", "Two."])).build()
    fast = ManualClock(to_datetime(SystemClock().utc() + HOURS), running=True)
    async with Steptrail.open(place.url, clock=fast) as trail:
        await trail.run(talker, "go", session="said")
        await trail.start(talker, "go", session="started")
        await trail.run(paying, "go", session="answered")
        await trail.run(boss, "go", session="above")
    async with place.opened() as trail:
        await trail.session("said").post(talker, "and?")
        for asked in await trail.inbox():
            await trail.session(asked.stream.removeprefix("agent:")).approve(asked.id, by="ana")
        due = {row.session_id for row in await trail.due() if row.parent is None}
        assert due == {"said", "started", "answered", "above"}
        async with trail.work(paying, boss, talker):
            await ended(trail, *due)
