"""Pieces of a Chat Completions stream, as servers really cut and number them."""

from collections.abc import Sequence

import pytest

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import FinishReason, ModelDelta, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import ProviderPart
from steptrail.infrastructure.models import chat_assembly
from steptrail.infrastructure.models.chat_assembly import ChatAssembly
from steptrail.infrastructure.models.chat_parsing import parse_reply
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid
from steptrail.infrastructure.models.wire import read_arguments


def piece(arguments: JsonValue = None, **fields: JsonValue) -> dict[str, JsonValue]:
    """A piece of a call; `name` stands inside its function."""
    function = {"name": fields.pop("name", None), "arguments": arguments}
    return {**fields, "function": {key: value for key, value in function.items() if value is not None}}


def chunk(finish_reason: str | None = None, **delta: JsonValue) -> JsonValue:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def calling(*pieces: JsonValue) -> JsonValue:
    return chunk(tool_calls=list(pieces))


def assembled(*chunks: JsonValue) -> tuple[list[ModelDelta], ModelReply]:
    assembly = ChatAssembly()
    deltas = [delta for each in chunks for delta in assembly.add(each)]
    return deltas, parse_reply(assembly.body())


def calls_of(*chunks: JsonValue) -> list[tuple[str, str, JsonValue]]:
    _, reply = assembled(*chunks, chunk("tool_calls"))
    return [(call.id, call.name, call.arguments) for call in reply.tool_calls]


A, B = ("a", "f", {"x": 1}), ("b", "g", {"y": 2})


@pytest.mark.parametrize(
    "chunks",
    [
        [calling(piece('{"x"', index=0, id="a", name="f"), piece('{"y"', index=1, id="b", name="g")),
         calling(piece(": 2}", index=1)), calling(piece(": 1}", index=0))],
        [calling(piece("", index=0, id="a", name="f")), calling(piece("", index=1, id="b", name="g")),
         calling(piece('{"x": 1}', index=0), piece('{"y": 2}', index=1))],
        # Each piece names the call again.
        [calling(piece('{"x"', index=0, id="a", name="f")), calling(piece('{"y": 2}', index=1, id="b", name="g")),
         calling(piece(": 1}", index=0, id="a", name="f"))],
        # The id, or the name, comes later.
        [calling(piece('{"x"', index=0, name="f")), calling(piece(": 1}", index=0, id="a")),
         calling(piece('{"y": 2}', index=1, id="b")), calling(piece("", index=1, name="g"))],
        # Every call is number 0.
        [calling(piece('{"x": 1}', index=0, id="a", name="f"), piece('{"y": 2}', index=0, id="b", name="g"))],
        [calling(piece('{"x"', index=0, id="a", name="f")), calling(piece('{"y"', index=0, id="b", name="g")),
         calling(piece(": 1}", index=0, id="a"), piece(": 2}", index=0))],
        # No numbers at all.
        [calling(piece('{"x"', id="a", name="f")), calling(piece(": 1}")),
         calling(piece('{"y": 2}', id="b", name="g"))],
        [calling(piece('{"x"', id="a", name="f")), calling(piece('{"y"', id="b", name="g")),
         calling(piece(": 1}", id="a")), calling(piece(": 2}", id="b"))],
        # A new id for every piece, as one server has it: without a name it begins nothing.
        [calling(piece('{"x"', index=0, id="a", name="f")), calling(piece(": 1}", index=0, id="z1")),
         calling(piece('{"y"', index=1, id="b", name="g")), calling(piece(": 2}", index=1, id="z2"))],
        # The second call begins first, and its number says so.
        [calling(piece('{"y"', index=1, id="b", name="g")), calling(piece('{"x": 1}', index=0, id="a", name="f")),
         calling(piece(": 2}", index=1))],
        # Whole objects in the place of text.
        [calling(piece({"x": 1}, index=0, id="a", name="f"), piece({"y": 2}, index=1, id="b", name="g"))],
    ],
    ids=["backwards", "at once", "named again", "id later", "all 0", "all 0 mixed", "none", "none mixed", "new ids",
         "second first", "objects"],
)  # fmt: skip
def test_pieces_find_their_call(chunks: Sequence[JsonValue]) -> None:
    assert calls_of(*chunks) == [A, B]


def test_two_calls_with_one_id_other_names_and_no_index_are_two_calls() -> None:
    chunks = [
        calling(piece('{"x"', id="a", name="f")),
        calling(piece(": 1}")),
        calling(piece('{"y": 2}', id="a", name="g")),
    ]
    assert calls_of(*chunks) == [A, ("a", "g", {"y": 2})]


@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["no numbers", "all 0"])
@pytest.mark.parametrize("call_id", [{}, {"id": ""}], ids=["no ids", "empty ids"])
@pytest.mark.parametrize(
    "pieces",
    [
        [piece('{"x": 1}', name="f"), piece('{"x": 2}', name="f"), piece('{"y": 3}', name="g")],
        [piece({"x": 1}, name="f"), piece({"x": 2}, name="f"), piece({"y": 3}, name="g")],
        [piece("", name="f"), piece('{"x": 1}', name="f"), piece('{"x"', name="f"), piece(": 2}"),
         piece("", name="g"), piece('{"y": 3}')],
        # Each piece names its call again, and two calls are written side by side.
        [piece('{"x": 1}', name="f"), piece('{"x"', name="f"), piece('{"y"', name="g"), piece(": 2}", name="f"),
         piece(": 3}", name="g")],
    ],
    ids=["whole", "objects", "in pieces", "named again"],
)  # fmt: skip
def test_a_name_behind_whole_arguments_begins_another_call_where_there_are_no_ids(
    pieces: Sequence[dict[str, JsonValue]], call_id: dict[str, JsonValue], index: dict[str, JsonValue]
) -> None:
    told = [calling({**call_id, **index, **each}) for each in pieces]
    assert [call[1:] for call in calls_of(*told)] == [("f", {"x": 1}), ("f", {"x": 2}), ("g", {"y": 3})]


def test_blanks_behind_whole_arguments_begin_no_call_that_nobody_asked_for() -> None:
    pieces = [piece('{"x": 1}', index=0, name="f"), piece(" \n", index=0, name="f")]
    assert [call[1:] for call in calls_of(*map(calling, pieces))] == [("f", {"x": 1})]


def test_arguments_in_pieces_that_name_their_call_are_not_read_again_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[JsonValue] = []

    def seen(arguments: JsonValue) -> tuple[dict[str, JsonValue] | None, str | None]:
        read.append(arguments)
        return read_arguments(arguments)

    monkeypatch.setattr(chat_assembly, "read_arguments", seen)
    texts = ['{"x": "', *["long "] * 50, '"}', "null", "{}"]
    told = [calling(piece(text, name="f")) for text in texts]
    assert [call[2] for call in calls_of(*told)] == [{"x": "long " * 50}, {}, {}]
    assert read == ["".join(texts[:-2]), "null"]


@pytest.mark.parametrize("call_id", [{}, {"id": "a"}])
def test_a_call_without_arguments_gets_none_of_the_call_after_it(call_id: dict[str, JsonValue]) -> None:
    pieces = [{**call_id, "index": 0, **piece("", name="f")}, {**call_id, "index": 0, **piece('{"y": 2}', name="g")}]
    assert [call[1:] for call in calls_of(*map(calling, pieces))] == [("f", {}), ("g", {"y": 2})]


def test_a_call_that_is_sent_again_whole_is_not_made_twice() -> None:
    again = calling(piece('{"x": 1}', index=0, id="a", name="f"))
    assert calls_of(again, again) == [("a", "f", None)]


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_another_choice_is_neither_shown_nor_mixed_into_the_first(first: int, second: int) -> None:
    def of(index: int, **delta: JsonValue) -> JsonValue:
        return {"index": index, "delta": delta}

    deltas, reply = assembled(
        {"choices": [of(first, content="A"), of(second, content="B")]},
        {"choices": [of(second, content="B")]},
        {"choices": [of(first, content="A"), {"index": second, "delta": {}, "finish_reason": "length"}]},
        {"choices": [{"index": first, "delta": {}, "finish_reason": "stop"}]},
    )
    assert [delta.text for delta in deltas] == ["A", "A"]
    assert (reply.text, reply.finish_reason) == ("AA", FinishReason.STOP)


def test_an_error_among_the_chunks_is_raised_with_its_word_and_its_status() -> None:
    """Groq's documents, "Tool use": a call that the model wrote badly fails with `tool_use_failed`."""
    error: JsonValue = {"message": "Failed to call a function.", "code": "tool_use_failed", "status_code": 400}
    with pytest.raises(ModelFailed, match="Failed to call a function") as caught:
        assembled({"error": error})
    assert (caught.value.code, caught.value.status_code) == ("tool_use_failed", 400)


def test_a_call_that_comes_after_text_leaves_the_text_alone() -> None:
    deltas, reply = assembled(
        chunk(role="assistant", content=""),
        chunk(content="Let me "),
        chunk(content="look.", reasoning="Hm."),
        calling(piece('{"x": 1}', index=0, id="a", name="f")),
        chunk("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    )
    assert [delta.text for delta in deltas if delta.kind == "text"] == ["", "Let me ", "look."]
    assert [delta.text for delta in deltas if delta.kind == "reasoning"] == ["Hm."]
    assert (reply.text, reply.finish_reason) == ("Let me look.", FinishReason.TOOL_CALLS)
    assert (reply.usage.input, reply.usage.output, reply.response_id, reply.response_model) == (3, 4, "c", "m")


def test_nothing_at_all_and_no_finish_reason_are_a_broken_stream() -> None:
    streams: list[list[JsonValue]] = [
        [],
        [chunk(content="It is")],
        [{"choices": []}],
        ["nonsense", None, {"choices": [None]}],
    ]
    for chunks in streams:
        with pytest.raises(StreamBroken):
            assembled(*chunks)


def test_a_refusal_is_kept_and_no_delta() -> None:
    deltas, reply = assembled(chunk(refusal="I can"), chunk(refusal="not."), chunk("stop"))
    assert deltas == []
    assert (reply.text, reply.finish_reason) == ("I cannot.", FinishReason.CONTENT_FILTER)


def test_signed_reasoning_is_put_together_and_kept() -> None:
    _, reply = assembled(
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "Let "}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "me.", "signature": None}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "s"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "x"}]),
        calling({**{"index": 0, "id": "a", "extra_content": {"k": 1}}, "function": {"name": "f", "arguments": ""}}),
        chunk("tool_calls"),
    )
    assert [part.data for part in reply.parts if isinstance(part, ProviderPart)] == [
        {
            "message": {
                "reasoning_details": [
                    {"type": "reasoning.text", "index": 0, "text": "Let me.", "signature": "s"},
                    {"type": "reasoning.encrypted", "index": 1, "data": "x"},
                ]
            }
        },
        {"beside": "tool_call", "fields": {"extra_content": {"k": 1}}},
    ]


def test_a_call_in_the_form_before_tools_is_invalid_here_too() -> None:
    with pytest.raises(ModelReplyInvalid, match="tool calls"):
        assembled(chunk(function_call={"name": "f", "arguments": "{}"}), chunk("function_call"))
