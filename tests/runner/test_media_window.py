"""With a window a model is shown the newest files and told of the earlier ones; the log holds them all."""

import pytest

from steptrail import Agent, AgentBuilder, tool
from steptrail.domain.agent.events import InferenceStarted
from steptrail.domain.inference import ModelRequest
from steptrail.errors import ConfigurationError
from steptrail.messages import File, Image, Message
from steptrail.runtime.agent.request import recorded_requests
from steptrail.testing import ScriptedModel, call
from tests.runner.kit import trail_of

IMAGE, NOTE, SHOT = Image.from_bytes(b"GIF89a-"), File.from_bytes(b"tea", "text/plain"), Image.from_bytes(b"GIF89a+")
IMAGE_EARLIER = SHOT_EARLIER = "[image/gif, 7 bytes, earlier]"
NOTE_EARLIER = "[text/plain, 3 bytes, earlier]"


@tool
def look() -> object:
    """Look."""
    return [SHOT, NOTE]


def agent(model: ScriptedModel, window: int | None) -> Agent:
    return AgentBuilder("clerk").with_model(model).with_tools(look).with_media_window(window).build()


def shown(request: ModelRequest) -> list[str]:
    """Return the digests of the files that are shown, and the texts in the places of others, in order."""
    told: list[str] = []
    for message in request.messages:
        told += [line for line in message.text.splitlines() if line.endswith("earlier]")]
        told += [part.digest for part in message.files]
    return told


@pytest.mark.acceptance("8.9-6")
@pytest.mark.parametrize(
    ("window", "last"),
    [
        (None, [IMAGE.digest, NOTE.digest, SHOT.digest, NOTE.digest, IMAGE.digest]),
        (9, [IMAGE.digest, NOTE.digest, SHOT.digest, NOTE.digest, IMAGE.digest]),
        (2, [IMAGE_EARLIER + NOTE_EARLIER, SHOT_EARLIER, NOTE.digest, IMAGE.digest]),
        (0, [IMAGE_EARLIER + NOTE_EARLIER, SHOT_EARLIER, NOTE_EARLIER, IMAGE_EARLIER]),
    ],
)
async def test_so_many_files_are_shown_the_newest(window: int | None, last: list[str]) -> None:
    model = ScriptedModel([call("look"), "Tea.", "Still tea."])
    async with trail_of() as trail:
        await trail.run(agent(model, window), Message.user("", IMAGE, NOTE), session="s")
        result = await trail.session("s").send(agent(model, window), Message.user("", IMAGE))
        records = await trail.session("s").events()
        made = [record.event.request_digest for record in records if isinstance(record.event, InferenceStarted)]
        assert [digest for _, _, digest in recorded_requests("s", records)] == made
        assert len(set(made)) == 3
    assert shown(model.requests[-1]) == last
    assert [part for message in result.state.messages for part in message.files] == [IMAGE, NOTE, SHOT, NOTE, IMAGE]


@pytest.mark.parametrize("window", [-1, 1.5, True, "all"])
def test_a_window_is_a_number_of_files(window: int) -> None:
    with pytest.raises(ConfigurationError, match="agent 'clerk': what `with_media_window` is given is a"):
        AgentBuilder("clerk").with_media_window(window)
