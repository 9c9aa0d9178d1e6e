"""The words of a script say what they mean, or are refused where they are written."""

from typing import Any

import pytest

from steptrail.errors import ConfigurationError
from steptrail.models import FinishReason
from steptrail.testing import ScriptedModel, calls, say


def test_the_end_of_a_reply_is_said_by_its_word_and_a_wrong_word_is_refused() -> None:
    assert say("There are", finish_reason="length").finish_reason is FinishReason.LENGTH
    assert say("There are", finish_reason=FinishReason.LENGTH).finish_reason is FinishReason.LENGTH
    with pytest.raises(ConfigurationError, match="'lenght' is not a valid FinishReason; the finish reasons are stop, "):
        say("There are", finish_reason="lenght")


@pytest.mark.parametrize("wanted", ["stock", {"stock": {"item": "tea"}}, ("stock", "tea"), ("stock",)])
def test_a_call_is_a_pair_of_a_tool_and_its_arguments(wanted: Any) -> None:
    with pytest.raises(ConfigurationError, match="a call is a pair of a tool and its arguments, such as"):
        calls(wanted)


def test_a_reply_that_nobody_awaits_or_that_takes_no_request_is_refused_with_its_number() -> None:
    async def later(request: object) -> str:
        return "said"

    with pytest.raises(ConfigurationError, match="reply 2 of the script is a plain function, and nobody awaits one"):
        ScriptedModel(["done", later])
    with pytest.raises(ConfigurationError, match="reply 1 of the script is called with the request, which"):
        ScriptedModel([lambda: "done"])
