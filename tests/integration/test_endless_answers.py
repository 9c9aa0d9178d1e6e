"""What a receiver of spans or a server of messages answers is never read to an end that it does not have."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from steptrail.broadcasting import PusherTransport
from steptrail.errors import NotExported, TransportUnavailable
from steptrail.infrastructure.telemetry.otlp import SpanSender
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.span import Span
from tests.harness.bombs import bomb_server
from tests.integration.broadcast.pusher_double import SECRET
from tests.integration.broadcast.transports import everything_told
from tests.runner.kit import agent_of, trail_of

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("path", ["plain", "gzip"])
async def test_a_receiver_whose_answer_has_no_end_has_done_what_its_status_says(path: str) -> None:
    spans = await _spans()
    async with bomb_server() as url:
        for name in (path, f"{path}-failed"):
            sender = SpanSender(f"{url}/{name}")
            if "failed" in name:
                with pytest.raises(NotExported):
                    await asyncio.to_thread(sender.send, spans)
            else:
                await asyncio.to_thread(sender.send, spans)
            sender.close()


@pytest.mark.parametrize("way", ["straight", "by a proxy"])
async def test_a_receiver_whose_head_has_no_end_has_not_taken_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    async with bomb_server() as url:
        if way == "by a proxy":
            monkeypatch.setenv("http_proxy", f"{url}/")
            monkeypatch.setenv("no_proxy", "")
            url = "http://collector.invalid"
        sender = SpanSender(f"{url}/head")
        with pytest.raises(NotExported):
            await asyncio.to_thread(sender.send, await _spans())
        sender.close()


async def test_a_server_of_messages_whose_answer_has_no_end_has_taken_nothing_and_is_asked_again() -> None:
    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        (messages,) = (await everything_told(trail)).values()
    async with bomb_server() as url:
        where = urlsplit(url)
        async with PusherTransport(
            app_id="1", key="k", secret=SECRET, host=where.hostname, port=where.port, ssl=False
        ) as transport:
            for _ in range(3):
                with pytest.raises(TransportUnavailable, match="JSONDecodeError"):
                    await transport.send(messages[:1])


async def _spans() -> Sequence[Span]:
    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        return SpanFold("agent:s").apply(await trail.session("s").history())
