"""A call of an agent may run a stream of another kind: what is asked of the agent is asked of that as well."""

from collections.abc import Mapping

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.agent.events import ExecutionFinished, SessionStarted, WaitEnded, WaitStarted
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome, ToolSuspended
from steptrail.testing import ScriptedModel, call
from tests.kinds.bell import BellHung, put
from tests.kinds.test_other_kinds import bells

__all__ = ["bells"]

BELOW = session_for_call("s:1:1:0")


class HangsABell:
    """A tool whose call hangs a bell up, or something of another `kind`, and rests until it was pressed."""

    def __init__(self, kind: str) -> None:
        self.spec = ToolSpec(name="hang", effect=ToolEffect.IDEMPOTENT, runs_children=kind)

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        place = context.child
        assert place is not None
        below = session_for_call(place.parent.effect)
        stream = f"{self.spec.runs_children}:{below}"
        if not await place.environment.store.version(stream):
            events = (
                SessionStarted(name="bell", parent=place.parent),
                BellHung(worker="w"),
                WaitStarted(kind="approval"),
            )
            await put(place.environment.store, stream, *events)
        return ToolSuspended(stream.removeprefix("bell:"), "is waiting")


async def resting(trail: Steptrail, kind: str = "bell") -> str:
    """Run to where the call rests, and return the stream that it runs."""
    agent = AgentBuilder("ringer").with_model(ScriptedModel([call("hang")])).with_tools(HangsABell(kind)).build()
    ran = await trail.run(agent, "ring", session="s")
    assert ran.status is ExecutionStatus.WAITING
    assert [each.run.stream for _, each in (await trail.tree("s")).walk()] == ["agent:s", f"{kind}:{BELOW}"]
    return f"{kind}:{BELOW}"


async def test_a_run_that_waits_for_it_is_due_when_it_moves_again() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        bell = await resting(trail)
        assert await trail.due() == []
        await put(trail.store, bell, WaitEnded(reason="approved", by="ana"))
        assert {row.stream for row in await trail.due()} == {"agent:s", bell}


async def test_a_stop_of_the_run_stops_it() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        bell = await resting(trail)
        await trail.session("s").stop(by="ana")
        last = (await trail.handle(bell).events())[-1].event
        assert isinstance(last, ExecutionFinished)
        assert last.resolved_by == "ana"


async def test_a_child_of_a_kind_that_is_not_known_here_keeps_no_run_from_being_stopped() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        stranger = await resting(trail, "stranger")
        before = await trail.store.version(stranger)
        assert (await trail.session("s").stop(by="ana")).status is ExecutionStatus.COMPLETED
        assert await trail.store.version(stranger) == before > 0
