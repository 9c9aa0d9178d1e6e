"""OpenAI's asynchronous client as the drivers of both its protocols use it."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.models.sdk_model import SdkModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIClientModel(SdkModel["AsyncOpenAI"]):
    """The base of the drivers over the SDK `openai`."""

    _package = "openai"
    _headers: ClassVar[Mapping[str, str]] = {}
    """Sent with every request."""

    @property
    def _is_the_providers_own(self) -> bool:
        """Whether the requests go to OpenAI itself, and not to a server that speaks its protocol."""
        given = str(self._given.base_url) if self._given is not None else None
        url = given or self._base_url or os.environ.get("OPENAI_BASE_URL")
        return not url or urlsplit(url).hostname == "api.openai.com"

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
