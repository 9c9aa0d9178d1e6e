"""A conversation of any length goes on in the window of its model, and no request parts a call from its result."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail import AgentBuilder, Compaction, Limits, Message, ToolEffect, tool
from steptrail.domain.agent.events import ConversationCompacted, InferenceStarted
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.usage import Usage
from steptrail.runtime.agent.request import recorded_requests
from steptrail.runtime.agent.transcript import transcript_of
from steptrail.testing import ScriptedModel, calls, say
from tests.profile import examples
from tests.properties.pairs import unpaired
from tests.runner.kit import HandClock, again_on, crash_at, dies, trail_of

WINDOW = 2_000
"""Tokens; a token has four bytes here."""


@tool(effect=ToolEffect.READ)
def read(size: int) -> str:
    """Read so many characters."""
    return "r" * size


class TooLong(Exception):
    """The provider says that the request is too long."""

    status_code, code = 400, "context_length_exceeded"


def tokens_of(request: ModelRequest) -> int:
    return sum(len(msgspec.json.encode(message)) for message in request.messages) // 4


class Reader(ScriptedModel):
    """A model that takes no more than its window, and that may not say how much it took.

    A refused call is one more of the session, so its script goes by the replies that it gave.
    """

    def __init__(self, replies: Sequence[ModelReply], *, counts: bool) -> None:
        super().__init__([])
        self._replies, self._counts, self._given = replies, counts, 0

    async def infer(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if (tokens := tokens_of(request)) > WINDOW:
            raise TooLong(f"{tokens} tokens")
        self._given += 1
        usage = Usage(input=tokens if self._counts else 0, output=9)
        return structs.replace(self._replies[self._given - 1], usage=usage)


def count_of(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


steps = st.lists(st.integers(0, 900), min_size=1, max_size=3)
settings_of = st.builds(
    Compaction,
    above=st.sampled_from([0.5, 0.8]),
    window=st.just(WINDOW),
    keep_steps=st.integers(1, 6),
    clear_results_above=st.sampled_from([0, 100, 5_000]),
    summarizer=st.just(count_of),
)


@pytest.mark.acceptance("10.4-1")
@examples(25)
@given(st.lists(steps, min_size=1, max_size=30), settings_of, st.booleans(), st.booleans(), st.integers(1, 60))
@pytest.mark.slow("runs of up to thirty steps")
async def test_any_run_goes_on_and_its_requests_are_whole_and_bounded(
    sizes: list[list[int]], compaction: Compaction, counted: bool, traces: bool, dies_at: int
) -> None:
    replies = [calls(*(("read", {"size": size}) for size in step)) for step in sizes]
    model = Reader([*replies, say("Done.")], counts=counted)
    builder = AgentBuilder("reader").with_model(model).with_tools(read).with_earlier_tool_traces(traces)
    agent = builder.with_limits(Limits(max_steps=100, max_tokens=None)).with_compaction(compaction).build()
    async with trail_of(reach=crash_at("before-tool", dies_at)) as trail:
        with dies(dies_at, sum(map(len, sizes))):
            await trail.run(agent, "Read.", session="s")
        if (await trail.session("s").result()).state.is_open:
            await again_on(trail, HandClock()).session("s").resume(agent)
        records = await trail.session("s").events()
        result = await trail.session("s").result(agent)
    assert result.output == "Done."
    assert [unpaired(request) for request in model.requests if unpaired(request)] == []
    made = [record.event.request_digest for record in records if isinstance(record.event, InferenceStarted)]
    assert [digest for _, _, digest in recorded_requests("s", records)] == made
    assert all(
        record.event.summary or record.event.cleared_calls
        for record in records
        if isinstance(record.event, ConversationCompacted)
    )


texts = st.text(max_size=40) | st.integers(1, 4_000).map(lambda size: "長" * size)


@examples(60)
@given(st.lists(texts, max_size=40), st.integers(400, 3_000))
def test_a_transcript_is_bounded_however_long_the_conversation_is(said: Sequence[str], most: int) -> None:
    messages = [Message.user(text) for text in said]
    assert len(transcript_of(messages, most).encode()) <= 2 * most + 600
