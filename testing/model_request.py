"""The refusals of the real service for a Chat Completions request, so that no test accepts what production would not.

Only the rules that a client can break by a mistake of its own: fields of messages, roles, the pairing of tool
calls with their results, and the fields that a compatible server adds to its messages and wants back beside their
calls, as DeepSeek does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.testing.model_request_schema import NAME, why_no_schema, why_no_tools

_MESSAGE_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}


def why_refused(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]] = ()) -> str | None:
    """Return why the real service answers 400, or None when it takes the request.

    `issued` holds the bodies of the completions that it has given out.
    """
    if (why := _own(body, issued)) is not None:
        return why
    body = without_own(body, issued)
    if not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    return _tools(body) or _schemas(body) or _conversation(messages)


def without_own(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a request without what the server itself has added to the protocol, where that came back as it was."""
    given = list(_given(issued))
    messages = body.get("messages")
    if not given or not isinstance(messages, list):
        return dict(body)
    return {**body, "messages": [_plain(message, given) for message in messages]}


def _plain(message: JsonValue, given: Sequence[Mapping[str, JsonValue]]) -> JsonValue:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    own = {
        name
        for name in message.keys() - _MESSAGE_FIELDS["assistant"]
        if any(name in each and each[name] == message[name] for each in given)
    }
    plain = {name: value for name, value in message.items() if name not in own}
    if isinstance(plain.get("content"), list) and any(each.get("content") == plain["content"] for each in given):
        plain["content"] = "what was given out as a list"
    return plain


def _given(issued: Sequence[Mapping[str, JsonValue]]) -> Iterator[dict[str, JsonValue]]:
    """Yield the messages that were given out."""
    for completion in issued:
        for choice in as_list(completion.get("choices")):
            if message := as_object(as_object(choice).get("message")):
                yield message


def _own(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]]) -> str | None:
    """Return what of the server's own is missing beside calls that it has asked for."""
    nothing: dict[str, JsonValue] = {}
    wanted = {call_id: message for message in _given(issued) for call_id in _call_ids(message)}
    for place, message in enumerate(map(as_object, as_list(body.get("messages")))):
        given = next((wanted[call_id] for call_id in _call_ids(message) if call_id in wanted), nothing)
        own = given.keys() - _MESSAGE_FIELDS["assistant"] - {"annotations"}
        if missing := sorted(name for name in own if message.get(name) != given[name]):
            return f"Missing {missing[0]} field in the assistant message at message index {place}"
        if isinstance(given.get("content"), list) and message.get("content") != given["content"]:
            return f"messages[{place}].content is not the list of chunks that was given out"
    return None


def _call_ids(message: Mapping[str, JsonValue]) -> Iterator[str]:
    for call in as_list(message.get("tool_calls")):
        call_id = as_object(call).get("id")
        if isinstance(call_id, str) and call_id:
            yield call_id


def _tools(body: Mapping[str, JsonValue]) -> str | None:
    tools = body.get("tools")
    if tools is None:
        offending = [name for name in ("tool_choice", "parallel_tool_calls") if name in body]
        return f"'{offending[0]}' is only allowed when 'tools' are specified" if offending else None
    if not isinstance(tools, list) or not tools:
        return "[] is too short - 'tools'"
    functions = [tool.get("function") if tool.get("type") == "function" else None for tool in map(as_object, tools)]
    return why_no_tools(functions, NAME, schema="parameters", with_properties=True)


def _schemas(body: Mapping[str, JsonValue]) -> str | None:
    form = as_object(body.get("response_format"))
    forms = [form.get("json_schema")] if form.get("type") == "json_schema" else []
    forms += [tool.get("function") for tool in as_list(body.get("tools")) if isinstance(tool, dict)]
    for each in forms:
        if not isinstance(each, dict) or not NAME.fullmatch(str(each.get("name"))):
            return "Missing required parameter: 'response_format.json_schema.name'"
        if each.get("strict") and (why := why_no_schema(each.get("schema", each.get("parameters")), has_bounds=True)):
            return why
    return None


def _conversation(messages: list[JsonValue]) -> str | None:
    open_calls: set[str] = set()
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"messages[{place}] is not an object"
        role = message.get("role")
        if not isinstance(role, str) or role not in _MESSAGE_FIELDS:
            return f"Invalid value: {role!r}. Supported values are: {sorted(_MESSAGE_FIELDS)} - messages[{place}].role"
        if unknown := sorted(message.keys() - _MESSAGE_FIELDS[role]):
            return f"Additional properties are not allowed: {unknown} - messages[{place}]"
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not isinstance(call_id, str) or call_id not in open_calls:
                return (
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls' "
                    f"- messages[{place}]"
                )
            open_calls.remove(call_id)
        elif open_calls:
            return _unanswered(open_calls)
        why, ids = _message(role, message)
        if why is not None:
            return f"{why} - messages[{place}]"
        open_calls |= ids
    return _unanswered(open_calls) if open_calls else None


def _unanswered(calls: set[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(calls))}"
    )


def _message(role: str, message: Mapping[str, JsonValue]) -> tuple[str | None, set[str]]:
    calls = message.get("tool_calls")
    content = message.get("content")
    if not isinstance(content, str | list) and not (content is None and role == "assistant" and calls):
        return "Invalid value for 'content': expected a string or an array", set()
    if calls is None:
        return None, set()
    if not isinstance(calls, list) or not calls:
        return "[] is too short - 'tool_calls'", set()
    ids: set[str] = set()
    for call in calls:
        function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
        call_id = call.get("id") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(call_id, str):
            return "Invalid 'tool_calls'", set()
        name = function.get("name")
        if not isinstance(name, str) or not isinstance(function.get("arguments"), str):
            return "Invalid type for 'function.arguments': expected a string", set()
        if not NAME.fullmatch(name):
            return f"Invalid 'tool_calls[].function.name': the string {name!r} does not match its pattern", set()
        if call_id in ids:
            return f"Duplicate value for 'tool_call_id' of {call_id!r}", set()
        ids.add(call_id)
    return None, ids
