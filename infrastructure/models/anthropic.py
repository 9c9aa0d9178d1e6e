"""A driver for Anthropic's Messages API, over the official asynchronous SDK.

A turn that the provider pauses (its own tools have been at work for long) goes on by itself: what came so far is sent
back, and the pieces become one reply.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import structs

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode
from steptrail.domain.output_schema import NotStrict, is_recursive, strict_schema
from steptrail.infrastructure.models.anthropic_assembly import AnthropicAssembly
from steptrail.infrastructure.models.anthropic_parsing import PROVIDER, parse_body
from steptrail.infrastructure.models.anthropic_rendering import RESERVED_PARAMETERS, render_blocks, render_request
from steptrail.infrastructure.models.call_names import CallIds
from steptrail.infrastructure.models.sdk_model import SdkModel
from steptrail.infrastructure.models.wire import as_list

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

MAX_PAUSES: Final = 10
"""Pauses of one turn after which it is returned as it is, with the finish reason `paused`."""
_ITS_HOSTS: Final = re.compile(
    r".+\.(anthropic\.com|ai\.azure\.com|api\.aws|googleapis\.com)|(.+\.)?bedrock-runtime\b.*\.amazonaws\.com"
)
"""The hosts where Anthropic's own models run, and not those of other people's machines in the same clouds. Each of them
takes what another has signed."""


class AnthropicModel(SdkModel["AsyncAnthropic"]):
    """A streaming `ModelDriver` for Anthropic's Messages API.

    `parameters` go into every request body as they are (`thinking`, `stop_sequences`, …); the API wants `max_tokens`,
    8192 unless you say otherwise. `timeout` is the longest a call may take, in seconds, from the first byte sent to the
    last received, pauses included; a request may shorten it. Credentials and address default to the SDK's own
    (`ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, …); an address of your own needs no key. A `client` is used as it is,
    but for its retries, and is yours to close. With `cache` the provider is asked to keep what it has read, for some
    minutes or an hour; None asks for nothing, and a `cache_control` of the parameters stands in its place.

    Raises `MissingExtra` without the package `anthropic`, `ConfigurationError` for parameters that cannot be sent.
    """

    _package = "anthropic"
    _driver = "anthropic"
    _path = "/v1/messages"
    _reserved = RESERVED_PARAMETERS
    _defaults: ClassVar[Mapping[str, JsonValue]] = {"max_tokens": 8192}
    _caches = ("auto", "1h")

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type. A schema is kept to if it is strict, and does not refer to itself."""
        others = (OutputMode.TOOL, OutputMode.PROMPTED)
        try:
            fits = not is_recursive(strict_schema(schema))
        except NotStrict:
            fits = False
        return (OutputMode.NATIVE, *others, OutputMode.LAST) if fits else others

    def _turn(self, request: ModelRequest, host: str) -> "_AnthropicTurn":
        provider = PROVIDER if _ITS_HOSTS.fullmatch(host) else f"{PROVIDER}@{host}"
        body = render_request(self._info.model, request, self._info.parameters, provider, self._cache)
        return _AnthropicTurn(body, provider)

    def _open(self, http: Any) -> "AsyncAnthropic":
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0, http_client=http)
        if client.api_key or client.auth_token or client.credentials:
            return client
        if self._base_url:
            return client.with_options(api_key="unused")
        raise ConfigurationError(
            f"the model {self._info.model!r} needs an API key: set ANTHROPIC_API_KEY, or give `api_key` or `base_url`"
        )


class _AnthropicTurn:
    def __init__(self, body: dict[str, JsonValue], provider: str) -> None:
        self.body: dict[str, JsonValue] = body
        self._provider = provider
        self._history = as_list(body["messages"])
        self._pauses = 0
        self._so_far: ModelReply | None = None

    def assembly(self) -> AnthropicAssembly:
        return AnthropicAssembly()

    def take(self, text: str) -> ModelReply | None:
        reply = parse_body(text, self._provider)
        if (before := self._so_far) is not None:
            reply = structs.replace(reply, parts=before.parts + reply.parts, usage=before.usage + reply.usage)
        blocks = render_blocks(reply.parts, CallIds(once_in_all=True), self._provider)
        if reply.finish_reason is not FinishReason.PAUSED or self._pauses == MAX_PAUSES or not blocks:
            return reply
        self._pauses += 1
        self._so_far = reply
        so_far: JsonValue = {"role": "assistant", "content": blocks}
        self.body = {**self.body, "messages": [*self._history, so_far]}
        return None
