"""The contract of model drivers, for each protocol, against a server that refuses what the real one refuses."""

import asyncio
from collections.abc import Iterator

import pytest

from steptrail.testing.model_contract import HISTORIES, StreamingModelDriverContract
from steptrail.testing.model_script import ScriptedReply, answer, overloaded, tool_calls
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import SECRET, Driver, closed, driver_of

CALL = tool_calls(("lookup", {"order": "C3"}), reasoning="It must be looked up.")
SCRIPTS: dict[str, list[ScriptedReply]] = {
    "test_a_required_tool_is_called_with_its_arguments_and_its_result_is_answered": [CALL, answer("Order C3 is paid.")],
    "test_a_streamed_tool_call_is_whole_and_no_piece_of_it_is_text": [CALL, answer("Order C3 is paid.")],
    "test_every_history_of_a_session_is_taken": [answer("Hello.")] * len(HISTORIES),
    "test_what_fails_is_raised_and_not_returned": [overloaded()],
    "test_what_fails_is_raised_by_the_stream": [overloaded()],
}


class OverHttp(StreamingModelDriverContract):
    protocol: str

    @pytest.fixture
    def secret(self) -> str:
        return SECRET

    @pytest.fixture
    def driver(
        self, request: pytest.FixtureRequest, typed_server: ModelServer, loop: asyncio.Runner
    ) -> Iterator[Driver]:
        name: str = request.function.__name__
        typed_server.play(SCRIPTS.get(name, [answer("Hello to you.", reasoning="A greeting."), answer("Hello.")]))
        driver = driver_of(self.protocol, typed_server)
        yield driver
        closed(loop, driver)

    @pytest.fixture
    def failing(self, driver: Driver) -> Driver:
        return driver


class TestChatCompletions(OverHttp):
    protocol = "chat"


class TestResponses(OverHttp):
    protocol = "responses"
    most_tokens = "max_output_tokens"


class TestAnthropic(OverHttp):
    protocol = "anthropic"
