"""A server that answers with more than a process has room for: one typed error, whatever it was packed in."""

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import Message
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.models import AnthropicModel, OpenAIModel, OpenAIResponsesModel
from tests.harness.bombs import bomb_server

HELLO = ModelRequest(messages=[Message.user("hi")])


@pytest.fixture(autouse=True)
def _room_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    # More room only means more pieces of the same. The room that there is, is seen in tests/integration/mcp.
    monkeypatch.setattr("steptrail.infrastructure.bounded_http.MOST_BYTES", 1024 * 1024)


@pytest.mark.parametrize("driver", [OpenAIModel, OpenAIResponsesModel, AnthropicModel])
@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("plain", "longer than 1,048,576 bytes"),
        ("gzip", "longer than 1,048,576 bytes"),
        ("failed-gzip", "longer than 1,048,576 bytes"),
        ("gzip-ended", "goes on behind the end of its gzip"),
        ("br", "coded as 'br', which nobody asked for"),
    ],
)
async def test_a_body_that_does_not_end_is_no_reply(
    driver: type[OpenAIModel | OpenAIResponsesModel | AnthropicModel], way: str, said: str
) -> None:
    async with bomb_server() as url:
        model = driver("any", base_url=f"{url}/{way}", api_key="k")
        with pytest.raises(ModelReplyInvalid, match=said):
            await model.infer(HELLO)
        await model.close()


@pytest.mark.parametrize("driver", [OpenAIModel, OpenAIResponsesModel, AnthropicModel])
@pytest.mark.parametrize("way", ["plain", "events", "events-gzip"])
async def test_a_stream_of_one_line_that_does_not_end_is_no_reply(
    driver: type[OpenAIModel | OpenAIResponsesModel | AnthropicModel], way: str
) -> None:
    async with bomb_server() as url:
        model = driver("any", base_url=f"{url}/{way}", api_key="k")
        with pytest.raises(ModelReplyInvalid, match="longer than 1,048,576 bytes"):
            _ = [piece async for piece in model.stream(HELLO)]
        await model.close()
