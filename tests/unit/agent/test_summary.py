"""The rows of the list of runs say what a run waits for, and nothing that is over."""

from steptrail.domain.agent.events import WaitEnded, WaitStarted
from steptrail.domain.agent.standing import summary
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.testing.scenario import START, AgentScenario, given
from tests.unit.agent.story import opened, paused, step


def row(scenario: AgentScenario) -> RunSummary:
    return summary(scenario.state)


def test_a_run_that_waits_says_for_what_and_until_when() -> None:
    waiting = row(given(*opened(), *step(), WaitStarted(kind="retry", until=START + 9)))
    assert (waiting.status, waiting.waits_for, waiting.waits_until) == (ExecutionStatus.WAITING, "retry", START + 9)


def test_a_wait_that_ends_is_gone_from_the_row_also_while_the_run_is_paused() -> None:
    asked = given(*opened(), *step(), WaitStarted(kind="approval", until=START + 9))
    for scenario, status in ((asked, ExecutionStatus.IN_PROGRESS), (asked.and_(paused()), ExecutionStatus.PAUSED)):
        ended = row(scenario.and_(WaitEnded(reason="approved", by="ana")))
        assert (ended.status, ended.waits_for, ended.waits_until) == (status, None, None)
