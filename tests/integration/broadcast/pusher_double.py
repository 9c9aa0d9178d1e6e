"""A server that takes events as the Pusher protocol sends them, checks their signatures, and keeps what it took."""

import hashlib
import hmac
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

SECRET = "s3cret"  # noqa: S105 - of a server that exists for a moment


@dataclass
class PusherDouble:
    """What the server has taken, and how it answers: with `answers` one after another, and then 200.

    With `always_200` it says no as Soketi does: with status 200, and what it means in the body. It takes `seconds` to
    answer. It sends with each answer the `headers`, and says `said` where it says no.
    A "head" or a "body" of an answer that begins while it is `dripping` does not end: a blank comes now and then.
    """

    port: int = 0
    bodies: list[bytes] = field(default_factory=list[bytes])
    answers: list[int] = field(default_factory=list[int])
    always_200: bool = False
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    said: bytes | None = None
    dripping: str | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for body in self.bodies for event in orjson.loads(body)["batch"]]

    @property
    def told(self) -> list[dict[str, Any]]:
        """What clients would be given: data is JSON inside of JSON."""
        return [orjson.loads(event["data"]) for event in self.events]


@contextmanager
def pusher_double() -> Generator[PusherDouble, None, None]:
    double = PusherDouble()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            time.sleep(double.seconds)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            signature = query.pop("auth_signature")
            text = "\n".join(["POST", url.path, "&".join(f"{key}={value}" for key, value in sorted(query.items()))])
            expected = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
            is_signed = signature == expected and query["body_md5"] == hashlib.md5(body).hexdigest()  # noqa: S324
            status = (double.answers.pop(0) if double.answers else 200) if is_signed else 401
            if status == 200:
                double.bodies.append(body)
            no = double.said or orjson.dumps({"error": "no", "code": status})
            self.answer(200 if double.always_200 else status, b"{}" if status == 200 else no)

        def do_GET(self) -> None:
            self.answer(200, b"{}")

        def answer(self, status: int, said: bytes) -> None:
            slow, self.close_connection = double.dripping, double.dripping is not None
            with suppress(OSError):  # the client has gone
                if slow == "head":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow:")
                    self.drip()
                self.send_response(status)
                for name, value in double.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(10_000 if slow else len(said)))
                self.end_headers()
                if slow == "body":
                    self.drip()
                self.wfile.write(said)

        def drip(self) -> None:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.02)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    double.port = server.server_address[1]
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
