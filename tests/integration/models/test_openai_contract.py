import asyncio
from collections.abc import Iterator

import pytest

from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.testing.model_contract import ModelDriverContract
from steptrail.testing.model_script import ScriptedReply, answer, overloaded, tool_calls
from steptrail.testing.model_server import ModelServer

CALL = tool_calls(("lookup", {"order": "C3"}))
SCRIPTS: dict[str, list[ScriptedReply]] = {
    "test_a_required_tool_is_called_with_its_arguments": [CALL],
    "test_a_result_is_taken_back_and_answered": [CALL, answer("Order C3 is paid.")],
    "test_what_fails_is_raised_and_not_returned": [overloaded()],
}


class TestOpenAIModel(ModelDriverContract):
    @pytest.fixture
    def secret(self) -> str:
        return "sk-very-secret"

    @pytest.fixture
    def driver(self, request: pytest.FixtureRequest, loop: asyncio.Runner, secret: str) -> Iterator[OpenAIModel]:
        name: str = request.function.__name__
        with ModelServer(SCRIPTS.get(name, [answer("Hello.")])) as server:
            model = OpenAIModel("scripted", base_url=server.url, api_key=secret)
            yield model
            loop.run(model.close())

    @pytest.fixture
    def failing(self, driver: OpenAIModel) -> OpenAIModel:
        return driver
