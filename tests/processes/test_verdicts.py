"""A process is killed between a reply and its verdict: the reply is paid for once, and the end is the same."""

from steptrail.domain.agent.events import AnswerAccepted, AnswerRejected, InferenceCompleted
from tests.processes.stage import Stage


def test_a_reply_is_paid_for_once_and_judged_again(stage: Stage) -> None:
    ended = stage.perform("run", "judged")
    assert ended.code == -9
    assert len(stage.of(InferenceCompleted)) == 1
    assert stage.of(AnswerAccepted) == []
    resumed = stage.perform("resume", "judged")
    assert resumed.result == ("completed", "completed", {"errands": 3})
    # The second answer is the one that the validator takes. Each was paid for once.
    assert stage.ledger.counts() == {"reply": 2, "verdict": 3}
    assert [len(stage.of(kind)) for kind in (InferenceCompleted, AnswerRejected, AnswerAccepted)] == [2, 1, 1]
