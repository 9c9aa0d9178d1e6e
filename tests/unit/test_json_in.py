"""The JSON of a reply: with or without the fences of a code block, in time that grows with its length alone."""

import pytest

from steptrail.domain.output import json_in

MANY = "\n" * 200_000


@pytest.mark.parametrize(
    "reply",
    [
        "[1]",
        " [1]\n",
        "```\n[1]\n```",
        "\n```json\n[1]```\n",
        "```JSON \r\n\n[1]\r\n\n```",
        f"```json{MANY}[1]{MANY}```",
    ],
)
def test_the_json_of_a_reply_is_read_with_or_without_fences(reply: str) -> None:
    assert json_in(reply) == [1]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "```[1]```",
        "```\n[1]",
        "[1]\n```",
        "``` json\n[1]\n```",
        "```\n[1]\n```\n```",
        f"```json{MANY}",
        f"```json{MANY}```x",
    ],
)
def test_a_reply_that_is_no_json_in_one_block_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|Extra data"):
        json_in(reply)
