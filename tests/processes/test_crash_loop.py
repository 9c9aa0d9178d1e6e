"""A run that kills its process every time is not resumed for ever."""

from steptrail.domain.agent.events import ExecutionResumed
from tests.processes.stage import Stage, on_both_stores


@on_both_stores
def test_a_reading_tool_that_kills_its_process_is_stopped_by_the_guard(stage: Stage) -> None:
    ended = stage.perform("run", "deadly")
    kills = 0
    while ended.code == -9:
        kills += 1
        assert kills < 10, "nobody stopped it"
        ended = stage.perform("resume", "deadly")
    assert ended.result == ("completed", "guard", None)
    # The first segment got a reply; the three after it got nowhere.
    assert (kills, stage.ledger.counts()["read"], len(stage.of(ExecutionResumed))) == (4, 4, 4)
    why = stage.session(lambda session: session.why())
    assert "CrashLoopLimit" in {vote.criterion_class for vote in why.votes}
    assert why.to_dict()["stopReason"] == "guard"
