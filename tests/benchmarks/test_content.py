"""Content is what was said, byte for byte, and nothing about how it is kept."""

import pytest

from benchmarks.content import content_bytes
from benchmarks.texts import ANSWER, QUESTION, arguments, reply_text, tool_result
from steptrail.domain.messages import (
    MediaPart,
    Message,
    MessageRole,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


@pytest.mark.parametrize(
    ("part", "size"),
    [
        (TextPart(text="tea"), 3),
        (TextPart(text="thé"), 4),
        (ReasoningPart(text="so", signature="seal"), 2),
        (ToolCallPart(id="call-1", name="stock", arguments={"item": "tea", "n": 1}), len('{"item":"tea","n":1}')),
        (ToolCallPart(id="call-1", name="stock", raw="not json"), 8),
        (ToolResultPart(call_id="call-1", name="stock", text="3 left"), 6),
        (MediaPart(uri="s3://a/b", mime_type="image/png"), 8),
        (ProviderPart(provider="x", data=[1]), 3),
    ],
)
def test_a_part_counts_what_it_says(part: Part, size: int) -> None:
    assert content_bytes([Message(role=MessageRole.ASSISTANT, parts=(part,))]) == size


def test_a_conversation_is_the_sum_of_its_parts() -> None:
    call = ToolCallPart(id="call-1", name="lookup", arguments={"a": 1})
    messages = [
        Message.user("hello"),
        Message.assistant("I look", tool_calls=(call,)),
        Message.tool("call-1", "lookup", "row"),
    ]
    assert content_bytes(messages) == len("hello") + len("I look") + len('{"a":1}') + len("row")
    assert content_bytes([]) == 0


def test_every_step_of_the_work_says_as_much_as_every_other() -> None:
    assert {(len(reply_text(step)), len(tool_result(step))) for step in (1, 10, 10_000)} == {(200, 500)}
    assert {len(str(arguments(step)["query"])) for step in (1, 10, 10_000)} == {64}
    assert len({reply_text(1), reply_text(2), tool_result(1), tool_result(2), QUESTION, ANSWER}) == 6
