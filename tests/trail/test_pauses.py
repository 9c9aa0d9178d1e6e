"""A pause that a person asks for beside what else is said to a session."""

from pathlib import Path

from steptrail import Steptrail
from steptrail.domain.shared.run import ExecutionStatus
from tests.runner.kit import agent_of


async def test_a_message_makes_a_paused_session_due_and_a_pause_after_it_holds(tmp_path: Path) -> None:
    agent = agent_of(["Done.", "Done."]).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        session = trail.session("s")
        await trail.start(agent, "go", session="s")
        await session.pause(by="ana")
        await session.post(agent, "And now?")
        assert [row.session_id for row in await trail.due()] == ["s"]
        await session.pause(by="ana")
        assert await trail.due() == []
        assert (await session.resume(agent)).status is ExecutionStatus.COMPLETED
