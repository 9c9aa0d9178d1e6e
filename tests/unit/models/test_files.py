"""Files as the three protocols take them: what each can show is shown, and the rest is told of in words."""

from base64 import b64encode
from collections.abc import Sequence

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message, ToolCallPart
from steptrail.infrastructure.models import anthropic_rendering, chat_rendering, responses_rendering
from steptrail.infrastructure.models.files import with_bytes
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.messages import File, Image
from steptrail.testing import model_request, model_request_anthropic, model_request_responses

PNG, PDF = b"\x89PNG\r\n\x1a\n-", b"%PDF-1.7"
IMAGE = Image.from_bytes(PNG, name="a.png", detail="high")
PAPER = File.from_bytes(PDF, name="p.pdf")
TABLE = File.from_bytes(b"\xef\xbb\xbfa,b\n", "text/csv", name="t.csv")
ODD = File.from_bytes(b"\0\1", name="o")
PNG64, PDF64 = b64encode(PNG).decode(), b64encode(PDF).decode()
SAID = Message.user("What?", IMAGE, PAPER, TABLE, ODD)

CHAT: list[JsonValue] = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG64}", "detail": "high"}},
    {"type": "file", "file": {"filename": "p.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"}},
    {"type": "text", "text": "[text/csv, 7 bytes, t.csv]\na,b\n"},
    {"type": "text", "text": "[application/octet-stream, 2 bytes, o]"},
]
RESPONSES: list[JsonValue] = [
    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG64}", "detail": "high"},
    {"type": "input_file", "filename": "p.pdf", "file_data": f"data:application/pdf;base64,{PDF64}"},
    {"type": "input_text", "text": "[text/csv, 7 bytes, t.csv]\na,b\n"},
    {"type": "input_text", "text": "[application/octet-stream, 2 bytes, o]"},
]
MESSAGES: list[JsonValue] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}},
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
        "title": "p.pdf",
    },
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}, "title": "t.csv"},
    {"type": "text", "text": "[application/octet-stream, 2 bytes, o]"},
]


def bodies(request: ModelRequest) -> list[dict[str, JsonValue]]:
    return [
        chat_rendering.render_request("m", request, {}),
        responses_rendering.render_request("m", request, {}),
        anthropic_rendering.render_request("m", request, {"max_tokens": 5}),
    ]


@pytest.mark.acceptance("8.9-3")
def test_each_protocol_gets_what_it_takes_and_words_for_the_rest() -> None:
    chat, responses, messages = bodies(ModelRequest(messages=[SAID]))
    for told, parts in ((chat["messages"], CHAT), (responses["input"], RESPONSES), (messages["messages"], MESSAGES)):
        assert as_list(as_object(as_list(told)[0])["content"])[1:] == parts
    assert model_request.why_refused(chat) is None
    assert model_request_responses.why_refused(responses) is None
    assert model_request_anthropic.why_refused(messages) is None


def test_files_of_tools_are_in_their_results_or_follow_them_in_one_message() -> None:
    asked = [ToolCallPart(id=f"call_{n}", name="stock", arguments={}) for n in (1, 2)]
    said = [
        Message.user("hi"),
        Message.assistant(tool_calls=asked),
        Message.tool("call_1", "stock", "three", IMAGE, TABLE),
        Message.tool("call_2", "stock", "", PAPER),
    ]
    for messages in (said, [*said, Message.assistant("Three.")]):
        chat, responses, claude = bodies(ModelRequest(messages=messages))
        told: JsonValue = {"type": "text", "text": "[files of stock]"}
        assert as_list(chat["messages"])[2:5] == [
            {"role": "tool", "tool_call_id": "call_1", "content": "three"},
            {"role": "tool", "tool_call_id": "call_2", "content": ""},
            {"role": "user", "content": [told, CHAT[0], CHAT[2], told, CHAT[1]]},
        ]
        assert as_list(responses["input"])[3:5] == [
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "three"}, RESPONSES[0], RESPONSES[2]],
            },
            {"type": "function_call_output", "call_id": "call_2", "output": [RESPONSES[1]]},
        ]
        results = as_list(as_object(as_list(claude["messages"])[2])["content"])
        assert [as_object(each)["content"] for each in results] == [
            [{"type": "text", "text": "three"}, MESSAGES[0], MESSAGES[2]],
            [MESSAGES[1]],
        ]
        assert model_request.why_refused(chat) is None
        assert model_request_responses.why_refused(responses) is None
        assert model_request_anthropic.why_refused({**claude, "tools": claude["tools"]}) is None


def test_a_message_of_files_alone_has_no_empty_text() -> None:
    for body in bodies(ModelRequest(messages=[Message.user("", IMAGE)])):
        (said,) = as_list(body.get("messages", body.get("input")))
        assert len(as_list(as_object(said)["content"])) == 1


@pytest.mark.parametrize("file", [File.from_bytes(b"\xff\xfe", "text/plain"), File.from_bytes(b" ", "text/plain")])
def test_text_that_is_none_is_told_of_in_words(file: File) -> None:
    for body in bodies(ModelRequest(messages=[Message.user("", file)])):
        (said,) = as_list(body.get("messages", body.get("input")))
        (part,) = as_list(as_object(said)["content"])
        assert str(as_object(part)["text"]).startswith(file.placeholder)


def asked_of(files: Sequence[FilePart], read: list[str]) -> ModelRequest:
    async def reading(digest: str) -> bytes:
        read.append(digest)
        return next(data for file in files if file.digest == digest and (data := file.data) is not None)

    stored = [FilePart(digest=each.digest, mime_type=each.mime_type, size=each.size) for each in files]
    return ModelRequest(messages=[Message.user("look", each) for each in stored], read=reading)


def shown(request: ModelRequest) -> list[bool]:
    return [part.data is not None for message in request.messages for part in message.parts[1:] if part.kind == "file"]


async def test_of_too_many_files_the_newest_are_shown_and_none_is_read_twice() -> None:
    read: list[str] = []
    files = [ODD, *[IMAGE, PAPER] * 50]
    assert shown(await with_bytes(asked_of(files, read), shows_files=True)) == [False, *[True] * 100]
    assert read == [PAPER.digest, IMAGE.digest]


async def test_of_files_that_are_too_large_together_the_newest_are_shown() -> None:
    read: list[str] = []
    first, second, third = (File.from_bytes(PDF + mark * 9 * 1024 * 1024) for mark in (b"a", b"b", b"c"))
    request = asked_of([first, second, IMAGE, third], read)
    assert shown(await with_bytes(request, shows_files=True)) == [False, True, True, True]


async def test_a_file_that_is_told_of_in_words_anyway_is_not_read_and_takes_no_room() -> None:
    read: list[str] = []
    packed = File.from_bytes(bytes(20 * 1024 * 1024), "application/zip")
    large = File.from_bytes(b"%PDF-" + bytes(23 * 1024 * 1024), at_most=24 * 1024 * 1024)
    log = File.from_bytes(bytes(4 * 1024 * 1024 + 1), "text/plain")
    request = asked_of([IMAGE, PAPER, *[packed] * 100, large, log], read)
    assert shown(await with_bytes(request, shows_files=True)) == [True, True, *[False] * 102]
    assert sorted(read) == sorted([IMAGE.digest, PAPER.digest])


def test_an_image_that_the_protocol_refuses_for_its_size_is_told_of_in_words() -> None:
    fits, large = (Image.from_bytes(PNG.ljust(size, b"-"), name="b.png") for size in (7_864_320, 7_864_321))
    said = Message.user("look", fits, large)
    chat, responses, messages = bodies(ModelRequest(messages=[said]))
    kinds = [
        [as_object(part)["type"] for part in as_list(as_object(as_list(told)[0])["content"])]
        for told in (chat["messages"], responses["input"], messages["messages"])
    ]
    assert kinds == [["text", *["image_url"] * 2], ["input_text", *["input_image"] * 2], ["text", "image", "text"]]


async def test_a_model_that_takes_only_text_is_shown_text() -> None:
    read: list[str] = []
    request = await with_bytes(asked_of([IMAGE, TABLE], read), shows_files=False)
    assert shown(request) == [False, True]
    assert read == [TABLE.digest]
    assert "[image/png, 9 bytes]" in str(bodies(request)[0])
