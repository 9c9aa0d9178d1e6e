"""A server that is asked to end, in the middle of a stream."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agui.test_real_client import serving


def events(answered: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in answered.iter_lines():
        assert not line.startswith(":"), "the stream is silent, and goes on"
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_that_is_open_when_the_server_ends_is_told_to_connect_again(
    tmp_path: Path, sent: signal.Signals
) -> None:
    said = {"id": "u1", "role": "user", "content": "slow tea"}
    asked = {"threadId": "t", "runId": "r", "messages": [said]}
    with (
        serving(tmp_path) as place,
        httpx.stream("POST", place.url, json=asked, headers={"Authorization": "ana"}, timeout=60) as answered,
    ):
        stream = events(answered)
        while next(stream)["type"] != "TEXT_MESSAGE_CONTENT":  # the model waits in the middle of its reply
            pass
        place.process.send_signal(sent)
        last = list(stream)[-1]  # raises when the line breaks off
        assert (last["type"], last["code"]) == ("RUN_ERROR", "connection_closed")
        (tmp_path / "go-on").touch()
        assert place.process.wait(60) in (0, -sent)
