"""A driver for OpenAI's Responses API, over the official asynchronous SDK.

The provider is asked to store no conversation: the log is the one place where it is kept, so that it can be resumed,
forked and replayed. The model's reasoning comes encrypted and goes back with the next request.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputMode
from steptrail.infrastructure.models.openai_client import OpenAIClientModel
from steptrail.infrastructure.models.responses_assembly import ResponsesAssembly
from steptrail.infrastructure.models.responses_parsing import parse_body
from steptrail.infrastructure.models.responses_rendering import RESERVED_PARAMETERS, render_request
from steptrail.infrastructure.models.sdk_types import OneBody


class OpenAIResponsesModel(OpenAIClientModel):
    """A streaming `ModelDriver` for OpenAI's Responses API.

    `parameters` go into every request body as they are (`reasoning`, `max_output_tokens`, …). `include` asks for the
    encrypted reasoning unless you set it; models that do not reason may refuse that and want `{"include": []}`.
    `timeout`, credentials, address and `client` are as for `OpenAIModel`.

    Raises `MissingExtra` without the package `openai`, `ConfigurationError` for parameters that cannot be sent.
    """

    _driver = "openai-responses"
    _path = "/responses"
    _reserved = RESERVED_PARAMETERS
    _defaults: ClassVar[Mapping[str, JsonValue]] = {"include": ["reasoning.encrypted_content"]}

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type: a schema goes together with tools."""
        return (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.LAST, OutputMode.PROMPTED)

    def _turn(self, request: ModelRequest, host: str) -> OneBody:
        body = render_request(self._info.model, request, self._info.parameters)
        return OneBody(body, ResponsesAssembly, parse_body)
