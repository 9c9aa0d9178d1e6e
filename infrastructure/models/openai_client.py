"""OpenAI's asynchronous client as the drivers of both its protocols use it."""

import os
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.bounded_http import ASKS_FOR, bounded
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.sdk_model import SdkModel
from steptrail.infrastructure.models.sdk_types import SdkStream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIClientModel"]


class OpenAIClientModel(SdkModel["AsyncOpenAI"]):
    """The base of the drivers over the SDK `openai`."""

    _package = "openai"
    _path: str
    _headers: ClassVar[Mapping[str, str]] = {}
    """Sent with every request."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        parameters: Mapping[str, JsonValue] | None = None,
        timeout: float = 60.0,
        client: "AsyncOpenAI | None" = None,
    ) -> None:
        given = None if client is None else client.with_options(max_retries=0)
        super().__init__(model, parameters=parameters or {}, timeout=timeout, client=given)
        self._base_url, self._api_key = base_url, api_key

    @property
    def _is_the_providers_own(self) -> bool:
        """Whether the requests go to OpenAI itself, and not to a server that speaks its protocol."""
        given = str(self._given.base_url) if self._given is not None else None
        url = given or self._base_url or os.environ.get("OPENAI_BASE_URL")
        return not url or urlsplit(url).hostname == "api.openai.com"

    def _post(self, client: "AsyncOpenAI", body: Mapping[str, JsonValue]) -> Awaitable[str]:
        return client.post(self._path, cast_to=str, body=body, options={"timeout": None})

    def _open_stream(self, client: "AsyncOpenAI", body: Mapping[str, JsonValue]) -> Awaitable[SdkStream]:
        from openai import AsyncStream

        return client.post(
            self._path,
            cast_to=object,
            body=body,
            options={"timeout": None},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _open(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and (self._base_url or os.environ.get("OPENAI_BASE_URL")):
            # Servers of one's own ask for no key, the SDK does.
            key = "unused"
        hooks = {"response": [bounded(ModelReplyInvalid, with_streams=True)]}
        http = DefaultAsyncHttpxClient(event_hooks=hooks, headers=dict(ASKS_FOR))
        try:
            return AsyncOpenAI(
                api_key=key, base_url=self._base_url, max_retries=0, default_headers=self._headers, http_client=http
            )
        except OpenAIError as error:
            raise ConfigurationError(
                f"the model {self._info.model!r} needs an API key: set OPENAI_API_KEY, or give `api_key` or `base_url`"
            ) from error
