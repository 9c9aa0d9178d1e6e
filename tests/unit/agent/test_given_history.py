"""What a conversation from elsewhere becomes, and what a program cannot say: calls and results stand together."""

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.agent.given_history import in_order, refuse_disorder
from steptrail.domain.messages import Message, MessageRole, TextPart, ToolCallPart, ToolResultPart
from steptrail.errors import ConfigurationError


def wants(*ids: str) -> Message:
    return Message.assistant(tool_calls=tuple(ToolCallPart(id=each, name="add", arguments={}) for each in ids))


def answer(call_id: str, text: str = "3") -> Message:
    return Message.tool(call_id, "add", text)


USER, SAID = Message.user("Tea?"), Message.assistant("Three.")
MIXED = Message(
    role=MessageRole.USER,
    parts=(ToolResultPart(call_id="c1", name="add", text="3"), TextPart(text="and now?")),
)


def told(messages: tuple[Message, ...]) -> list[str]:
    """Return the roles, with the call that a result answers and `?` where its outcome is unknown."""
    return [
        " ".join(
            [
                message.role.value,
                *(
                    part.call_id + ("?" if "unknown" in part.text else "")
                    for part in message.parts
                    if isinstance(part, ToolResultPart)
                ),
            ]
        )
        for message in messages
    ]


@pytest.mark.parametrize(
    ("history", "made"),
    [
        # Trimmed to its last messages: what the results belonged to is gone.
        ([answer("c1"), SAID, USER], ["assistant", "user"]),
        ([answer("c1"), answer("c2"), answer("c3")], []),
        ([USER, wants("c1"), answer("c1"), answer("c1"), SAID], ["user", "assistant", "tool c1", "assistant"]),
        ([wants("c1", "c2"), answer("c9"), answer("c2"), SAID], ["assistant", "tool c2", "tool c1?", "assistant"]),
        # Answered too late is not answered.
        ([wants("c1"), USER, answer("c1")], ["assistant", "tool c1?", "user"]),
        ([wants("c1"), wants("c1"), answer("c1")], ["assistant", "tool c1?", "assistant", "tool c1"]),
        # Two calls with one id have an answer each.
        ([wants("c", "c"), answer("c"), answer("c"), answer("c")], ["assistant", "tool c", "tool c"]),
        ([wants("c1", "c2"), MIXED], ["assistant", "tool c2?", "user c1"]),
        ([MIXED, SAID], ["user", "assistant"]),
        ([Message(role=MessageRole.TOOL, parts=(TextPart(text="3"),)), USER], ["user"]),
        ([Message(role=MessageRole.USER, parts=wants("c1").parts), SAID], ["assistant"]),
        ([Message(role=MessageRole.ASSISTANT, parts=MIXED.parts), USER], ["assistant", "user"]),
        ([], []),
    ],
)
def test_a_history_is_put_in_order(history: list[Message], made: list[str]) -> None:
    assert told(in_order(history)) == made


def test_a_history_in_order_stays_as_it_is() -> None:
    whole = (USER, wants("c1", "c2"), answer("c2"), answer("c1"), SAID, Message(role=MessageRole.USER), USER)
    assert all(made is message for made, message in zip(in_order(whole), whole, strict=True))
    refuse_disorder(whole, "it")


calls_and_results = st.lists(
    st.one_of(
        st.just(USER),
        st.just(SAID),
        st.just(MIXED),
        st.lists(st.sampled_from(["c1", "c2"]), min_size=1, max_size=3).map(lambda ids: wants(*ids)),
        st.sampled_from(["c1", "c2", "c3"]).map(answer),
    ),
    max_size=8,
)


@given(calls_and_results)
def test_what_was_put_in_order_is_refused_by_nobody_and_changed_no_more(history: list[Message]) -> None:
    made = in_order(history)
    refuse_disorder(made, "it")
    assert in_order(made) == made
    assert [message for message in made if message in (USER, SAID)] == [m for m in history if m in (USER, SAID)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([answer("c1")], r"it takes .* the result of 'add' \(c1\) answers no call"),
        ([wants("c1")], r"nobody answers the call of 'add' \(c1\)"),
        ([wants("c1"), USER, answer("c1")], r"nobody answers the call of 'add' \(c1\)"),
        ([MIXED], r"the result of 'add' \(c1\) answers no call"),
        ([Message(role=MessageRole.TOOL)], "a message of a tool holds no result"),
        ([Message(role=MessageRole.USER, parts=wants("c1").parts)], "stands in a message of the user"),
    ],
)
def test_what_a_program_says_out_of_order_is_refused_with_what_is_wrong(said: list[Message], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        refuse_disorder(said, "it")
