"""Regular expressions of workflows: what they find, what is refused, and that none takes for ever."""

import pytest

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.infrastructure.flow.patterns import LinearPatterns


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        (r"^\d+$", "42", True),
        (r"\w+", "über", True),
        ("(?i)TEA", "a tea", True),
        ("", "", True),
    ],
)
def test_a_pattern_is_searched_for(pattern: str, text: str, fits: bool) -> None:
    assert LinearPatterns().fits(pattern, text) is fits


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(.*)*x$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_none_takes_for_ever(pattern: str) -> None:
    # Python's own engine doubles its time with each letter.
    assert LinearPatterns().fits(pattern, "a" * 50_000 + "!") is False


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (None, "a pattern is a text of at most 1,000 characters"),
        (7, "a pattern is a text of at most 1,000 characters"),
        ("a" * 1_001, "a pattern is a text of at most 1,000 characters"),
        ("(", "'(' is no pattern: unclosed group"),
        ("(?=a)b", "'(?=a)b' is no pattern: look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", r"'(a)\\1' is no pattern: backreferences are not supported"),
        (r"((\w{1,99}){1,99}){1,99}", "is no pattern: Compiled regex exceeds size limit of 10485760 bytes."),
    ],
)
def test_what_is_no_pattern_is_a_fault_that_says_why(pattern: object, why: str) -> None:
    with pytest.raises(NodeFault) as fault:
        LinearPatterns().fits(pattern, "text")
    assert fault.value.failure is FailureClass.CONFIG
    assert why in fault.value.message
