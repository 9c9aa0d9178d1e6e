"""A real server of the Pusher protocol, and the client that browsers use, are told a run."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from steptrail import AgentBuilder
from steptrail.broadcasting import BroadcastEnvelope, Broadcaster, PusherTransport
from steptrail.errors import ChannelForbidden, MessageRefused, TransportUnavailable
from steptrail.projections.broadcast.envelope import enveloped
from steptrail.testing import Reply, call
from tests.integration.broadcast.soketi import APP, STRICT, PusherClient, listening, soketi_server
from tests.integration.broadcast.transports import everything_told
from tests.runner.kit import Gated, agent_of, trail_of

TALE = "There were three of them, " + "and then another, " * 30 + "and that was all."
SCRIPT: list[Reply] = [call("add", a=1, b=2), call("add", a=3, b=4), TALE]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with soketi_server(tmp_path_factory.mktemp("soketi")) as port:
        yield port


def transport_to(
    port: int, *, app_id: str = APP["id"], key: str = APP["key"], secret: str = APP["secret"]
) -> PusherTransport:
    return PusherTransport(app_id=app_id, key=key, secret=secret, host="127.0.0.1", port=port, ssl=False)


def strict(port: int, limit: str) -> PusherTransport:
    app = STRICT[limit]
    return transport_to(port, app_id=app["id"], key=app["key"], secret=app["secret"])


def let_in(client: PusherClient, transport: PusherTransport) -> None:
    asks = client.said()["asks"]
    client.answer(transport.authenticate(asks["socketId"], asks["channel"], may=lambda session: session == "s+1"))
    assert client.said() == {"follows": asks["channel"]}


async def test_a_browsers_client_is_told_a_whole_run_in_order(port: int) -> None:
    async with transport_to(port) as transport, trail_of() as trail:
        with listening(port, transport.channel_of("s+1")) as client:
            await asyncio.to_thread(let_in, client, transport)
            async with Broadcaster(trail, transport):
                run = asyncio.create_task(trail.run(agent_of(SCRIPT).build(), "go", session="s+1"))
                told: list[dict[str, Any]] = []
                while not told or told[-1]["data"].get("status") != "completed":
                    told.append((await asyncio.to_thread(client.said))["told"])
                await run
        expected = (await everything_told(trail))["s+1"]
    durable = [each for each in told if each["event"] != "agent.stream.chunk"]
    assert durable == [each.body for each in expected]
    chunks = [each for each in told if each["event"] == "agent.stream.chunk"]
    # What was stored meanwhile needs no pieces any more: the next test is about those that come before it.
    assert TALE.startswith("".join(each["data"]["content"] for each in chunks))


async def test_a_browsers_client_is_told_a_reply_as_it_is_written(port: int) -> None:
    model = Gated("It ", "is ", "late.")
    agent = AgentBuilder("x").with_model(model).build()
    async with transport_to(port) as transport, trail_of() as trail:
        with listening(port, transport.channel_of("s+1")) as client:
            await asyncio.to_thread(let_in, client, transport)
            async with Broadcaster(trail, transport):
                run = asyncio.create_task(trail.run(agent, "go", session="s+1"))
                written: list[dict[str, Any]] = []
                while len(written) < 3:
                    # The model waits until the piece before has come all the way.
                    model.gate.release()
                    told: dict[str, Any] = {}
                    while told.get("event") != "agent.stream.chunk":
                        told = (await asyncio.to_thread(client.said))["told"]
                    written.append(told)
                model.gate.release()
                await run
    assert [each["data"]["content"] for each in written] == ["It ", "is ", "late."]
    assert [each["data"]["chunk_index"] for each in written] == [0, 1, 2]
    assert all(each["sequence"] == each["previous"] for each in written)


def test_a_client_that_may_not_is_told_nothing(port: int) -> None:
    transport = transport_to(port)
    with listening(port, transport.channel_of("of-another")) as client:
        asks = client.said()["asks"]
        with pytest.raises(ChannelForbidden):
            transport.authenticate(asks["socketId"], asks["channel"], may=lambda session: session == "s+1")
        client.answer(None)
        assert client.said() == {"refused": "AuthError"}


def test_a_client_with_a_forged_signature_is_turned_away_by_the_server(port: int) -> None:
    forger = transport_to(port, secret="guessed")  # noqa: S106 - not the server's
    with listening(port, forger.channel_of("s+1")) as client:
        asks = client.said()["asks"]
        client.answer(forger.authenticate(asks["socketId"], asks["channel"], may=lambda _: True))
        assert client.said() == {"refused": "AuthError"}


def of_a_run(count: int, text: str = "tea") -> list[BroadcastEnvelope]:
    return [
        enveloped(
            "epic",
            id=f"{version}.2",
            previous=None,
            type="agent.tool.completed",
            session_id="s+1",
            execution_id="s+1:1",
            at=0,
            payload={"result_summary": text},
        )
        for version in range(1, count + 1)
    ]


async def test_a_refusal_of_our_rights_or_of_too_much_at_once_is_no_delivery(port: int) -> None:
    for transport, code in (
        (transport_to(port, secret="guessed"), "401"),  # noqa: S106 - not the server's
        (transport_to(port, app_id="999"), "404"),
        (strict(port, "rate"), "429"),
    ):
        async with transport:
            with pytest.raises(TransportUnavailable, match=f"the server says: '{code}"):
                await transport.send(of_a_run(4))


async def test_what_the_server_will_never_take_is_refused(port: int) -> None:
    async with strict(port, "size") as transport:
        with pytest.raises(MessageRefused, match="413") as refused:
            await transport.send(of_a_run(1, text="x" * 500))
        assert refused.value.reason == "too large"
    async with strict(port, "batch") as transport:
        with pytest.raises(MessageRefused, match="400"):
            await transport.send(of_a_run(3))
        await transport.send(of_a_run(2))


async def test_a_broadcaster_that_the_server_turns_away_stays_behind_and_says_so(port: int) -> None:
    away = transport_to(port, secret="guessed")  # noqa: S106 - not the server's
    async with away as transport, trail_of() as trail, Broadcaster(trail, transport) as broadcaster:
        await trail.run(agent_of(SCRIPT).build(), "go", session="s+1")
        while not (stats := await broadcaster.stats()).retries:
            await asyncio.sleep(0.01)
    assert (stats.sent, stats.position) == (0, 0)
    assert stats.behind > 0
