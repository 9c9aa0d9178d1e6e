"""The drivers over an SDK, each with the address under which a scripted server speaks its protocol."""

import asyncio
from collections.abc import Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.anthropic import AnthropicModel
from steptrail.infrastructure.models.openai import OpenAIModel, OpenAIResponsesModel
from steptrail.testing.model_server import ModelServer

Driver = OpenAIModel | OpenAIResponsesModel | AnthropicModel
DRIVERS: Mapping[str, type[Driver]] = {
    "chat": OpenAIModel,
    "responses": OpenAIResponsesModel,
    "anthropic": AnthropicModel,
}
SECRET = "sk-very-secret"  # noqa: S105  nobody's


def driver_of(
    protocol: str,
    server: ModelServer,
    *,
    timeout: float = 30.0,
    parameters: Mapping[str, JsonValue] | None = None,
    address: str | None = None,
) -> Driver:
    kind = DRIVERS[protocol]
    address = address or (server.root if kind is AnthropicModel else server.url)
    return kind("scripted", base_url=address, api_key=SECRET, timeout=timeout, parameters=parameters)


def closed(loop: asyncio.Runner, driver: Driver) -> None:
    loop.run(driver.close())
