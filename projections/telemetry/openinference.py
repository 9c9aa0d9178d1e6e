"""The attributes of OpenInference of a span, beside its own, for receivers that do not know OpenTelemetry's names.

They are made of what the span says already, so they hold content only where the span does. The names are those of the
package `openinference-semantic-conventions` 0.1.42.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from steptrail.projections.telemetry.names import Name, Operation, Own
from steptrail.projections.telemetry.span import Attribute, Span

Flavour = Literal["openinference"]
"""The attributes that spans get beside those of OpenTelemetry's conventions and Steptrail's own."""

_KIND = "openinference.span.kind"
_KINDS = {
    Operation.CHAT: "LLM",
    Operation.EXECUTE_TOOL: "TOOL",
    Operation.INVOKE_AGENT: "AGENT",
    Operation.INVOKE_WORKFLOW: "CHAIN",
}
_SAME: Mapping[str, tuple[str, ...]] = {
    Name.AGENT_NAME: ("agent.name",),
    Name.CACHE_READ_TOKENS: ("llm.token_count.prompt_details.cache_read",),
    Name.CACHE_WRITE_TOKENS: ("llm.token_count.prompt_details.cache_write",),
    Name.CONVERSATION_ID: ("session.id",),
    Name.INPUT_TOKENS: ("llm.token_count.prompt",),
    Name.OUTPUT_TOKENS: ("llm.token_count.completion",),
    Name.PROVIDER: ("llm.system", "llm.provider"),
    Name.REASONING_TOKENS: ("llm.token_count.completion_details.reasoning",),
    Name.REQUEST_MODEL: ("llm.model_name", "llm.request.model_name"),
    Name.RESPONSE_MODEL: ("llm.response.model_name",),
    Name.TOOL_CALL_ID: ("tool.id",),
    Name.TOOL_NAME: ("tool.name",),
}
_INPUT, _OUTPUT = "input", "output"
_CONTENT = {
    Name.INPUT_MESSAGES: _INPUT,
    Name.OUTPUT_MESSAGES: _OUTPUT,
    Name.TOOL_ARGUMENTS: _INPUT,
    Name.TOOL_RESULT: _OUTPUT,
    Own.INPUT: _INPUT,
    Own.OUTPUT: _OUTPUT,
}
_MESSAGES = ((Name.INPUT_MESSAGES, "llm.input_messages"), (Name.OUTPUT_MESSAGES, "llm.output_messages"))


def with_openinference(span: Span) -> Span:
    """Return a span with the attributes of OpenInference too."""
    return replace(span, attributes={**span.attributes, **dict(_added(span.attributes))})


def _added(about: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
    operation = about.get(Name.OPERATION)
    yield _KIND, "CHAIN" if operation is None else _KINDS[Operation(str(operation))]
    for name, theirs in _SAME.items():
        if name in about:
            for each in theirs:
                yield each, about[name]
    tokens = [about.get(name) for name in (Name.INPUT_TOKENS, Name.OUTPUT_TOKENS)]
    if all(isinstance(each, int) for each in tokens):
        yield "llm.token_count.total", sum(each for each in tokens if isinstance(each, int))
    if operation == Operation.CHAT:
        if Own.COST in about:
            yield "llm.cost.total", about[Own.COST]
        reasons = about.get(Name.FINISH_REASONS)
        if isinstance(reasons, tuple) and reasons:
            yield "llm.finish_reason", reasons[0]
    for name, side in _CONTENT.items():
        if name in about:
            yield f"{side}.value", about[name]
            yield f"{side}.mime_type", "application/json"
    for name, messages in _MESSAGES:
        for number, message in enumerate(_listed(about.get(name))):
            for key, value in _of_message(message):
                yield f"{messages}.{number}.message.{key}", value


def _listed(messages: object) -> list[dict[str, Any]]:
    """Return the messages in a text of JSON; none of one that was cut."""
    try:
        found: list[dict[str, Any]] = json.loads(messages) if isinstance(messages, str) else []
    except json.JSONDecodeError:
        return []
    return found


def _of_message(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "role", str(message["role"])
    parts: list[dict[str, Any]] = message["parts"]
    texts = [str(part.get("content", part.get("response", ""))) for part in parts if part["type"] in _TEXTS]
    if texts:
        yield "content", "\n".join(texts)
    calls = [part for part in parts if part["type"] == "tool_call"]
    for number, call in enumerate(calls):
        yield f"tool_calls.{number}.tool_call.id", str(call["id"])
        yield f"tool_calls.{number}.tool_call.function.name", str(call["name"])
        yield f"tool_calls.{number}.tool_call.function.arguments", json.dumps(call["arguments"], ensure_ascii=False)
    answered = [str(part["id"]) for part in parts if part["type"] == "tool_call_response"]
    if len(answered) == 1:
        yield "tool_call_id", answered[0]


_TEXTS = frozenset({"text", "tool_call_response"})
