"""The words of a script say what they mean, or are refused where they are written."""

import pytest

from steptrail.errors import ConfigurationError
from steptrail.models import FinishReason
from steptrail.testing import say


def test_the_end_of_a_reply_is_said_by_its_word_and_a_wrong_word_is_refused() -> None:
    assert say("There are", finish_reason="length").finish_reason is FinishReason.LENGTH
    assert say("There are", finish_reason=FinishReason.LENGTH).finish_reason is FinishReason.LENGTH
    with pytest.raises(ConfigurationError, match="'lenght' is not a valid FinishReason; the finish reasons are stop, "):
        say("There are", finish_reason="lenght")
