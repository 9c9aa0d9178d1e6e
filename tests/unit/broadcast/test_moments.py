"""A piece of a reply belongs to the step that it is of: one that is early waits, and one that is late is dropped."""

from steptrail.domain.live import ReplyDelta
from steptrail.lifecycle import AgentStepCompleted, AgentStepStarted, lifecycle_events
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.fold import EnvelopeFold
from steptrail.testing import call
from tests.runner.kit import agent_of, run


async def test_a_piece_is_of_now_exactly_while_its_step_is_open() -> None:
    ran = await run(agent_of([call("add", a=1, b=2), "done"]).build())
    fold = EnvelopeFold(BroadcastConfig())
    first, second = (ReplyDelta(session_id="s", execution_id="s:1", step=step, attempt=1, text="x") for step in (1, 2))
    seen: list[tuple[str, str]] = [(fold.moment_of(first), fold.moment_of(second))]
    for event in lifecycle_events("s", ran.records):
        fold.apply(event)
        if isinstance(event, AgentStepStarted | AgentStepCompleted):
            seen.append((fold.moment_of(first), fold.moment_of(second)))
    seen.append((fold.moment_of(first), fold.moment_of(second)))
    assert seen == [
        ("early", "early"),
        ("now", "early"),
        ("late", "early"),
        ("late", "now"),
        ("late", "late"),
        ("late", "late"),
    ]
