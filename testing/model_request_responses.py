"""The refusals of the real service for a Responses request, so that no test accepts what production would not.

Only the rules that a client can break by a mistake of its own: fields of items, roles, the pairing of calls with
their outputs, and items that do not come back as they were given out, reasoning in front of the item that it led to.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.testing.model_request_schema import NAME, why_no_schema, why_no_tools

_ROLES: Final = ("assistant", "developer", "system", "user")
_ITEM_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset({"type", "id", "role", "content", "status", "phase"}),
    "function_call": frozenset({"type", "id", "call_id", "name", "arguments", "status", "namespace", "caller"}),
    "function_call_output": frozenset({"type", "id", "call_id", "output", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
}


def why_refused(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]] = ()) -> str | None:
    """Return why the real service answers 400, or None when it takes the request.

    `issued` holds the bodies of the responses that it has given out.
    """
    if not isinstance(body.get("model"), str):
        return "Missing required parameter: 'model'."
    entries = body.get("input")
    if not isinstance(entries, list) or not entries:
        return 'One of "input" or "previous_response_id" must be provided.'
    items: list[dict[str, JsonValue]] = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            return f"Invalid type for 'input[{place}]': expected an object."
        if (why := _item(entry)) is not None:
            return f"{why} - input[{place}]"
        items.append(entry)
    given = list(_outputs(issued))
    return _tools(body) or _schemas(body) or _pairs(items) or _reasoning(items, given) or _unchanged(items, given)


def without_own(body: Mapping[str, JsonValue], issued: Sequence[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a request without the provider's own items, where they came back as they were given out."""
    own = [item for output in _outputs(issued) for item in output if item.get("type") not in _ITEM_FIELDS]
    entries = body.get("input")
    if not own or not isinstance(entries, list):
        return dict(body)
    return {**body, "input": [entry for entry in entries if entry not in own]}


def _tools(body: Mapping[str, JsonValue]) -> str | None:
    tools = body.get("tools")
    if tools is None:
        is_forced = body.get("tool_choice") == "required"
        return "Tool choice 'required' must be specified with 'tools' parameter." if is_forced else None
    given = map(as_object, tools if isinstance(tools, list) else [None])
    functions = [tool if tool.get("type") == "function" else None for tool in given]
    return why_no_tools(functions, NAME, schema="parameters", with_properties=True)


def _schemas(body: Mapping[str, JsonValue]) -> str | None:
    for each in map(as_object, [as_object(body.get("text")).get("format"), *as_list(body.get("tools"))]):
        if each.get("strict"):
            if not NAME.fullmatch(str(each.get("name"))):
                return "Missing required parameter: 'text.format.name'"
            if (why := why_no_schema(each.get("schema", each.get("parameters")), has_bounds=True)) is not None:
                return why
    return None


def _item(item: Mapping[str, JsonValue]) -> str | None:
    kind = str(item.get("type", "message"))
    if (known := _ITEM_FIELDS.get(kind)) is None:
        return None
    if unknown := sorted(item.keys() - known):
        return f"Unknown parameter: '{unknown[0]}'."
    wanted: tuple[str, ...]
    match kind:
        case "message" if item.get("role") not in _ROLES:
            return f"Invalid value: {item.get('role')!r}. Supported values are: {_ROLES}"
        case "message" if not isinstance(item.get("content"), str | list):
            return "Invalid type for 'content'"
        case "function_call":
            wanted = ("call_id", "name", "arguments")
        case "function_call_output":
            # The output is a text, or a list of what a message of the user may hold.
            wanted = ("call_id",) if isinstance(item.get("output"), list) else ("call_id", "output")
        case "reasoning" if not isinstance(item.get("summary"), list):
            return "Missing required parameter: 'summary'."
        case _:
            return None
    missing = [name for name in wanted if not isinstance(item.get(name), str)]
    if missing:
        return f"Missing required parameter: '{missing[0]}'."
    badly_named = kind == "function_call" and not NAME.fullmatch(str(item["name"]))
    return f"Invalid 'name': the string {item['name']!r} does not match its pattern." if badly_named else None


def _pairs(items: Sequence[Mapping[str, JsonValue]]) -> str | None:
    asked: set[JsonValue] = set()
    answered: set[JsonValue] = set()
    for item in items:
        call_id = item.get("call_id")
        if item.get("type") == "function_call":
            if call_id in asked:
                return f"Duplicate function call {call_id}."
            asked.add(call_id)
        elif item.get("type") == "function_call_output":
            if call_id not in asked - answered:
                return f"No tool call found for function call output with call_id {call_id}."
            answered.add(call_id)
    unanswered = sorted(str(each) for each in asked - answered)
    return f"No tool output found for function call {unanswered[0]}." if unanswered else None


def _outputs(issued: Sequence[Mapping[str, JsonValue]]) -> Iterator[list[dict[str, JsonValue]]]:
    for body in issued:
        yield [item for item in as_list(body.get("output")) if isinstance(item, dict)]


def _unchanged(items: Sequence[Mapping[str, JsonValue]], given: Sequence[list[dict[str, JsonValue]]]) -> str | None:
    known = {str(item["id"]): item for output in given for item in output if "id" in item}
    for place, item in enumerate(items):
        was = known.get(str(item.get("id")))
        if was is None or item.get("type") == "function_call":
            continue
        if item.get("type") != "message" and item != was:
            return f"Item '{item.get('id')}' is not as it was given out - input[{place}]"
        if item.get("type") == "message" and _texts(item) != _texts(was):
            return f"The content of item '{item.get('id')}' is not as it was given out - input[{place}]"
    return None


def _texts(message: Mapping[str, JsonValue]) -> list[JsonValue]:
    told = [each for each in as_list(message.get("content")) if isinstance(each, dict)]
    return [{name: value for name, value in each.items() if name != "logprobs"} for each in told]


def _reasoning(items: Sequence[Mapping[str, JsonValue]], issued: Sequence[list[dict[str, JsonValue]]]) -> str | None:
    given = {item["id"]: item for output in issued for item in output if item.get("type") == "reasoning"}
    needs: dict[JsonValue, JsonValue] = {}
    for output in issued:
        thought = next((item["id"] for item in output if item.get("type") == "reasoning"), None)
        if thought is not None:
            needs |= {item[key]: thought for item in output for key in ("id", "call_id") if key in item}
    before: set[JsonValue] = set()
    for place, item in enumerate(items):
        if item.get("type") == "reasoning":
            before.add(item.get("id"))
            if item != given.get(item.get("id")):
                return f"The encrypted content for item {item.get('id')} could not be verified."
            if place + 1 == len(items) or items[place + 1].get("role") == "user":
                return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        elif item.get("type") != "function_call_output":
            thought = needs.get(item.get("id")) or needs.get(item.get("call_id"))
            if thought is not None and thought not in before:
                return f"Item '{item.get('id')}' was provided without its required 'reasoning' item: '{thought}'."
    return None
