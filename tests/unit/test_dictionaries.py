"""What is made of a dictionary of JSON refuses JSON that is none, with the error that its docstring names."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail.continuation import ContinuationEvaluation, ContinuationOutcome
from steptrail.errors import Backoff, ErrorContext, ErrorPolicy
from steptrail.state import StateInfo


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (Backoff.from_dict, "a backoff"),
        (ContinuationEvaluation.from_dict, "an evaluation"),
        (ContinuationOutcome.from_dict, "an outcome"),
        (ErrorContext.from_dict, "an error context"),
        (ErrorPolicy.from_dict, "a policy"),
        (StateInfo.from_dict, "the information of a session"),
    ],
)
@pytest.mark.parametrize("wrong", [None, [], ["type"], "type", 5])
def test_json_that_is_no_object_is_refused(read: Callable[[Any], object], what: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"^{what} is an object, not {type(wrong).__name__}$"):
        read(wrong)
