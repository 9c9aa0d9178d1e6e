"""Tells the caches of providers where a prompt may be kept: by marks in bodies of Messages, by a key for OpenAI.

A cache holds the beginning of a request, so all depends on one contract: the body of each call without its tail is the
beginning of the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from steptrail.domain.digests import digest_of
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_list, as_object

CacheTime: TypeAlias = Literal["auto", "1h"]
"""How long a provider is asked to keep what it has read: its usual time, or an hour."""
Ends: TypeAlias = list[tuple[list[JsonValue], int]]
"""For each message of a request the blocks of its turn, and how many of them stand there up to its end."""

_TAKE_A_MARK: Final = frozenset({"document", "image", "text", "tool_result", "tool_use"})


def mark(body: Mapping[str, JsonValue], request: ModelRequest, ends: Ends, time: CacheTime) -> None:
    """Put at most four marks into a body of Messages, each at a place that the next call finds again.

    They stand behind what is the same for all calls of the agent, behind its examples, behind what the call before has
    sent, and in front of the tail. The provider looks for an older mark only twenty blocks back, and a reply with many
    calls has more.
    """
    control: JsonValue = {"type": "ephemeral"} if time == "auto" else {"type": "ephemeral", "ttl": time}
    messages, opening, lasting = request.messages, request.opening, len(request.messages) - request.tail
    prompts = sum(message.is_system() and bool(message.text.strip()) for message in messages[:opening])
    tools = as_list(body.get("tools"))
    _mark(as_list(body.get("system")), prompts, control) if prompts else _mark(tools, len(tools), control)
    replied = next((at for at in range(lasting - 1, opening - 1, -1) if messages[at].is_assistant()), 0)
    for count in {opening, replied, lasting} - {0}:
        _mark(*ends[count - 1], control)


def _mark(blocks: list[JsonValue], count: int, control: JsonValue) -> None:
    """Mark the last of the first `count` blocks that takes a mark: thinking, for one, takes none."""
    for place in range(count - 1, -1, -1):
        block = as_object(blocks[place])
        if block.get("type") in _TAKE_A_MARK or "input_schema" in block:
            blocks[place] = {**block, "cache_control": control}
            return


def cache_key(request: ModelRequest) -> str:
    """Return a text that is the same for all requests that begin with the same prompt, examples and tools."""
    head = [f"{message.role} {message.text}" for message in request.messages[: request.opening]]
    tools: Sequence[JsonValue] = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return digest_of([*head, *tools])[:32]


def is_openai(host: str) -> bool:
    """Tell whether requests to a host go to OpenAI itself: others may refuse a field that they do not know."""
    return host == "api.openai.com" or host.endswith(".api.openai.com")
