"""A driver for everything that speaks Chat Completions, over the official asynchronous SDK.

The SDK brings the transport, the credentials and the typed errors; its retries are off, because retrying is the error
policy's business and every attempt is recorded. Bodies are rendered and read by our own modules.
"""

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from steptrail.domain.errors import ConfigurationError, MissingExtra
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.infrastructure.models.parsing import parse_body
from steptrail.infrastructure.models.rendering import RESERVED_PARAMETERS, render_request

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]


class OpenAIModel:
    """A `ModelDriver` for OpenAI and compatible servers (Chat Completions, not streamed).

    `parameters` go into every request body as they are (`temperature`, `max_tokens`, …). `timeout` is the longest a
    call may take, in seconds, from the first byte sent to the last received; a request may shorten it. Credentials
    and address default to the SDK's own (`OPENAI_API_KEY`, `OPENAI_BASE_URL`); an address of your own needs no key.
    A `client` is used as it is, but for its retries, and is yours to close.

    Raises `MissingExtra` without the package `openai`, `ConfigurationError` for parameters that cannot be sent.
    """

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
        if importlib.util.find_spec("openai") is None:
            raise MissingExtra("OpenAIModel", "openai", "openai")
        if taken := sorted(RESERVED_PARAMETERS & (parameters or {}).keys()):
            raise ConfigurationError(f"the model parameters {', '.join(taken)} cannot be set: the request decides them")
        if not timeout > 0:
            raise ConfigurationError(f"the timeout of a model is a positive number of seconds, not {timeout!r}")
        try:
            self._info = ModelInfo(driver="openai", model=model, parameters=dict(parameters or {}))
        except ValidationError as error:
            raise ConfigurationError(f"the parameters of the model {model!r} are not JSON: {error}") from None
        self._base_url, self._api_key, self._timeout = base_url, api_key, timeout
        self._given = None if client is None else client.with_options(max_retries=0)
        self._clients: dict[asyncio.AbstractEventLoop, AsyncOpenAI] = {}

    def __repr__(self) -> str:
        return f"OpenAIModel({self._info.model!r})"

    def describe(self) -> ModelInfo:
        """Return the model's name and parameters."""
        return self._info

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Post one request. Raises what the SDK raises, `TimeoutError` at the deadline, or `ModelReplyInvalid`."""
        body = render_request(self._info.model, request, self._info.parameters)
        deadline = self._timeout if request.timeout is None else min(self._timeout, max(0.0, request.timeout))
        client = await self._client()
        # One deadline over the whole call: the transport's own limits start anew with every byte.
        limit = asyncio.timeout(deadline)
        try:
            async with limit:
                text = await client.post("/chat/completions", cast_to=str, body=body, options={"timeout": None})
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no reply from the model {self._info.model!r} within {deadline:g} s") from None
        return parse_body(text)

    async def close(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _client(self) -> "AsyncOpenAI":
        if self._given is not None:
            return self._given
        # Connections belong to the loop they were opened on, and one driver may serve several loops in turn.
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # The SDK takes longer to import than a session to resume: the loop goes on meanwhile.
            await asyncio.to_thread(importlib.import_module, "openai")
            client = self._clients.setdefault(loop, self._open())
            for closed in [each for each in list(self._clients) if each.is_closed()]:
                del self._clients[closed]
        return client

    def _open(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI, OpenAIError

        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and (self._base_url or os.environ.get("OPENAI_BASE_URL")):
            # Servers of one's own ask for no key, the SDK does.
            key = "unused"
        try:
            return AsyncOpenAI(api_key=key, base_url=self._base_url, max_retries=0)
        except OpenAIError as error:
            raise ConfigurationError(
                f"the model {self._info.model!r} needs an API key: set OPENAI_API_KEY, or give `api_key` or `base_url`"
            ) from error
