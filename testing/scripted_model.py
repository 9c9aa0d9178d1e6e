"""A model that says what it was told to say: the one mock of the kit, because a provider is outside our control.

It keeps no place of its own. A reply is chosen by how many model calls of the session have ended, so a script goes on
where it was in another process.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import count
from typing import cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import FinishReason, ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_plain_function, a_row, one_of
from steptrail.domain.messages import TextPart, ToolCallPart
from steptrail.domain.output import OutputMode
from steptrail.domain.usage import Usage

Reply = str | ModelReply | Exception | Callable[[ModelRequest], "str | ModelReply"]
"""Text, a whole reply, an exception to raise, or a function of the request."""

_USAGE = Usage(input=10, output=5)


def say(text: str, *, finish_reason: str = FinishReason.STOP, usage: Usage = _USAGE) -> ModelReply:
    """Return a reply of text. Raises `ConfigurationError` for a word that is no `FinishReason`."""
    reason = one_of(FinishReason, finish_reason, "the reply", "the finish reasons")
    return ModelReply(parts=(TextPart(text=text),), finish_reason=reason, usage=usage)


def call(tool: str, /, **arguments: JsonValue) -> ModelReply:
    """Return a reply that asks for one tool call."""
    return calls((tool, arguments))


def calls(*wanted: tuple[str, Mapping[str, JsonValue]], text: str = "", usage: Usage = _USAGE) -> ModelReply:
    """Return a reply that asks for several tool calls, in order, beside some text.

    Raises `ConfigurationError` for anything but pairs of the name of a tool and its arguments.
    """
    for pair in cast("tuple[object, ...]", wanted):
        match pair:
            case (str(), Mapping()):
                pass
            case _:
                such = "such as ('stock', {'item': 'tea'})"
                raise ConfigurationError(
                    f"a call is a pair of a tool and its arguments, {such}, not {repr(pair)[:100]}"
                )
    numbers = count(1)
    parts = [ToolCallPart(id=f"call-{next(numbers)}", name=name, arguments=dict(given)) for name, given in wanted]
    head = (TextPart(text=text),) if text else ()
    return ModelReply(parts=(*head, *parts), finish_reason=FinishReason.TOOL_CALLS, usage=usage)


class ScriptedModel:
    """A `ModelDriver` that gives the replies of a script, in order.

    Each is a `Reply`. A list of texts and calls is one of `object` to a type checker, so they are looked at here:
    anything else raises `ConfigurationError`, and so does a call beyond the script. `requests` holds what this process
    was asked. `delay` is how long each reply takes, in seconds.
    """

    def __init__(
        self, script: Sequence[Reply] | Sequence[object], *, name: str = "scripted", delay: float = 0.0
    ) -> None:
        known = set[int]()
        self._script = tuple(
            _reply(each, at, name, known) for at, each in enumerate(a_row(script, f"model {name!r}: the script"), 1)
        )
        self._name, self._delay = name, delay
        self.requests: list[ModelRequest] = []

    def describe(self) -> ModelInfo:
        """Return the model's name; the driver is openly called scripted."""
        return ModelInfo(driver="scripted", model=self._name)

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return all modes: a script says what it says, however it is asked."""
        return tuple(OutputMode)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Yield the text of that reply word by word, and then the reply."""
        reply = await self.infer(request)
        for word in re.findall(r"\S*\s*", reply.text):
            if word:
                yield ModelDelta(word)
                await asyncio.sleep(0)
        yield reply

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Return the reply whose turn it is, or raise it."""
        self.requests.append(request)
        if self._delay:
            await asyncio.sleep(self._delay)
        if request.call_index >= len(self._script):
            said = f"model {self._name!r}: the script has {len(self._script)} replies and call"
            raise ConfigurationError(f"{said} {request.call_index + 1} came")
        reply = self._script[request.call_index]
        if isinstance(reply, Exception):
            raise reply
        made = reply(request) if callable(reply) else reply
        return say(made) if isinstance(made, str) else made

    async def close(self) -> None:
        """Do nothing: a script holds no resources."""


def _reply(given: object, number: int, name: str, known: set[int]) -> Reply:
    """Return a reply of a script. A function is looked at once: a script may say one a thousand times."""
    is_function = callable(given) and not isinstance(given, type)
    if is_function and id(given) not in known:
        a_plain_function(given, f"model {name!r}: reply {number} of the script", "the request")
        known.add(id(given))
    if isinstance(given, str | ModelReply | Exception) or is_function:
        return cast("Reply", given)
    of_what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    what = f"is {of_what}: give a text, `call(…)`, `say(…)`, an exception, or a function of the request"
    raise ConfigurationError(f"model {name!r}: reply {number} of the script {what}")
