"""A process that speaks the protocols of model providers over real HTTP and misbehaves on request.

It stands in for the one thing that tests cannot have, the provider's service. Replace only the service: the SDK, the
sockets and the driver in front of it are the real ones. The server answers from a script, streamed if it is asked to,
keeps the requests, and refuses what the real service refuses (`steptrail.testing.model_request` and its neighbours).
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
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias, cast

from pydantic import TypeAdapter

from steptrail.domain.json_value import JsonValue
from steptrail.testing.model_request_types import why_mistyped
from steptrail.testing.model_script import ScriptedReply, refused
from steptrail.testing.model_wire import SseEvent, WireReply, sse
from steptrail.testing.model_wire_anthropic import AnthropicWire
from steptrail.testing.model_wire_chat import ChatWire
from steptrail.testing.model_wire_responses import ResponsesWire

Wire: TypeAlias = AnthropicWire | ChatWire | ResponsesWire
"""A protocol, as a provider speaks it."""

_WIRES: Final[Mapping[str, Wire]] = {wire.path: wire for wire in (ChatWire(), ResponsesWire(), AnthropicWire())}
_SCRIPT: TypeAdapter[list[ScriptedReply]] = TypeAdapter(list[ScriptedReply])

_STILL_HERE: Final = b": still here\n\nevent: ping\n\n"
"""The comment that services send so that clients do not hang up. It has no data, so it is no event."""


class RecordedRequest(NamedTuple):
    """One request as the server received it; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, JsonValue]


_BODY: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_REQUESTS: TypeAdapter[list[RecordedRequest]] = TypeAdapter(list[RecordedRequest])


class ModelServer:
    """A context manager around the process. `url` is a base address for OpenAI's drivers, `root` for Anthropic's.

    The replies are given out in order, one to each request that is not refused; a request after the last one is
    answered with status 500 and the code `script_exhausted`. With `typed` it also refuses what the request types of
    the installed SDKs do not allow, which takes seconds at the first request.
    """

    def __init__(self, script: Iterable[ScriptedReply], *, typed: bool = False) -> None:
        self._script, self._typed = list(script), typed
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    @property
    def root(self) -> str:
        """The address without the version of OpenAI's protocols."""
        return self.url.removesuffix("/v1")

    def __enter__(self) -> Self:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "script.json"
            file.write_bytes(_SCRIPT.dump_json(self._script))
            # -P: the folder the tests run in must not shadow installed modules.
            command = [sys.executable, "-P", "-m", "steptrail.testing.model_server", "--script", str(file)]
            command += ["--typed"] if self._typed else []
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
        with urllib.request.urlopen(f"{self.root}/__requests", timeout=10) as response:  # noqa: S310  our own loopback address
            return _REQUESTS.validate_json(cast(bytes, response.read()))

    def play(self, script: Iterable[ScriptedReply]) -> None:
        """Begin anew with another script, and forget the requests so far."""
        post = urllib.request.Request(f"{self.root}/__script", data=_SCRIPT.dump_json(list(script)))  # noqa: S310
        with urllib.request.urlopen(post, timeout=10):  # noqa: S310  our own loopback address
            pass

    def stop(self) -> None:
        """End the process. Safe to call twice."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class _Answer(NamedTuple):
    """The entry of the script that is to be sent, and the reply that it makes, if it makes one."""

    script: ScriptedReply
    reply: WireReply | None = None


class _Service:
    """The script, the requests and the replies so far, shared by the threads that serve connections."""

    def __init__(self, script: list[ScriptedReply], *, typed: bool) -> None:
        self._typed = typed
        self._lock = threading.Lock()
        self.play(script)

    def play(self, script: list[ScriptedReply]) -> None:
        with self._lock:
            self._replies = iter(script)
            self._issued: list[Mapping[str, JsonValue]] = []
            self.requests: list[RecordedRequest] = []

    def next(self, wire: Wire, request: RecordedRequest) -> _Answer:
        with self._lock:
            self.requests.append(request)
            if not wire.is_authorized(request.headers):
                return _Answer(refused(401, "You didn't provide an API key.", error_type="invalid_request_error"))
            why = wire.why_refused(request.body, self._issued)
            if why is None and self._typed:
                why = why_mistyped(request.path, wire.as_typed(request.body, self._issued))
            if why is not None:
                return _Answer(refused(400, why, error_type="invalid_request_error"))
            exhausted = refused(500, "the script of this server has no further reply", code="script_exhausted")
            script = next(self._replies, exhausted)
            if script.get("kind") != "message":
                return _Answer(script)
            reply = WireReply.of(script, len(self._issued) + 1)
            self._issued.append(wire.body(reply))
            return _Answer(script, reply)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # The head and the body of a reply are sent apart: the second would wait until the client has confirmed the first.
    disable_nagle_algorithm = True
    service: _Service

    def do_GET(self) -> None:
        if self.path == "/__requests":
            self._send(HTTPStatus.OK, _REQUESTS.dump_json(self.service.requests))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"{}")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/__script":
            self.service.play(_SCRIPT.validate_json(data))
            self._send(HTTPStatus.OK, b"{}")
            return
        if (wire := _WIRES.get(self.path)) is None:
            self._send(HTTPStatus.NOT_FOUND, b'{"error": {"message": "Unknown request URL", "code": "unknown_url"}}')
            return
        try:
            body = _BODY.validate_json(data)
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, b'{"error": {"message": "We could not parse the JSON body."}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, body)
        self._answer(wire, request, self.service.next(wire, request))

    def _answer(self, wire: Wire, request: RecordedRequest, answer: _Answer) -> None:
        script, streamed = answer.script, bool(request.body.get("stream"))
        wait = script.get("wait")
        if isinstance(wait, int | float):
            threading.Event().wait(wait)
        match script:
            case {"kind": "message"} if answer.reply is not None and streamed:
                self._stream(wire.events(answer.reply, request.body))
            case {"kind": "message"} if answer.reply is not None:
                self._send(HTTPStatus.OK, json.dumps(wire.body(answer.reply)).encode())
            case {"kind": "failed", "code": str(code), "message": str(message)} if streamed:
                self._stream([*_beginning(wire, request), wire.failure_event(code, message)])
            case {"kind": "failed", "code": str(code), "message": str(message)}:
                self._send(HTTPStatus.OK, json.dumps(wire.failure(code, message)).encode())
            case {"kind": "cut"} if streamed:
                self._stream(_beginning(wire, request), cut=True)
            case {"kind": "cut"}:
                self._cut()
            case {"kind": "raw"}:
                kind = str(script.get("content_type") or "application/json")
                self._send(HTTPStatus.OK, str(script.get("text")).encode(), {"content-type": kind})
            case {"kind": "refused", "status": int(status), "error": dict(error)}:
                self._send(status, json.dumps(wire.error(status, error)).encode(), _headers(script))
            case _:
                said = script.get("status")
                self._send(said if isinstance(said, int) else 200, json.dumps(script.get("body")).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        length = str(len(body))
        self._begin(status, {"content-type": "application/json", **(headers or {}), "content-length": length})
        self.wfile.write(body)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, events: Iterable[SseEvent], *, cut: bool = False) -> None:
        self._begin(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for event in events:
            data = sse(event) + _STILL_HERE
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _cut(self) -> None:
        self._begin(200, {"content-type": "application/json", "content-length": "1000"})
        self.wfile.write(b'{"id": "chatcmpl-cut", "choices": [')
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class has this name
        """Keep standard error for what goes wrong."""


def _beginning(wire: Wire, request: RecordedRequest) -> Iterator[SseEvent]:
    """Yield what a stream that goes wrong has said before."""
    said = WireReply(0, "It is late, I think.", None, {})
    return islice(wire.events(said, request.body), 5)


def _headers(script: ScriptedReply) -> dict[str, str]:
    headers = script.get("headers")
    return {name: str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Write no traceback for a client that hung up: tests make it do so."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve a script on a free loopback port until standard input ends, so as not to outlive the test process."""
    parser = argparse.ArgumentParser(prog="steptrail.testing.model_server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="a JSON list of replies")
    parser.add_argument("--typed", action="store_true", help="refuse what the SDKs' request types do not allow")
    given = parser.parse_args()
    script: Path = given.script
    service = _Service(_SCRIPT.validate_json(script.read_bytes()), typed=given.typed)
    handler = type("Handler", (_Handler,), {"service": service})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"READY http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
