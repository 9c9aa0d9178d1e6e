"""What goes over the wire to a server that speaks the Pusher protocol, and what comes back."""

import hashlib
import hmac
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, Broadcaster, PusherTransport
from steptrail.errors import (
    Backoff,
    ChannelForbidden,
    ConfigurationError,
    MessageRefused,
    MissingExtra,
    TransportUnavailable,
)
from steptrail.infrastructure.broadcast.transport import Delivery
from steptrail.projections.broadcast.envelope import enveloped
from steptrail.testing import Reply, call
from tests.integration.broadcast.pusher_double import SECRET, PusherDouble, pusher_double
from tests.integration.broadcast.transports import at_once, everything_told
from tests.runner.kit import NOON, agent_of, trail_of

LIMIT = 10_000


def transport_to(
    port: int,
    *,
    event_name: str = "instructor.agent.event",
    channel_prefix: str = "private-",
    timeout: float = 5.0,
) -> PusherTransport:
    return PusherTransport(
        app_id="1001",
        key="k",
        secret=SECRET,
        host="127.0.0.1",
        port=port,
        ssl=False,
        event_name=event_name,
        channel_prefix=channel_prefix,
        timeout=timeout,
    )


@asynccontextmanager
async def sending() -> AsyncGenerator[tuple[PusherDouble, PusherTransport], None]:
    with pusher_double() as double:
        async with transport_to(double.port) as transport:
            yield double, transport


async def play(scenario: Callable[[PusherDouble, PusherTransport], Awaitable[None]]) -> None:
    async with sending() as (double, transport):
        await scenario(double, transport)


def messages(*contents: str, session: str = "s") -> list[BroadcastEnvelope]:
    return [
        enveloped(
            "epic",
            id=f"{version}.2",
            previous=f"{version - 1}.2" if version > 1 else None,
            type="agent.tool.completed",
            session_id=session,
            execution_id=f"{session}:1",
            at=NOON,
            payload={"result_summary": content},
        )
        for version, content in enumerate(contents, start=1)
    ]


async def test_messages_go_out_in_one_request_to_the_private_channel_of_their_session() -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        sent = messages("tea", "ünïcödé 😀", session="a+b")
        await transport.send(sent)
        assert len(double.bodies) == 1
        assert {(each["name"], each["channel"]) for each in double.events} == {
            ("instructor.agent.event", "private-agent.a;b")
        }
        assert double.told == [each.body for each in sent]

    await play(scenario)


async def test_the_name_of_the_event_and_the_channels_are_settings() -> None:
    with pusher_double() as double:
        async with transport_to(double.port, event_name="agent", channel_prefix="") as transport:
            await transport.send(messages("tea"))
        assert [(each["name"], each["channel"]) for each in double.events] == [("agent", "agent.s")]
    with pytest.raises(ConfigurationError, match="presence-"):
        transport_to(1, channel_prefix="presence-")


@pytest.mark.parametrize("character", ["a", '"', "\\", "é", "😀", "\x00"])
async def test_no_request_is_larger_than_the_limit_whatever_it_holds(character: str) -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        sent = messages(*(character * length for length in (10, 500, 900, 1500, 3000, 9000, 20, 20, 20, 20)))
        await transport.send(sent)
        assert all(len(body) <= LIMIT for body in double.bodies)
        assert [each["sequence"] for each in double.told] == [each.id for each in sent]
        for message, told in zip(sent, double.told, strict=True):
            reference = {"agent_id": "s", "version": message.version, "id": message.id}
            assert told == message.body or told["reference"] == reference
        assert "reference" in double.told[5] or character == "a"
        assert "reference" not in double.told[0]

    await play(scenario)


async def test_a_message_that_just_fits_is_sent_whole_and_one_byte_more_by_reference() -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        await transport.send(messages(""))
        room = LIMIT - len(double.bodies[0])
        await transport.send(messages("x" * room))
        await transport.send(messages("x" * (room + 1)))
        assert len(double.bodies[1]) == LIMIT
        assert ["reference" in each for each in double.told] == [False, False, True]

    await play(scenario)


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, MessageRefused),
        (413, MessageRefused),
        (401, TransportUnavailable),
        (403, TransportUnavailable),
        (404, TransportUnavailable),
        (429, TransportUnavailable),
        (500, TransportUnavailable),
        (503, TransportUnavailable),
    ],
)
@pytest.mark.parametrize("in_the_body", [False, True])
async def test_what_the_server_says_is_for_good_or_for_now(
    status: int, raised: type[Exception], in_the_body: bool
) -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        double.always_200 = in_the_body
        double.answers.append(status)
        with pytest.raises(raised):
            await transport.send(messages("tea"))
        assert double.bodies == []
        await transport.send(messages("tea"))
        assert len(double.bodies) == 1

    await play(scenario)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pusher_double() as double:
        port = double.port

    async with transport_to(port) as transport:
        with pytest.raises(TransportUnavailable):
            await transport.send(messages("tea"))


async def test_a_run_reaches_the_server_in_order_though_that_fails_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Backoff, "exponential", at_once)
    config = BroadcastConfig(include_stream_chunks=False)

    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        double.answers += [503, 200, 500, 413, 200]
        async with trail_of() as trail, Broadcaster(trail, transport, config=config) as broadcaster:
            for _ in range(4):
                await trail.run(agent_of(["done"]).build(), "go", session="s")
            await broadcaster.caught_up()
            told = (await everything_told(trail, config))["s"]
        assert [each["sequence"] for each in double.told] == [each.id for each in told]

    await play(scenario)


@pytest.mark.parametrize("word", ["tea ", "茶茶茶茶 ", "🍵 ", '\\"\n ', "\x00 ", "茶" * 5000 + " "])
async def test_no_piece_of_a_reply_is_lost_to_a_slow_server_in_whatever_script_it_is_written(word: str) -> None:
    reply = word * (15_000 // len(word)) + "end."

    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        double.seconds = 0.05
        async with trail_of() as trail, Broadcaster(trail, transport) as broadcaster:
            await trail.run(agent_of([reply]).build(), "go", session="s")
            await broadcaster.caught_up()
            assert (await broadcaster.stats()).dropped_chunks == 0
        chunks = [each["data"] for each in double.told if each.get("event") == "agent.stream.chunk"]
        assert "".join(each["content"] for each in chunks) == reply
        assert [each["chunk_index"] for each in chunks] == list(range(len(chunks)))
        assert not [each for each in double.told if "reference" in each]
        assert all(len(body) <= LIMIT for body in double.bodies)

    await play(scenario)


def in_text(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_a_client_is_let_into_the_channel_of_a_session_that_it_may_follow() -> None:
    asked: list[str] = []

    def may(session: str) -> bool:
        asked.append(session)
        return session == "a+b"

    transport = transport_to(1)
    channel = transport.channel_of("a+b")
    assert channel == "private-agent.a;b"
    signed = transport.authenticate("12.34", channel, may=may)
    assert signed == {"auth": f"k:{in_text(SECRET, f'12.34:{channel}')}"}
    with pytest.raises(ChannelForbidden):
        transport.authenticate("12.34", "private-agent.other", may=may)
    assert asked == ["a+b", "other"]
    run = transport.channel_of("flow:a+b")
    assert run == "private-flow.a;b"
    asked.clear()
    with pytest.raises(ChannelForbidden):
        transport.authenticate("12.34", run, may=may)
    assert asked == ["flow:a+b"]


@pytest.mark.parametrize(
    ("socket", "channel"),
    [
        ("12.34", "private-other.s"),
        ("12.34", "agent.s"),
        ("12.34", "private-agent."),
        ("12.34", "private-agent.a+b"),
        ("12.34", "private-agent.a/b"),
        ("12.34", "private-agent.s:x"),
        ("nonsense", "private-agent.s"),
        ("12.34:private-agent.s", "private-agent.s"),
    ],
)
def test_nobody_is_let_into_anything_else(socket: str, channel: str) -> None:
    with pytest.raises(ChannelForbidden):
        transport_to(1).authenticate(socket, channel, may=lambda _: True)
    with pytest.raises(ChannelForbidden):
        transport_to(1, channel_prefix="").authenticate(socket, channel.removeprefix("private-"), may=lambda _: True)


def test_without_the_extra_it_says_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pusher", None)
    with pytest.raises(MissingExtra, match=r"steptrail\[pusher\]"):
        transport_to(1)


def test_credentials_that_can_be_none_are_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="credentials"):
        PusherTransport(app_id="not digits", key="k", secret=SECRET)


async def test_nothing_that_a_tool_was_given_or_returned_is_in_the_bytes_that_left() -> None:
    silent = BroadcastConfig(include_tool_summaries=False, include_stream_chunks=False, include_continuation_trace=True)

    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        script: list[Reply] = [call("add", a=987_123, b=1), call("fail", why="hunter2"), "987124 and hunter2"]
        async with trail_of() as trail:
            async with Broadcaster(trail, transport, config=silent, name="silent") as broadcaster:
                await trail.run(agent_of(script).build(), "987123, hunter2?", session="s")
                await broadcaster.caught_up()
            sent = b"".join(double.bodies)
            assert len(double.told) > 5
            assert not [each for each in (b"98712", b"hunter2") if each in sent]
            async with Broadcaster(trail, transport, name="talkative") as broadcaster:
                await broadcaster.caught_up()
            assert b"hunter2" in b"".join(double.bodies)

    await play(scenario)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_server_that_sends_us_elsewhere_has_taken_nothing(status: int) -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        double.answers.append(status)
        double.headers["Location"] = "/login"
        with pytest.raises(TransportUnavailable, match=str(status)):
            await transport.send(messages("tea"))
        assert double.bodies == []

    await play(scenario)


async def test_an_answer_that_never_ends_is_given_up() -> None:
    with pusher_double() as double:
        async with transport_to(double.port, timeout=0.1) as transport:
            double.dripping = "body"
            with pytest.raises(TransportUnavailable, match=r"within 0\.3 seconds"):
                await transport.send(messages("tea"))
            with pytest.raises(TransportUnavailable, match=r"within 0\.3 seconds"):
                await transport.send(messages("milk"))
    # What was given up on while it waited for the one before is not sent behind our back.
    assert [each["data"]["result_summary"] for each in double.told] == ["tea"]


async def test_an_answer_whose_head_never_ends_holds_up_no_later_message() -> None:
    with pusher_double() as double:
        async with transport_to(double.port, timeout=0.1) as transport:
            double.dripping = "head"
            with pytest.raises(TransportUnavailable):
                await transport.send(messages("tea"))
            double.dripping = None
            await Delivery(transport, Backoff.none()).deliver(messages("milk"))
    assert [each["data"]["result_summary"] for each in double.told] == ["tea", "milk"]


async def test_an_error_tells_no_signature() -> None:
    with pusher_double() as double:
        port = double.port
    async with transport_to(port) as transport:
        with pytest.raises(TransportUnavailable, match="refused") as raised:
            await transport.send(messages("tea"))
    assert f"{port}" in str(raised.value)
    assert "auth_" not in str(raised.value)


@pytest.mark.parametrize("status", [400, 401, 403, 500])
async def test_what_a_server_says_is_told_in_one_short_line(status: int) -> None:
    async def scenario(double: PusherDouble, transport: PusherTransport) -> None:
        double.answers.append(status)
        double.said = b"no\r\nWARNING a line of our own \x1b[31m" + b"x" * 100_000
        with pytest.raises((MessageRefused, TransportUnavailable), match=r"the server says: .*no") as raised:
            await transport.send(messages("tea"))
        told = str(raised.value)
        assert told.isprintable()
        assert len(told) < 500

    await play(scenario)


@pytest.mark.parametrize(
    ("socket", "channel"),
    [(None, None), ("12.34", None), (None, "private-agent.s"), (["12.34"], ["private-agent.s"]), ("12.34", b"agent.s")],
)
def test_a_client_that_sends_no_text_is_let_into_nothing(socket: object, channel: object) -> None:
    with pytest.raises(ChannelForbidden):
        transport_to(1).authenticate(socket, channel, may=lambda _: True)


def test_only_true_lets_a_client_in_and_a_coroutine_is_no_answer() -> None:
    async def later(session: str) -> bool:
        return session == "s"

    transport, channel = transport_to(1), "private-agent.s"
    for answer in (None, 1, "no", ["s"]):
        with pytest.raises(ChannelForbidden):
            transport.authenticate("12.34", channel, may=lambda _, answer=answer: answer)  # type: ignore[misc]
    with pytest.raises(ConfigurationError, match="`may` is an async function"):
        transport.authenticate("12.34", channel, may=later)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"event_name": ""}, "event_name"),
        ({"event_name": "x" * 201}, "event_name"),
        ({"event_name": None}, "event_name"),
        ({"key": ""}, "key"),
        ({"key": "k&x=1"}, "key"),
        ({"secret": ""}, "secret"),
        ({"secret": b"s3cret"}, "secret"),
        ({"host": "http://127.0.0.1"}, "host"),
        ({"host": "bad host"}, "host"),
        ({"cluster": "../eu"}, "cluster"),
        ({"port": 0}, "port"),
        ({"port": 65_536}, "port"),
        ({"port": "8080"}, "port"),
        ({"port": True}, "port"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"most_bytes": 0}, "most_bytes"),
        ({"most_bytes": "10000"}, "most_bytes"),
        ({"most_bytes": None}, "most_bytes"),
    ],
)
def test_a_setting_with_which_nothing_could_be_sent_is_refused_at_once(wrong: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"app_id": "1001", "key": "k", "secret": SECRET, **wrong}
    with pytest.raises(ConfigurationError, match=said) as raised:
        PusherTransport(**given)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("session", ["", "a/b", "a b", "flow:", "flow:a b", "x" * 129, None, 3])
def test_what_can_be_no_session_has_no_channel(session: Any) -> None:
    with pytest.raises(ConfigurationError, match="session"):
        transport_to(1).channel_of(session)
