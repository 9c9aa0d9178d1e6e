import warnings
from collections.abc import Callable

import pytest

from steptrail.continuation import ErrorPresenceCheck, RetryLimit, StopReason
from steptrail.errors import ConfigurationError
from tests.unit.continuation.fakes import ALLOW, CLEAN, FORBID, FakeStep, after, failed


def quietly(make: Callable[[], ErrorPresenceCheck | RetryLimit]) -> ErrorPresenceCheck | RetryLimit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return make()


def test_error_presence_check_warns_where_it_is_constructed() -> None:
    with pytest.warns(DeprecationWarning, match="use ErrorPolicy.stop_on_any_error") as caught:
        ErrorPresenceCheck()
    assert [warning.filename for warning in caught] == [__file__]


def test_retry_limit_warns_where_it_is_constructed() -> None:
    with pytest.warns(DeprecationWarning, match="use ErrorPolicy.retry_all") as caught:
        RetryLimit(3)
    assert [warning.filename for warning in caught] == [__file__]


def test_an_error_in_the_last_step_forbids() -> None:
    check = quietly(ErrorPresenceCheck)
    vote = check.explain(after(CLEAN, failed()))
    assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.ERROR)
    assert (vote.reason, vote.context) == ("Errors present in the last step", {"hasErrors": True})
    clean = check.explain(after(failed(), CLEAN))
    assert (clean.decision, clean.stop_reason, clean.reason) == (ALLOW, None, "No errors present")
    assert (vote.fails, clean.fails) == (True, False)
    assert check.decide(after()) is ALLOW


def test_a_getter_replaces_the_question_whether_there_are_errors() -> None:
    assert quietly(lambda: ErrorPresenceCheck(lambda _: True)).decide(after()) is FORBID


def test_so_many_failures_in_a_row_forbid() -> None:
    limit = quietly(lambda: RetryLimit(2))
    assert [limit.decide(after(*steps)) for steps in ((), (failed(),), (failed(), failed()))] == [ALLOW, ALLOW, FORBID]
    vote = limit.explain(after(failed(), failed()))
    assert (vote.stop_reason, vote.reason) == (StopReason.RETRY_LIMIT, "Retry limit reached: 2/2")
    assert vote.context == {"consecutiveFailures": 2, "maxRetries": 2}
    assert limit.explain(after(failed(), CLEAN, failed())).reason == "Retries under limit: 1/2"


def test_a_limit_of_no_failures_forbids_even_after_a_good_step() -> None:
    limit = quietly(lambda: RetryLimit(0))
    assert (limit.decide(after()), limit.decide(after(CLEAN))) == (ALLOW, FORBID)


def test_what_counts_as_a_failure_can_be_replaced() -> None:
    shouting = quietly(lambda: RetryLimit(1, lambda step: step.text.isupper()))
    assert shouting.decide(after(FakeStep(text="NO"))) is FORBID
    assert shouting.decide(after(failed())) is ALLOW


def test_a_limit_is_not_negative() -> None:
    with pytest.raises(ConfigurationError, match="Max retries must not be negative, it is -1"):
        RetryLimit(-1)
