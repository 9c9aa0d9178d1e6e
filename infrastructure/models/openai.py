"""Drivers for OpenAI's two protocols, over the official asynchronous SDK: Chat Completions, and the Responses API.

Bodies are rendered and read by our own modules, because compatible servers differ from the SDK's types.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode
from steptrail.infrastructure.models import chat_parsing, chat_rendering, responses_parsing, responses_rendering
from steptrail.infrastructure.models.chat_assembly import ChatAssembly
from steptrail.infrastructure.models.prompt_cache import cache_key, is_openai
from steptrail.infrastructure.models.responses_assembly import ResponsesAssembly
from steptrail.infrastructure.models.sdk_model import SdkModel
from steptrail.infrastructure.models.sdk_types import OneBody

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class _OpenAIClientModel(SdkModel["AsyncOpenAI"]):
    """The common part: OpenAI's asynchronous client, as both protocols use it."""

    _package = "openai"
    _headers: ClassVar[Mapping[str, str]] = {}
    """Sent with every request."""

    @property
    def _is_the_providers_own(self) -> bool:
        """Whether the requests go to OpenAI itself, and not to a server that speaks its protocol."""
        given = str(self._given.base_url) if self._given is not None else None
        url = given or self._base_url or os.environ.get("OPENAI_BASE_URL")
        return not url or is_openai(urlsplit(url).hostname or "")

    def _keyed(self, body: dict[str, JsonValue], request: ModelRequest, host: str) -> dict[str, JsonValue]:
        """Return the body with the key of the provider's cache, unless it has one, or none is wanted."""
        return {"prompt_cache_key": cache_key(request), **body} if self._cache and is_openai(host) else body

    def _open(self, http: Any) -> "AsyncOpenAI":
        from openai import AsyncOpenAI, OpenAIError

        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and (self._base_url or os.environ.get("OPENAI_BASE_URL")):
            # Servers of one's own ask for no key, the SDK does.
            key = "unused"
        try:
            return AsyncOpenAI(
                api_key=key,
                base_url=self._base_url,
                max_retries=0,
                default_headers=self._headers,
                http_client=http,
            )
        except OpenAIError as error:
            raise ConfigurationError(
                f"the model {self._info.model!r} needs an API key: set OPENAI_API_KEY, or give `api_key` or `base_url`"
            ) from error


class OpenAIModel(_OpenAIClientModel):
    """A streaming `ModelDriver` for OpenAI and compatible servers, by Chat Completions.

    `parameters` go into every request body as they are (`temperature`, `max_tokens`, …). `timeout` is the longest a
    call may take, in seconds, from the first byte sent to the last received; a request may shorten it. Credentials
    and address default to the SDK's own (`OPENAI_API_KEY`, `OPENAI_BASE_URL`); an address of your own needs no key.
    A `client` is used as it is, but for its retries, and is yours to close. OpenAI keeps what it has read by itself;
    `cache` tells it by a key which requests begin alike, and None does not.

    Raises `MissingExtra` without the package `openai`, `ConfigurationError` for parameters that cannot be sent.
    """

    _driver = "openai"
    _path = "/chat/completions"
    _reserved = chat_rendering.RESERVED_PARAMETERS
    _streaming: ClassVar[Mapping[str, JsonValue]] = {"stream": True, "stream_options": {"include_usage": True}}

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type. Compatible servers lose the tools where they are given a schema."""
        if with_tools and not self._is_the_providers_own:
            return (OutputMode.LAST, OutputMode.TOOL, OutputMode.PROMPTED)
        return (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.LAST, OutputMode.PROMPTED)

    def _turn(self, request: ModelRequest, host: str) -> OneBody:
        # Servers refuse what others have added to the protocol.
        provider = f"{chat_parsing.PROVIDER}@{host}"
        body = chat_rendering.render_request(self._info.model, request, self._info.parameters, provider)
        keyed = self._keyed(body, request, host)
        return OneBody(keyed, ChatAssembly, partial(chat_parsing.parse_body, provider=provider))


class OpenAIResponsesModel(_OpenAIClientModel):
    """A streaming `ModelDriver` for OpenAI's Responses API.

    The provider is asked to store no conversation: the log is the one place where it is kept, so that it can be
    resumed, forked and replayed. The model's reasoning comes encrypted and goes back with the next request.

    `parameters` go into every request body as they are (`reasoning`, `max_output_tokens`, …). `include` asks for the
    encrypted reasoning unless you set it; models that do not reason may refuse that and want `{"include": []}`.
    `timeout`, credentials, address, `client` and `cache` are as for `OpenAIModel`.

    Raises `MissingExtra` without the package `openai`, `ConfigurationError` for parameters that cannot be sent.
    """

    _driver = "openai-responses"
    _path = "/responses"
    _reserved = responses_rendering.RESERVED_PARAMETERS
    _defaults: ClassVar[Mapping[str, JsonValue]] = {"include": ["reasoning.encrypted_content"]}

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type: a schema goes together with tools."""
        return (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.LAST, OutputMode.PROMPTED)

    def _turn(self, request: ModelRequest, host: str) -> OneBody:
        provider = f"{responses_parsing.PROVIDER}@{host}"
        body = responses_rendering.render_request(self._info.model, request, self._info.parameters, provider)
        keyed = self._keyed(body, request, host)
        return OneBody(keyed, ResponsesAssembly, partial(responses_parsing.parse_body, provider=provider))
