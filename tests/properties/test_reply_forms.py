"""A reply is the same however its stream is cut, and what came of it goes back as it came: for every protocol."""

import json
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from hypothesis import given, strategies as st

from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, MessageRole
from steptrail.infrastructure.models.anthropic_assembly import AnthropicAssembly
from steptrail.infrastructure.models.anthropic_parsing import parse_body as parse_anthropic
from steptrail.infrastructure.models.anthropic_rendering import render_messages as render_anthropic
from steptrail.infrastructure.models.chat_assembly import ChatAssembly
from steptrail.infrastructure.models.chat_parsing import parse_body as parse_chat
from steptrail.infrastructure.models.chat_rendering import render_messages as render_chat
from steptrail.infrastructure.models.responses_assembly import ResponsesAssembly
from steptrail.infrastructure.models.responses_parsing import parse_body as parse_responses
from steptrail.infrastructure.models.responses_rendering import render_items
from steptrail.infrastructure.models.sdk_types import Assembly

Object = dict[str, JsonValue]

words = st.text(st.sampled_from('ab {}[]":1é\U0001f600\n'), min_size=1, max_size=12).filter(lambda text: text.strip())
values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
telling = values.filter(lambda value: value not in (None, [], {}))
arguments: st.SearchStrategy[Object] = st.dictionaries(words, values, max_size=3)
known_names = st.sampled_from(["type", "delta", "index", "choices"])
unknown_names = st.sampled_from(["novelty", "extra_content", "encrypted", "images"])


def cut(draw: st.DrawFn, text: str) -> list[str]:
    """Return a text in pieces, some of which may be empty."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def together(assembly: Assembly, events: Sequence[JsonValue]) -> tuple[str, str]:
    """Return the body that a stream becomes, and the text that was shown of it."""
    shown = [delta.text for event in events for delta in assembly.add(event) if delta.kind == "text"]
    return json.dumps(assembly.body()), "".join(shown)


def as_message(reply: ModelReply) -> Message:
    # Through its stored form, which is what the next request is made of.
    stored = msgspec.json.encode(Message(role=MessageRole.ASSISTANT, parts=reply.parts))
    return msgspec.json.decode(stored, type=Message)


# Chat Completions


@st.composite
def chat_messages(draw: st.DrawFn) -> Object:
    message: Object = {"role": "assistant", "content": draw(st.none() | words)}
    if draw(st.booleans()):
        message["content"] = list(draw(st.lists(chunks(), min_size=1, max_size=4).map(apart)))
    for name in draw(st.sets(st.sampled_from(["reasoning_content", "reasoning"]))):
        message[name] = draw(words)
    for name in draw(st.sets(unknown_names, max_size=2)):
        message[name] = draw(telling)
    calls: list[JsonValue] = [
        {
            **({"extra_content": draw(telling)} if draw(st.booleans()) else {}),
            "id": f"call_{place}",
            "type": "function",
            "function": {
                "name": "look",
                "arguments": json.dumps(draw(arguments), ensure_ascii=False, separators=(",", ":")),
            },
        }
        for place in range(draw(st.integers(0, 3)))
    ]
    return {**message, "tool_calls": calls} if calls else message


@st.composite
def chunks(draw: st.DrawFn) -> Object:
    match draw(st.sampled_from(["text", "thinking", "reference"])):
        case "text":
            return {"type": "text", "text": draw(words)}
        case "thinking":
            return {"type": "thinking", "thinking": [{"type": "text", "text": draw(words)}], "closed": True}
        case _:
            return {"type": "reference", "reference_ids": [draw(st.integers(0, 9))]}


def apart(found: list[Object]) -> list[JsonValue]:
    """Return chunks without texts that follow each other, which a stream cannot tell from one."""
    kept: list[Object] = []
    for each in found:
        if not kept or (each["type"], kept[-1]["type"]) != ("text", "text"):
            kept.append(each)
    return list[JsonValue](kept)


@st.composite
def chat_streams(draw: st.DrawFn) -> tuple[Object, list[JsonValue]]:
    message = draw(chat_messages())
    deltas: list[Object] = [fields_of(role="assistant", content=draw(st.sampled_from(["", None])))]
    for name, value in message.items():
        if name == "tool_calls" and isinstance(value, list):
            deltas += [fields_of(tool_calls=[piece]) for piece in draw(shuffled_calls(value))]
        elif name == "content" and isinstance(value, list):
            deltas += list(_chunk_deltas(draw, value))
        elif name != "role":
            pieces: Sequence[JsonValue] = cut(draw, value) if isinstance(value, str) else [value]
            deltas += [{name: piece} for piece in pieces]
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "novel"]))
    events: list[JsonValue] = []
    for each in deltas:
        events.append({"id": "c", "model": "m", "choices": [{"index": 0, "delta": each}]})
    events.append({"choices": [{"index": 1, "delta": {"content": "another"}, "finish_reason": "stop"}]})
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    events.append({"choices": []})
    whole: Object = {"id": "c", "model": "m", "choices": [{"message": message, "finish_reason": reason}]}
    return whole, events


def fields_of(**delta: JsonValue) -> Object:
    return delta


def _chunk_deltas(draw: st.DrawFn, content: list[JsonValue]) -> Iterator[Object]:
    for chunk in content:
        assert isinstance(chunk, dict)
        match chunk:
            case {"type": "text", "text": str(text)}:
                first, *rest = cut(draw, text)
                yield {"content": [{"type": "text", "text": first}]}
                for piece in rest:
                    as_text = first and draw(st.booleans())
                    yield {"content": piece} if as_text else {"content": [{**chunk, "text": piece}]}
            case {"type": "thinking", "thinking": [{"text": str(text)}]}:
                *pieces, last = cut(draw, text)
                for piece in pieces:
                    yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}
                yield {"content": [{**chunk, "thinking": [{"type": "text", "text": last}]}]}
            case _:
                yield {"content": [chunk]}


@st.composite
def shuffled_calls(draw: st.DrawFn, calls: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the pieces of calls: those of one call in order, the calls in any."""
    rows: list[list[JsonValue]] = []
    for index, call in enumerate(calls):
        assert isinstance(call, dict)
        function = call["function"]
        assert isinstance(function, dict)
        first, *rest = cut(draw, str(function["arguments"]))
        rows.append([{**call, "index": index, "function": {**function, "arguments": first}}])
        for piece in rest:
            rows[-1].append({"index": index, "function": {"arguments": piece}})
    order = draw(st.permutations([row for row, pieces in enumerate(rows) for _ in pieces]))
    return [rows[row].pop(0) for row in order]


@given(chat_streams())
def test_a_chat_reply_is_the_same_however_its_stream_is_cut(made: tuple[Object, list[JsonValue]]) -> None:
    whole, events = made
    body, shown = together(ChatAssembly(), events)
    reply = parse_chat(body)
    assert reply == parse_chat(json.dumps(whole))
    if not reply.tool_calls:
        assert shown == reply.text


@given(chat_messages())
def test_a_chat_message_goes_back_as_it_came(message: Object) -> None:
    reply = parse_chat(json.dumps({"choices": [{"message": message, "finish_reason": "novel"}]}))
    (again,) = render_chat([as_message(reply)])
    assert isinstance(again, dict)
    if reply.tool_calls or message["content"] is None:
        again.pop("content")
        message = {name: value for name, value in message.items() if name != "content"}
    elif isinstance(message["content"], list) and isinstance(again["content"], str):
        # Texts alone need no list.
        again["content"] = [{"type": "text", "text": again["content"]}]
    assert again == message


# Messages


@st.composite
def blocks(draw: st.DrawFn) -> Object:
    match draw(st.sampled_from(["text", "tool_use", "thinking", "compaction", "server_tool_use", "novel"])):
        case "text":
            quotes = draw(st.lists(words, max_size=2))
            cited: list[JsonValue] = [{"type": "char_location", "cited_text": quote} for quote in quotes]
            return {"type": "text", "text": draw(words), **({"citations": cited} if cited else {})}
        case "tool_use" | "server_tool_use" as kind:
            name, numbered = "look", draw(st.uuids()).hex
            caller: Object = {"caller": {"type": "direct"}} if draw(st.booleans()) else {}
            written: Object = {**draw(arguments)}
            return {"type": kind, "id": numbered, "name": name, "input": written, **caller}
        case "thinking":
            return {"type": "thinking", "thinking": draw(words), "signature": draw(words)}
        case "compaction":
            return {"type": "compaction", "content": draw(words), "encrypted_content": draw(st.none() | words)}
        case _:
            return {"type": "novel", "said": draw(words), "held": [draw(values)], "known": draw(values)}


@st.composite
def block_events(draw: st.DrawFn, place: int, block: Object) -> list[JsonValue]:
    begun: Object = dict(block)
    deltas: list[Object] = []
    match block:
        case {"type": "text" | "thinking" as kind}:
            begun |= {kind: ""}
            deltas = [fields_of(type=f"{kind}_delta", **{kind: piece}) for piece in cut(draw, str(block[kind]))]
            cited = begun.pop("citations", None)
            cited = cited if isinstance(cited, list) else []
            deltas += [{"type": "citations_delta", "citation": each} for each in cited]
            if "signature" in block:
                begun["signature"] = ""
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case {"input": dict(given_input)}:
            begun["input"] = {}
            written = json.dumps(given_input) if given_input else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in cut(draw, written)]
        case {"type": "compaction"}:
            begun = fields_of(type="compaction", content=None)
            deltas = [{**block, "type": "compaction_delta"}]
        case _:
            begun = fields_of(type="novel", said="", held=[], known=block["known"])
            deltas = [fields_of(type="novel_delta", said=piece) for piece in cut(draw, str(block["said"]))]
            deltas.append(fields_of(type="novel_delta", held=block["held"]))
    events: list[JsonValue] = [{"type": "content_block_start", "index": place, "content_block": begun}]
    for each in deltas:
        events.append({"type": "content_block_delta", "index": place, "delta": each})
    return events


@st.composite
def anthropic_streams(draw: st.DrawFn) -> tuple[Object, list[JsonValue]]:
    content = draw(st.lists(blocks(), max_size=4))
    rows = [draw(block_events(place, block)) for place, block in enumerate(content)]
    order = draw(st.permutations([row for row, events in enumerate(rows) for _ in events]))
    head: Object = {"id": "msg", "model": "m"}
    ending: Object = {"stop_reason": draw(st.sampled_from(["end_turn", "tool_use", "novel"]))}
    whole: Object = {**head, **ending, "content": list[JsonValue](content), "usage": {"output_tokens": 7}}
    events: list[JsonValue] = [{"type": "message_start", "message": {**head, "content": [], "usage": {}}}]
    events += [rows[row].pop(0) for row in order]
    return whole, [*events, {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 7}}]


@given(anthropic_streams())
def test_a_messages_reply_is_the_same_however_its_stream_is_cut(made: tuple[Object, list[JsonValue]]) -> None:
    whole, events = made
    body, _ = together(AnthropicAssembly(), events)
    assert parse_anthropic(body) == parse_anthropic(json.dumps(whole))


@given(st.lists(blocks(), min_size=1, max_size=4))
def test_blocks_go_back_as_they_came(content: list[Object]) -> None:
    reply = parse_anthropic(json.dumps({"content": content, "stop_reason": "end_turn"}))
    content = content if reply.text else [block for block in content if block["type"] != "text"]
    while content and content[-1]["type"] == "thinking":
        content = content[:-1]
    rendered = render_anthropic([as_message(reply)])
    assert rendered == ([{"role": "assistant", "content": content}] if content else [])


# Responses


@st.composite
def items(draw: st.DrawFn) -> Object:
    own: Object = {name: draw(telling) for name in draw(st.sets(unknown_names, max_size=1))}
    item_id = draw(st.uuids()).hex
    match draw(st.sampled_from(["message", "function_call", "reasoning", "novel"])):
        case "message":
            kind = draw(st.sampled_from(["output_text", "refusal"]))
            addresses = draw(st.lists(words, max_size=2))
            cited: list[JsonValue] = [{"type": "url_citation", "url": address} for address in addresses]
            text: Object = {"type": "output_text", "text": draw(words), "annotations": cited}
            said: JsonValue = text if kind == "output_text" else {"type": "refusal", "refusal": draw(words)}
            fixed: Object = {"type": "message", "role": "assistant", "id": item_id, "status": "completed"}
            return {**own, **fixed, "content": [said, text]}
        case "function_call":
            written = json.dumps(draw(arguments), ensure_ascii=False, separators=(",", ":"))
            asked: Object = {"call_id": item_id, "name": "f", "arguments": written}
            return {**own, "type": "function_call", "id": item_id, **asked}
        case "reasoning":
            return {**own, "type": "reasoning", "id": item_id, "summary": [], "encrypted_content": draw(words)}
        case _:
            return {"type": "novel", "id": item_id, "content": [draw(values)], "held": draw(values)}


@given(st.lists(items(), max_size=4), st.booleans(), st.data())
def test_a_response_is_the_same_whole_or_put_together_from_its_items(
    output: list[Object], leaves_out: bool, data: st.DataObject
) -> None:
    head: Object = {"id": "resp", "status": "completed"}
    places = data.draw(st.permutations(range(len(output))))
    events: list[JsonValue] = [
        {"type": "response.output_item.done", "output_index": place, "item": output[place]} for place in places
    ]
    last: Object = {**head, "output": [] if leaves_out else list[JsonValue](output)}
    body, _ = together(ResponsesAssembly(), [*events, {"type": "response.completed", "response": last}])
    assert parse_responses(body) == parse_responses(json.dumps({**head, "output": output}))


@given(st.lists(items(), max_size=4))
def test_items_go_back_as_they_came(output: list[Object]) -> None:
    reply = parse_responses(json.dumps({"status": "completed", "output": output}))
    if not reply.text:
        output = [item for item in output if item["type"] != "message"]
    while output and output[-1]["type"] == "reasoning":
        output = output[:-1]
    assert list(render_items([as_message(reply)])) == output


@pytest.mark.parametrize("assembly", [ChatAssembly, AnthropicAssembly, ResponsesAssembly])
@given(events=st.lists(values | st.dictionaries(known_names, values), max_size=5))
def test_no_event_that_is_json_is_a_surprise(assembly: type[Assembly], events: list[JsonValue]) -> None:
    taken = assembly()
    for event in events:
        assert isinstance([delta.text for delta in taken.add(event)], list)
