"""Server-sent events, by the cases of the standard."""

from collections.abc import AsyncIterator, Sequence

import pytest

from steptrail.infrastructure.models.sse import server_events


async def events(chunks: Sequence[bytes]) -> list[tuple[str | None, str]]:
    async def sent() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [(event.name, event.data) async for event in server_events(sent())]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata:b\n\n", [(None, "a"), (None, "b")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [(None, "a"), (None, "b"), (None, "c")]),
        (b"data: a\ndata: b\n\n", [(None, "a\nb")]),
        (b"data:  a\n\n", [(None, " a")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), (None, "b")]),
        (b": a comment\n\nevent: ping\n\n\n\ndata: a\n\n", [(None, "a")]),
        (b"event: ping\ndata:\n\ndata: a\n\n", [(None, "a")]),
        (b"id: 7\nretry: 5\nother: 1\ndata: a\n\n", [(None, "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(None, "a")]),
        (b"data: \xe2\x82\xac\xff\n\n", [(None, "\u20ac\ufffd")]),
        (b"data: a\n\ndata: broken off", [(None, "a")]),
        (b"data: a\n\ndata: broken off\n", [(None, "a")]),
        (b"data\n\ndata: \n\n", []),
        (b"", []),
    ],
)
async def test_events_are_what_the_standard_says_wherever_the_bytes_are_cut(
    stream: bytes, expected: list[tuple[str | None, str]]
) -> None:
    assert await events([stream]) == expected
    assert await events([stream[place : place + 1] for place in range(len(stream))]) == expected
    assert await events([b"", stream[:5], b"", stream[5:], b""]) == expected
