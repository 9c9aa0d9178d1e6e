"""Wherever a process ends and a connection breaks: what a client keeps, without repeats, is what the log tells."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from steptrail import Steptrail
from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, Broadcaster
from steptrail.errors import Backoff, TransportUnavailable
from steptrail.testing import Reply, call
from tests.integration.broadcast.transports import at_once, by_session, everything_told
from tests.profile import examples
from tests.runner.kit import agent_of, trail_of

Cut = Literal["taken", "lost before", "lost after", "lost in between", "process ends before", "process ends after"]
cuts: st.SearchStrategy[Cut] = st.sampled_from(
    ["taken", "taken", "lost before", "lost after", "lost in between", "process ends before", "process ends after"]
)
SCRIPT: list[Reply] = [call("add", a=1, b=2), call("add", a=3, b=4), "done"]


class CutTransport:
    """Takes messages or does not, as is said for each try; `ended` is set when the process is to end."""

    def __init__(self, script: Iterator[Cut], most_messages: int) -> None:
        self.most_messages, self._script = most_messages, script
        self.arrived: list[BroadcastEnvelope] = []
        self.ended = asyncio.Event()

    async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
        await asyncio.sleep(0)
        cut = next(self._script, "taken")
        if cut == "lost in between":
            self.arrived += messages[:1]
        elif cut in ("taken", "lost after", "process ends after"):
            self.arrived += messages
        if cut.startswith("process"):
            self.ended.set()
            await asyncio.Event().wait()
        if cut.startswith("lost"):
            raise TransportUnavailable(cut, retry_after=0.0)


async def deliver_all(trail: Steptrail, transport: CutTransport, config: BroadcastConfig) -> None:
    """Broadcast until everything is delivered, in as many processes as it takes."""
    while True:
        async with Broadcaster(trail, transport, config=config) as broadcaster:
            waits = {asyncio.create_task(broadcaster.caught_up()), asyncio.create_task(transport.ended.wait())}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
        if not transport.ended.is_set():
            return
        transport.ended.clear()


@examples(40)
@given(st.lists(cuts, max_size=12), st.integers(1, 10), st.booleans(), st.booleans())
async def test_what_a_client_keeps_is_what_the_log_tells(
    script: list[Cut], most_messages: int, trace: bool, statuses: bool
) -> None:
    config = BroadcastConfig(
        include_continuation_trace=trace, auto_status_tracking=statuses, include_stream_chunks=False
    )

    # A backoff that waits would make this slow and prove no more.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Backoff, "exponential", at_once)
        async with trail_of() as trail:
            transport = CutTransport(iter(script), most_messages)
            for session in ("a", "b"):
                await trail.run(agent_of(SCRIPT).build(), "go", session=session)
            delivering = asyncio.create_task(deliver_all(trail, transport, config))
            await trail.run(agent_of(SCRIPT).build(), "and now?", session="a")
            await delivering
            await deliver_all(trail, transport, config)
            assert by_session(transport.arrived) == await everything_told(trail, config)
