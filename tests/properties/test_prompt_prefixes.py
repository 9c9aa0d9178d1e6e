"""What a provider's cache of prompts rests on: a call's body without its tail is the beginning of the next one's."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
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
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models import anthropic_rendering, chat_rendering, responses_rendering
from steptrail.infrastructure.models.anthropic_parsing import PROVIDER
from steptrail.infrastructure.models.wire import as_list, as_object
from tests.profile import examples

Body = dict[str, JsonValue]
Pieces = list[JsonValue]

TOOLS = (ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}}),)
MARK: JsonValue = {"type": "ephemeral"}
words = st.sampled_from(["", " ", "tea", "milk"])
opaque = ProviderPart(provider=PROVIDER, data={"whole": {"type": "redacted_thinking", "data": "x=="}})
picture = MediaPart(uri="https://shop.example/7.png", mime_type="image/png")
said = st.one_of(words.map(lambda text: (TextPart(text=text),)), st.just((TextPart(text="See:"), picture)))
asked = st.builds(
    ToolCallPart, id=st.sampled_from(["1", "call:2"]), name=st.just("look"), arguments=st.sampled_from([None, {}])
)
parts: st.SearchStrategy[Part] = st.one_of(
    words.map(lambda text: TextPart(text=text)),
    asked,
    st.just(opaque),
    st.builds(ReasoningPart, text=words, signature=st.sampled_from([None, "s=="])),
)


def of_user(content: Sequence[Part]) -> tuple[Message, ...]:
    return (Message(role=MessageRole.USER, parts=tuple(content)),)


def of_model(content: Sequence[Part]) -> tuple[Message, ...]:
    """A reply and the results of its calls, as they join the conversation at the end of a step."""
    calls = [part for part in content if isinstance(part, ToolCallPart)]
    results = [
        Message(role=MessageRole.TOOL, parts=(ToolResultPart(call_id=call.id, name="look", text="ok"),))
        for call in calls
    ]
    return (Message(role=MessageRole.ASSISTANT, parts=tuple(content)), *results)


turns = st.one_of(said.map(of_user), st.lists(parts, min_size=1, max_size=4).map(of_model))
openings = st.sampled_from(
    [
        (),
        (Message.system("Be kind."),),
        (Message.system("Be kind."), Message.system("It is Monday.")),
        (Message.system("Be kind."), Message.user("1?"), Message.assistant("2")),
    ]
)
tails = st.lists(
    st.sampled_from([Message.user("<instructions>Now.</instructions>"), Message.user("Be quick.")]), max_size=2
)


def chat(request: ModelRequest) -> Body:
    return chat_rendering.render_request("m", request, {})


def responses(request: ModelRequest) -> Body:
    return responses_rendering.render_request("m", request, {})


def messages(request: ModelRequest) -> Body:
    return anthropic_rendering.render_request("m", request, {"max_tokens": 9}, cache="auto")


def pieces(body: Body) -> Pieces:
    """Return a body as the provider reads it, piece by piece: tools, system, conversation."""
    return [*as_list(body.get("tools")), *as_list(body.get("system")), *_said(body)]


def _said(body: Body) -> Iterator[JsonValue]:
    for turn in as_list(body.get("messages", body.get("input"))):
        content = as_object(turn).get("content")
        if "system" not in body and "max_tokens" not in body:
            yield turn
        else:
            for block in as_list(content):
                yield [as_object(turn).get("role"), block]


def unmarked(given: JsonValue) -> JsonValue:
    if isinstance(given, dict):
        return {name: unmarked(value) for name, value in given.items() if name != "cache_control"}
    return [unmarked(each) for each in given] if isinstance(given, list) else given


def marked_in(body: Body) -> list[int]:
    return [place for place, piece in enumerate(pieces(body)) if unmarked(piece) != piece]


def made_up(body: Body) -> Pieces:
    """Return the pieces without the word of the user that is put behind an answer, as long as none follows."""
    found = pieces(body)
    is_made_up = bool(found) and "(Go on.)" in str(found[-1])
    return found[:-1] if is_made_up else found


@pytest.mark.acceptance("10.2-3")
@pytest.mark.parametrize("render", [chat, responses, messages])
@given(openings, st.lists(turns, min_size=2, max_size=6), st.lists(tails, min_size=6, max_size=6))
@examples(60)
def test_a_body_without_its_tail_is_the_beginning_of_the_next(
    render: Callable[[ModelRequest], Body],
    opening: tuple[Message, ...],
    conversation: list[tuple[Message, ...]],
    tails: list[list[Message]],
) -> None:
    before: Pieces = []
    for count in range(1, len(conversation) + 1):
        lasting = [*opening, *(message for turn in conversation[:count] for message in turn)]
        tail = tails[count - 1]
        plain = unmarked(made_up(render(ModelRequest(messages=lasting, tools=TOOLS, opening=len(opening)))))
        whole = render(ModelRequest(messages=[*lasting, *tail], tools=TOOLS, opening=len(opening), tail=len(tail)))
        assert isinstance(plain, list)
        assert plain[: len(before)] == before
        assert unmarked(pieces(whole)[: len(plain)]) == plain
        before = plain


@pytest.mark.acceptance("10.2-4")
@given(openings, st.lists(turns, min_size=1, max_size=6), tails, st.lists(parts, min_size=1, max_size=4), tails)
@examples(60)
def test_what_a_call_of_messages_has_written_to_the_cache_is_marked_in_the_next(
    opening: tuple[Message, ...],
    conversation: list[tuple[Message, ...]],
    tail: list[Message],
    reply: list[Part],
    later: list[Message],
) -> None:
    lasting = [*opening, Message.user("go"), *(message for turn in conversation for message in turn)]
    first, second = (
        messages(ModelRequest(messages=[*so_far, *end], tools=TOOLS, opening=len(opening), tail=len(end)))
        for so_far, end in ((lasting, tail), ([*lasting, *of_model(reply)], later))
    )
    written = marked_in(first)
    assert 1 <= len(written) <= 4
    assert len(marked_in(second)) <= 4
    assert written[-1] in marked_in(second)
    if tail:
        assert written[-1] < len(pieces(first)) - len(tail)
