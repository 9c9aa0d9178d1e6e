"""The first difference between two requests, and the words that name it."""

import pytest
from msgspec import structs

from steptrail.domain.inference import ModelRequest, ToolChoice
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.tools import ToolSpec
from steptrail.testing.difference import difference_of_requests, difference_of_values

CALL = Message.assistant("Let me see.", tool_calls=(ToolCallPart(id="c", name="look", arguments={"what": "tea"}),))
TOOL = ToolSpec(name="look", description="Look.", parameters={"properties": {"what": {"type": "string"}}})
ASKED = (Message.system("Be brief."), Message.user("Tea?"), CALL, Message.tool("c", "look", "3"))
REQUEST = ModelRequest(messages=ASKED, tools=(TOOL,))


def asking(*messages: Message, tools: tuple[ToolSpec, ...] = (TOOL,)) -> ModelRequest:
    return ModelRequest(messages=messages, tools=tools)


def other_call(**changes: object) -> Message:
    part = structs.replace(CALL.tool_calls[0], **changes)
    return Message.assistant("Let me see.", tool_calls=(part,))


@pytest.mark.parametrize(
    ("now", "report"),
    [
        (asking(), "message 1 (system)\n  recorded  'Be brief.'\n  now       nothing"),
        (asking(*ASKED[:3]), "message 4 (tool)\n  recorded  '3'\n  now       nothing"),
        (asking(*ASKED, Message.user("More")), "message 5 (user)\n  recorded  nothing\n  now       'More'"),
        (
            asking(ASKED[0], Message.user("Milk?")),
            "message 2 (user), part 1, text\n  recorded  'Tea?'\n  now       'Milk?'",
        ),
        (
            asking(*ASKED[:2], other_call(arguments={"what": "milk"})),
            "message 3 (assistant), part 2, arguments.what\n  recorded  'tea'\n  now       'milk'",
        ),
        (
            asking(*ASKED[:2], other_call(arguments={"what": "tea", "n": 1})),
            "message 3 (assistant), part 2, arguments.n\n  recorded  nothing\n  now       1",
        ),
        (asking(*ASKED, tools=()), 'the tools and their order\n  recorded  ["look"]\n  now       []'),
        (
            asking(*ASKED, tools=(structs.replace(TOOL, description="See."),)),
            "tool 'look', description\n  recorded  'Look.'\n  now       'See.'",
        ),
        (
            ModelRequest(messages=ASKED, tools=(TOOL,), tool_choice=ToolChoice.NONE),
            "tool_choice\n  recorded  'auto'\n  now       'none'",
        ),
    ],
)
def test_the_report_names_the_first_place_and_shows_both_sides(now: ModelRequest, report: str) -> None:
    assert difference_of_requests(REQUEST, now) == report


def test_equal_requests_have_no_difference() -> None:
    assert difference_of_requests(REQUEST, asking(*ASKED)) is None


@pytest.mark.parametrize(
    "now",
    [
        asking(ASKED[0], Message.user("Milk?"), *ASKED[2:]),
        asking(*ASKED[:2], other_call(arguments={"what": "milk"}), ASKED[3]),
        asking(*ASKED, tools=(structs.replace(TOOL, description="See."),)),
    ],
)
def test_texts_arguments_and_descriptions_are_no_matter_of_shape(now: ModelRequest) -> None:
    assert difference_of_requests(REQUEST, now, shape_only=True) is None


@pytest.mark.parametrize(
    ("now", "where"),
    [
        (asking(*ASKED[:2], other_call(name="see")), "message 3 (assistant), part 2, name"),
        (asking(ASKED[0], Message.assistant("Tea?")), "message 2 (user), role"),
        (asking(*ASKED, tools=()), "the tools"),
    ],
)
def test_roles_parts_and_tools_are_a_matter_of_shape(now: ModelRequest, where: str) -> None:
    found = difference_of_requests(REQUEST, now, shape_only=True)
    assert found is not None
    assert found.splitlines()[0] == where


def test_a_long_text_is_shown_around_the_place_where_it_parts() -> None:
    found = difference_of_values({"text": "x" * 500 + "tea" + "y" * 500}, {"text": "x" * 500 + "milk" + "y" * 500})
    assert found is not None
    assert [len(line) < 150 for line in found.splitlines()] == [True] * 3
    assert "xtea" in found
    assert "xmilk" in found


def test_a_place_is_written_as_in_all_that_compares_states() -> None:
    found = difference_of_values({"items": [{"two words": 1}]}, {"items": [{"two words": 2}]})
    assert found == 'items[0]["two words"]\n  recorded  1\n  now       2'


@pytest.mark.parametrize(("recorded", "now"), [(1, True), (1, 1.0), ("1", 1), (None, 0), ([], {})])
def test_what_json_tells_apart_is_a_difference(recorded: object, now: object) -> None:
    assert difference_of_values({"a": recorded}, {"a": now}) is not None  # type: ignore[dict-item]
