"""The refusals of the real service for a Messages request, so that no test accepts what production would not.

Only the rules that a client can break by a mistake of its own: roles, blocks, the pairing of tool uses with their
results, and thinking and blocks of the provider's own that do not come back as they were given out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.testing.model_request_schema import why_no_schema, why_no_tools

_ONLY_OF: Final[Mapping[str, str]] = {
    "tool_result": "user",
    "image": "user",
    "document": "user",
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
}
_PLAIN: Final = frozenset({*_ONLY_OF, "text"})
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_Block: TypeAlias = Mapping[str, JsonValue]
_Turn: TypeAlias = tuple[str, list[_Block]]


def why_refused(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]] = ()) -> str | None:
    """Return why the real service answers 400, or None when it takes the request.

    `issued` holds the bodies of the messages that it has given out.
    """
    if not isinstance(body.get("model"), str):
        return "model: Field required"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    turns: list[_Turn] = []
    for place, message in enumerate(messages):
        why = _message(message, turns)
        if why is not None:
            return f"messages.{place}: {why}"
    if turns[0][0] != "user":
        return 'messages: first message must use the "user" role'
    why = _tools(body, turns) or _schemas(body)
    return why or _pairs(turns) or _ending(turns, issued) or _thinking(turns, issued) or _own(turns, issued)


def without_own(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a request without the provider's own blocks, where they came back as they were given out."""
    given = [block for message in issued for block in _blocks(message) if block.get("type") not in _PLAIN]
    messages = body.get("messages")
    if not given or not isinstance(messages, list):
        return dict(body)
    kept: list[JsonValue] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(content, list):
            message = {**message, "content": [block for block in content if block not in given]}
        kept.append(message)
    return {**body, "messages": kept}


def _message(message: JsonValue, turns: list[_Turn]) -> str | None:
    """Add a message to the turns, one that continues a turn to that, or return what is wrong with it."""
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        return "Extra inputs are not permitted, or a field is missing"
    role, content = message["role"], message["content"]
    if role not in ("user", "assistant"):
        return f"role: Input should be 'user' or 'assistant', not {role!r}"
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or not blocks:
        return "content: must not be empty"
    if not turns or turns[-1][0] != role:
        turns.append((str(role), []))
    for block in blocks:
        if not isinstance(block, dict):
            return "content: expected an object"
        kind = str(block.get("type"))
        if _ONLY_OF.get(kind, role) != role:
            return f"`{kind}` blocks can not be in `{role}` messages"
        if kind == "text" and not str(block.get("text")).strip():
            return "text content blocks must contain non-whitespace text"
        turns[-1][1].append(block)
    return None


def _tools(body: Mapping[str, JsonValue], turns: Sequence[_Turn]) -> str | None:
    tools = body.get("tools")
    if tools is None:
        if "tool_choice" in body:
            return "tool_choice may only be specified while providing tools"
        used = any(block.get("type") in ("tool_use", "tool_result") for _, blocks in turns for block in blocks)
        return "Requests which include `tool_use` or `tool_result` blocks must define tools" if used else None
    given = tools if isinstance(tools, list) else [None]
    return why_no_tools(given, _NAME, schema="input_schema", with_properties=False)


def _schemas(body: Mapping[str, JsonValue]) -> str | None:
    form, tools = as_object(body.get("output_config")).get("format"), map(as_object, as_list(body.get("tools")))
    schemas = [form.get("schema")] if isinstance(form, dict) else []
    schemas += [tool.get("input_schema") for tool in tools if tool.get("strict")]
    forced, thinks = body.get("tool_choice"), body.get("thinking")
    if isinstance(forced, dict) and forced.get("type") in {"any", "tool"} and isinstance(thinks, dict):
        return "Thinking may not be enabled when tool_choice forces tool use."
    refused = (why_no_schema(schema, has_bounds=False) for schema in schemas)
    return next((why for why in refused if why is not None), None)


def _pairs(turns: Sequence[_Turn]) -> str | None:
    seen: set[str] = set()
    wanted: set[str] = set()
    for role, blocks in turns:
        if role == "user":
            kinds = [block.get("type") for block in blocks]
            answers = kinds.count("tool_result")
            if "tool_result" in kinds[answers:]:
                return "tool_result blocks must come first in the content"
            answered = {str(block.get("tool_use_id")) for block in blocks[:answers]}
            if missing := sorted(wanted - answered):
                return f"`tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
            if unexpected := sorted(answered - wanted):
                return f"unexpected `tool_use_id` found in `tool_result` blocks: {unexpected}"
            if len(answered) != answers:
                return "each tool_use must have a single result"
            wanted = set()
            continue
        for block in blocks:
            if block.get("type") == "tool_use":
                call = str(block.get("id"))
                if call in seen or not _ID.fullmatch(call) or not isinstance(block.get("input"), dict):
                    return f"`tool_use` ids must be unique and of letters, digits, - and _, inputs objects: {call}"
                if not _NAME.fullmatch(str(block.get("name"))):
                    return f"tool_use.name: the string {block.get('name')!r} does not match its pattern"
                seen.add(call)
                wanted.add(call)
    return (
        f"`tool_use` ids were found without `tool_result` blocks immediately after: {sorted(wanted)}"
        if wanted
        else None
    )


def _ending(turns: Sequence[_Turn], issued: Sequence[Mapping[str, JsonValue]]) -> str | None:
    has_paused = any(message.get("stop_reason") == "pause_turn" for message in issued)
    if turns[-1][0] == "assistant" and not has_paused:
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    return None


def _thinking(turns: Sequence[_Turn], issued: Sequence[Mapping[str, JsonValue]]) -> str | None:
    given = [list(_blocks(message)) for message in issued]
    thoughts = {str(block["signature"]): block for blocks in given for block in blocks if "signature" in block}
    opaque = {str(block["data"]) for blocks in given for block in blocks if block.get("type") == "redacted_thinking"}
    needs = {
        str(block["id"]): str(blocks[0]["signature"])
        for blocks in given
        for block in blocks
        if block.get("type") == "tool_use" and "signature" in blocks[0]
    }
    for role, blocks in turns:
        if role != "assistant":
            continue
        if blocks[-1].get("type") in ("thinking", "redacted_thinking"):
            return "The final block in an assistant message cannot be `thinking`"
        here = [str(block.get("signature")) for block in blocks if block.get("type") == "thinking"]
        for block in blocks:
            if block.get("type") == "thinking" and block != thoughts.get(str(block.get("signature"))):
                return "Invalid `signature` in `thinking` block"
            if block.get("type") == "redacted_thinking" and str(block.get("data")) not in opaque:
                return "Invalid `data` in `redacted_thinking` block"
            if block.get("type") == "tool_use" and needs.get(str(block["id"])) not in (None, *here):
                return "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    return None


def _own(turns: Sequence[_Turn], issued: Sequence[Mapping[str, JsonValue]]) -> str | None:
    given = [list(_blocks(message)) for message in issued]
    cited = [block["citations"] for blocks in given for block in blocks if block.get("citations")]
    for role, blocks in turns:
        if role != "assistant":
            continue
        for block in blocks:
            kind, own = block.get("type"), block.get("type") not in _PLAIN
            if own and "input" in block and not isinstance(block["input"], dict):
                return f"{kind}.input: Input should be a valid dictionary"
            if own and issued and not any(block in message for message in given):
                return f"`{kind}` blocks cannot be modified"
            if block.get("citations") and block["citations"] not in cited:
                return "citations: they are not those that were given out"
        for message in given:
            own_blocks = [block for block in message if block.get("type") not in _PLAIN]
            came_back = any(block.get("type") == "tool_use" and block in blocks for block in message)
            if came_back and any(block not in blocks for block in own_blocks):
                return "blocks of the provider are missing beside the `tool_use` of their message"
    return None


def _blocks(message: Mapping[str, JsonValue]) -> Iterator[_Block]:
    yield from (block for block in as_list(message.get("content")) if isinstance(block, dict))
