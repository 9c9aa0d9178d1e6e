"""Two servers of one store on PostgreSQL: a browser at either sees a reply while a run at either writes it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.web.serving import AS_ANA, Served, is_heartbeat, serving

ANSWER = "You are welcome."


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[tuple[Served, Served]]:
    with serving(tmp_path, "--gated", store=postgres_url) as one, serving(tmp_path, store=postgres_url) as two:
        yield one, two


def events(served: Served, session: str) -> Iterator[dict[str, Any]]:
    with served.stream(session) as stream:
        yield from (each.data for each in stream if each.data is not None)


def socket(served: Served, session: str) -> Iterator[dict[str, Any]]:
    with connect(served.socket_url(session), additional_headers=AS_ANA) as line:
        yield from (body for body in map(json.loads, line) if not is_heartbeat(body))


def text_of(body: dict[str, Any]) -> str:
    return str(body["data"]["content"]) if body["event"] == "agent.stream.chunk" else ""


@pytest.mark.parametrize("transport", [events, socket])
def test_every_word_is_seen_at_the_server_that_does_not_run_the_session(
    servers: tuple[Served, Served], transport: Callable[[Served, str], Iterator[dict[str, Any]]]
) -> None:
    one, two = servers
    one.say("a", "Thank you.")
    two.has("a")
    messages, pieces = transport(two, "a"), list[str]()
    for _ in range(2):
        one.go(1)  # the next word is not written before the last one was seen
        pieces.append(next(filter(None, map(text_of, messages))))
    assert pieces == ["You ", "are "]
    one.go()
    for body in messages:
        pieces.append(text_of(body))
        if body["data"].get("status") == "completed":
            break
    # The event that holds the whole may overtake the last word, which is not shown after it then.
    assert "".join(pieces) in {ANSWER, "You are "}
