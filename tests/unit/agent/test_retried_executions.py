"""A retry is an execution without an input, in the conversation as it stands: the next try of what came to nothing."""

import pytest

from steptrail.domain.agent.commands import Retry
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import TakeDecision
from steptrail.domain.agent.events import AgentEvent, ExecutionStarted, MessagesAppended, SessionForked, StopRequested
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected
from steptrail.domain.inference import FinishReason
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.version import VERSION
from steptrail.testing.scenario import AgentScenario, given
from tests.unit.agent.story import (
    AGENT,
    HELLO,
    answered,
    asked,
    done,
    ended,
    failed,
    finished,
    forbidden,
    opened,
    returned,
    running,
    said,
    start,
    started,
    step,
    stop_asked,
    told,
    wants,
)

FAILED = finished(ExecutionStatus.FAILED, StopReason.ERROR, "ErrorPolicyCriterion")
ENDINGS: dict[str, tuple[AgentEvent, ...]] = {
    "failed": (*failed(), forbidden(1, "ErrorPolicyCriterion", StopReason.ERROR), FAILED),
    "out of retries": (*failed(), finished(ExecutionStatus.FAILED, StopReason.RETRY_LIMIT, "ErrorPolicyCriterion")),
    "limited": (*answered(), forbidden(1), finished(reason=StopReason.STEPS_LIMIT, by="StepsLimit")),
    "stopped": (stop_asked(), forbidden(0, "UserStop"), finished(reason=StopReason.USER_REQUESTED, by="UserStop")),
    "guarded": (forbidden(0, "Guard", StopReason.GUARD), finished(reason=StopReason.GUARD, by="Guard")),
}
WITHHELD = finished(ExecutionStatus.FAILED, StopReason.FINISH_REASON, "AnswerComplete")
ANSWERED = (*answered(), done(1), finished())


def retry(
    *, key: str | None = None, limits: Limits | None = None, policy: ErrorPolicy | None = None, by: str = "user"
) -> Retry:
    return Retry(agent=AGENT, worker="w", key=key, limits=limits, error_policy=policy, by=by)


def retried(ordinal: int = 2, *, key: str | None = None) -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=f"session:{ordinal}",
        ordinal=ordinal,
        segment=ordinal,
        worker="w",
        agent=AGENT,
        key=key,
        retry_of=f"session:{ordinal - 1}",
        by="user",
        library=VERSION,
    )


def shown(scenario: AgentScenario) -> list[str]:
    return [message.text for piece in scenario.state.request_messages for message in piece]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_came_to_no_answer_goes_on_in_an_execution_without_an_input(ending: str) -> None:
    again = given(*opened(), *ENDINGS[ending]).when(retry()).then(retried())
    assert [message.text for message in again.state.messages].count("hello") == 1
    assert (again.state.consecutive_failures, again.state.step_count) == (0, 0)
    again.next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


@pytest.mark.parametrize(
    "end",
    [(done(1), finished()), (forbidden(1), finished(reason=StopReason.STEPS_LIMIT, by="StepsLimit", answered=True))],
    ids=["completed", "at a limit"],
)
def test_what_has_answered_is_not_retried_but_asked_for_more(end: tuple[AgentEvent, ...]) -> None:
    given(*opened(), *answered(), *end).when(retry()).then_rejected(
        "execution session:1 has answered: `send` asks for more"
    )


@pytest.mark.parametrize("where", [(), (*step(),), (*step(), asked())])
def test_what_is_not_over_is_not_retried_but_gone_on_with(where: tuple[AgentEvent, ...]) -> None:
    given(*opened(), *where).when(retry()).then_rejected("is in_progress and not over: `resume` goes on with it")


def test_a_session_in_which_nothing_was_started_cannot_be_retried() -> None:
    given().when(retry()).then_rejected("nothing was started in it: `run` or `send`")


def test_settings_that_the_caller_gives_hold_for_the_retry_and_are_named_in_it() -> None:
    state = given(*opened(), *ENDINGS["failed"]).state
    limits, policy = Limits(max_steps=40), ErrorPolicy.retry_all(3)
    (event,) = decide(state, retry(limits=limits, policy=policy, by="ana"))
    assert isinstance(event, ExecutionStarted)
    assert (event.agent.limits, event.agent.error_policy, event.overrides) == (
        limits,
        policy,
        ("limits", "error_policy"),
    )
    assert (event.by, event.input, event.agent.tools) == ("ana", None, AGENT.tools)


def test_a_retry_can_be_retried_and_answers_the_input_of_the_first() -> None:
    once = given(*opened(key="a"), *ENDINGS["failed"], retried(key="b"), *ENDINGS["failed"])
    twice = once.when(retry()).then(retried(3))
    execution = twice.state.execution
    assert execution is not None
    assert (execution.input, execution.retry_of) == (HELLO, "session:2")
    assert {key: use.execution for key, use in twice.state.fold.keys.items()} == {"a": 3, "b": 3}


def test_a_retry_that_is_over_is_no_try_of_the_next_input() -> None:
    more = started(ordinal=3, segment=3, text="more", key="b")
    later = given(*opened(key="a"), *ENDINGS["failed"], retried(), *ANSWERED, more)
    assert {key: use.execution for key, use in later.state.fold.keys.items()} == {"a": 2, "b": 3}


def test_the_first_request_of_a_retry_shows_calls_with_their_results_and_no_failed_inference() -> None:
    worked = (*step(), asked(), wants("look"), running(), returned(), ended(), *failed(2), FAILED)
    again = given(*opened(), *worked, retried())
    assert shown(again) == ["hello", "", "ok"]
    assert [message.role for piece in again.state.request_messages for message in piece] == [
        "user",
        "assistant",
        "tool",
    ]


def test_an_answer_that_was_given_up_is_kept_and_no_model_is_shown_it_again() -> None:
    cut = (*step(), asked(), said("half an", FinishReason.LENGTH), ended())
    again = given(*opened(), *cut, WITHHELD, retried())
    assert shown(again) == ["hello"]
    assert [message.text for message in again.state.messages] == ["hello", "half an"]
    further = again.and_(*cut, WITHHELD, retried(3))
    assert shown(further.and_(*answered())) == ["hello", "done"]


def test_what_was_said_after_the_answer_keeps_it_in_its_place() -> None:
    limited = (*answered(), told("and that?"), forbidden(1), finished(reason=StopReason.STEPS_LIMIT, by="StepsLimit"))
    assert shown(given(*opened(), *limited, retried())) == ["hello", "done", "and that?"]


def test_the_same_key_is_one_retry_and_stands_for_nothing_else() -> None:
    once = given(*opened(key="k"), *ENDINGS["failed"], retried(key="again"))
    assert decide(once.state, retry(key="again")) == ()
    for taken in (retry(key="k"), start(key="again"), start(key="k", text="other")):
        with pytest.raises(
            CommandRejected, match="came with another input, context or command before: use another key"
        ):
            decide(once.state, taken)


def test_the_key_of_a_command_is_refused_with_another_one() -> None:
    stopped = given(*opened(), StopRequested(by="ana", key="k"))
    stopped.when(start(key="k")).then_rejected("the key 'k' came with another input, context or command before")


def test_another_message_under_a_key_is_refused_and_not_taken_for_said() -> None:
    said_once = given(*opened(), *step(), MessagesAppended(messages=(HELLO,), key="k", by="user"))
    said_once.when(start(key="k", text="other")).then_rejected("the key 'k' came with another")
    assert decide(said_once.state, start(key="k")) == ()


def test_a_fork_keeps_what_was_retried_and_can_be_retried_itself() -> None:
    state = given(*opened(), *ENDINGS["failed"], retried(), *ENDINGS["failed"]).state
    fork = SessionForked(
        name="f",
        source="session",
        version=state.version,
        digest="d",
        by="ana",
        status=state.status,
        executions=2,
        steps=1,
    )
    forked = given(*opened(), *ENDINGS["failed"], retried(), *ENDINGS["failed"], fork)
    assert forked.state.execution is not None
    assert forked.state.execution.retry_of == "session:1"
    assert can_be_retried(forked.state)
