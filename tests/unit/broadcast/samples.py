"""A session with everything in it that makes a message, and its messages."""

from collections.abc import Sequence

from steptrail import ErrorPolicy, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import envelopes_of
from steptrail.testing import Reply, calls
from tests.runner.kit import agent_of, trail_of

SECRET = "hunter2"  # noqa: S105 - what must not get out
ANSWER = "4"


@tool(effect=ToolEffect.READ)
def look(where: str, token: str) -> dict[str, str]:
    """Look somewhere."""
    return {"found": f"{where} {token}"}


@tool(effect=ToolEffect.READ)
def break_off(token: str) -> str:
    """Fail with what it was given."""
    raise RuntimeError(f"no {token}")


_RECORDS: list[Recorded[AgentEvent]] = []


async def _session(script: Sequence[Reply]) -> Sequence[Recorded[AgentEvent]]:
    async with trail_of() as trail:
        builder = agent_of(script).with_tools(look, break_off).with_error_policy(ErrorPolicy.ignore_tool_errors())
        await trail.run(builder.build(), "go", session="s")
        return await trail.session("s").history()


async def records() -> Sequence[Recorded[AgentEvent]]:
    """Two steps: one with a call that works, one that fails, one whose arguments are refused; and an answer."""
    good, bad = {"where": "attic", "token": SECRET}, {"token": SECRET}
    script: list[Reply] = [calls(("look", good), ("break_off", bad), ("look", {"where": SECRET})), ANSWER]
    if not _RECORDS:
        _RECORDS.extend(await _session(script))
    return _RECORDS


async def messages(config: BroadcastConfig | None = None) -> tuple[BroadcastEnvelope, ...]:
    return envelopes_of("s", await records(), config)


def data_of(envelope: BroadcastEnvelope) -> dict[str, JsonValue]:
    data = envelope.body["data"]
    assert isinstance(data, dict)
    return {**data}


async def of_type(kind: str, config: BroadcastConfig | None = None) -> list[dict[str, JsonValue]]:
    return [data_of(each) for each in await messages(config) if each.type == kind]
