"""A process that speaks Chat Completions over real HTTP and misbehaves on request.

It stands in for the one thing that tests cannot have, the provider's service. Mock that and nothing nearer: the SDK,
the sockets and the driver in front of it are the real ones. It answers from a script, keeps what it was asked, and
refuses what the real service refuses (`steptrail.testing.model_request`).
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Self, cast

from pydantic import JsonValue, TypeAdapter

from steptrail.testing.model_request import why_refused
from steptrail.testing.model_script import ScriptedReply, refused

__all__ = ["ModelServer", "RecordedRequest"]

_SCRIPT: TypeAdapter[list[ScriptedReply]] = TypeAdapter(list[ScriptedReply])


class RecordedRequest(NamedTuple):
    """One request as the server received it; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, JsonValue]


_BODY: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_REQUESTS: TypeAdapter[list[RecordedRequest]] = TypeAdapter(list[RecordedRequest])


class ModelServer:
    """A context manager around the process. `url` is a base address for a driver.

    The replies are given out in order, one to each request that is not refused; a request after the last one is
    answered with status 500 and the code `script_exhausted`.
    """

    def __init__(self, script: Iterable[ScriptedReply]) -> None:
        self._script = list(script)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "script.json"
            file.write_bytes(_SCRIPT.dump_json(self._script))
            # -P: the folder the tests run in must not shadow installed modules.
            command = [sys.executable, "-P", "-m", "steptrail.testing.model_server", "--script", str(file)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  our own module
            self._process = process
            line = process.stdout.readline().decode() if process.stdout is not None else ""
        word, _, url = line.strip().partition(" ")
        if word != "READY":
            self.stop()
            raise RuntimeError(f"the model server did not start: it said {line!r}")
        self.url = url
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return None if self._process is None else self._process.pid

    def requests(self) -> list[RecordedRequest]:
        """Return every request so far, refused ones included."""
        address = self.url.removesuffix("/v1") + "/__requests"
        with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310  our own loopback address
            return _REQUESTS.validate_json(cast(bytes, response.read()))

    def stop(self) -> None:
        """End the process. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class _Service:
    """The script and the requests so far, shared by the threads that serve connections."""

    def __init__(self, script: list[ScriptedReply]) -> None:
        self._replies = iter(script)
        self._lock = threading.Lock()
        self.requests: list[RecordedRequest] = []

    def next(self, request: RecordedRequest, *, authorized: bool) -> ScriptedReply:
        with self._lock:
            self.requests.append(request)
            if not authorized:
                return refused(401, "You didn't provide an API key.", error_type="invalid_request_error")
            if (why := why_refused(request.body)) is not None:
                return refused(400, why, error_type="invalid_request_error")
            exhausted = refused(500, "the script of this server has no further reply", code="script_exhausted")
            return next(self._replies, exhausted)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: _Service

    def do_GET(self) -> None:
        if self.path == "/__requests":
            self._send(HTTPStatus.OK, _REQUESTS.dump_json(self.service.requests))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"{}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path != "/v1/chat/completions":
            self._send(HTTPStatus.NOT_FOUND, b'{"error": {"message": "Unknown request URL", "code": "unknown_url"}}')
            return
        try:
            body = _BODY.validate_json(data)
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, b'{"error": {"message": "We could not parse the JSON body."}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, body)
        authorized = headers.get("authorization", "").startswith("Bearer ")
        reply = self.service.next(request, authorized=authorized)
        wait = reply.get("wait")
        if isinstance(wait, int | float):
            threading.Event().wait(wait)
        match reply.get("kind"):
            case "cut":
                self._cut()
            case "raw":
                self._send(HTTPStatus.OK, str(reply.get("text")).encode())
            case _:
                extra = reply.get("headers")
                named = {name: str(value) for name, value in extra.items()} if isinstance(extra, dict) else {}
                status = reply.get("status")
                self._send(status if isinstance(status, int) else 200, json.dumps(reply.get("body")).encode(), named)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"id": "chatcmpl-cut", "choices": [')
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class has this name
        """Keep standard error for what goes wrong."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Say nothing about a client that hung up: tests make it do so."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve a script on a free loopback port until standard input ends, so as not to outlive the test process."""
    parser = argparse.ArgumentParser(prog="steptrail.testing.model_server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of replies")
    script: Path = parser.parse_args().script
    handler = type("Handler", (_Handler,), {"service": _Service(_SCRIPT.validate_json(script.read_bytes()))})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"READY http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
