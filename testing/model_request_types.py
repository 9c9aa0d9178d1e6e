"""Requests against the request types that the official SDKs declare: every field of every object, none more.

The SDKs take seconds to import, and only the protocol that is spoken needs its own.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from steptrail.domain.json_value import JsonValue


def why_mistyped(path: str, body: JsonValue) -> str | None:
    """Return the parts of a request for `path` that the SDK's own types do not allow; None when they allow all."""
    try:
        streamed = isinstance(body, dict) and bool(body.get("stream"))
        (typed,) = _adapter(path, streamed).validate_python([body])
        _exhaust(typed)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"the request does not fit the SDK's types: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return None


def _exhaust(value: object) -> None:
    """Walk through everything: what is declared as iterable is checked only when it is iterated."""
    if isinstance(value, str):
        return
    if isinstance(value, Mapping):
        value = cast("Mapping[str, object]", value).values()
    if isinstance(value, Iterable):
        for inner in cast("Iterable[object]", value):
            _exhaust(inner)


@cache
def _adapter(path: str, streamed: bool) -> TypeAdapter[list[Any]]:
    # In a list, because a TypedDict of somebody else takes no configuration; inside, it inherits this one.
    wrapped: Any = list[_TYPES[path](streamed)]  # type: ignore[misc]
    return TypeAdapter(wrapped, config=ConfigDict(extra="forbid"))


def _chat(streamed: bool) -> type:
    from openai.types.chat import completion_create_params as params

    return params.CompletionCreateParamsStreaming if streamed else params.CompletionCreateParamsNonStreaming


def _responses(streamed: bool) -> type:
    from openai.types.responses import response_create_params as params

    return params.ResponseCreateParamsStreaming if streamed else params.ResponseCreateParamsNonStreaming


def _messages(streamed: bool) -> type:
    from anthropic.types import message_create_params as params

    return params.MessageCreateParamsStreaming if streamed else params.MessageCreateParamsNonStreaming


_TYPES: Final[Mapping[str, Callable[[bool], type]]] = {
    "/v1/chat/completions": _chat,
    "/v1/messages": _messages,
    "/v1/responses": _responses,
}
