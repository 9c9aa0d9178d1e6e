"""A driver for everything that speaks Chat Completions, over the official asynchronous SDK.

Bodies are rendered and read by our own modules, because compatible servers differ from the SDK's types.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode
from steptrail.infrastructure.models.chat_assembly import ChatAssembly
from steptrail.infrastructure.models.chat_parsing import PROVIDER, parse_body
from steptrail.infrastructure.models.chat_rendering import RESERVED_PARAMETERS, render_request
from steptrail.infrastructure.models.openai_client import OpenAIClientModel
from steptrail.infrastructure.models.sdk_types import OneBody


class OpenAIModel(OpenAIClientModel):
    """A streaming `ModelDriver` for OpenAI and compatible servers, by Chat Completions.

    `parameters` go into every request body as they are (`temperature`, `max_tokens`, …). `timeout` is the longest a
    call may take, in seconds, from the first byte sent to the last received; a request may shorten it. Credentials
    and address default to the SDK's own (`OPENAI_API_KEY`, `OPENAI_BASE_URL`); an address of your own needs no key.
    A `client` is used as it is, but for its retries, and is yours to close.

    Raises `MissingExtra` without the package `openai`, `ConfigurationError` for parameters that cannot be sent.
    """

    _driver = "openai"
    _path = "/chat/completions"
    _reserved = RESERVED_PARAMETERS
    _streaming: ClassVar[Mapping[str, JsonValue]] = {"stream": True, "stream_options": {"include_usage": True}}

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type. Compatible servers lose the tools where they are given a schema."""
        if with_tools and not self._is_the_providers_own:
            return (OutputMode.LAST, OutputMode.TOOL, OutputMode.PROMPTED)
        return (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.LAST, OutputMode.PROMPTED)

    def _turn(self, request: ModelRequest, host: str) -> OneBody:
        # Servers refuse what others have added to the protocol.
        provider = f"{PROVIDER}@{host}"
        body = render_request(self._info.model, request, self._info.parameters, provider)
        return OneBody(body, ChatAssembly, partial(parse_body, provider=provider))
