"""The service of `tests.web.served` as a process, and readers of its streams."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from steptrail import Steptrail
from steptrail.broadcasting import envelopes_of
from steptrail.errors import SessionNotFound
from tests.examples.running import ROOT, environment, until
from tests.harness.ready_python import KILL, ready_python

AS_ANA = {"x-user": "ana"}


@dataclass(frozen=True)
class Heard:
    """One Server-Sent Event, or a heartbeat: then it has no data."""

    id: str | None
    data: dict[str, Any] | None


def heard(lines: Iterator[str]) -> Iterator[Heard]:
    """Read Server-Sent Events as a browser does."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                data = json.loads(fields["data"])
                yield Heard(None, None) if is_heartbeat(data) else Heard(fields.get("id"), data)
            fields = {}
            continue
        name, _, value = line.partition(":")
        fields[name] = value.removeprefix(" ")


def is_heartbeat(body: dict[str, Any]) -> bool:
    if not body["event"].endswith(".heartbeat"):
        return False
    assert body["data"]["every_seconds"] > 0
    return True


@dataclass
class Served:
    """A running service, and a client of it."""

    store: str
    port: int
    log: Path
    process: "subprocess.Popen[str]" = field(init=False, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, headers=AS_ANA)

    def say(self, session: str, text: str = "Where is the tea?") -> None:
        assert httpx.post(f"{self.url}/say/{session}", json={"text": text}).status_code == 202

    def has(self, session: str) -> None:
        """Wait until a session is there."""
        until(lambda: httpx.get(f"{self.url}/agent/sessions/{session}/conversation", headers=AS_ANA).is_success)

    def go(self, pieces: int = -1) -> None:
        assert httpx.post(f"{self.url}/go", params={"pieces": pieces}).status_code == 200

    def socket_url(self, session: str, after: str = "") -> str:
        return f"ws://127.0.0.1:{self.port}/agent/sessions/{session}/events?after={after}"

    @contextmanager
    def stream(self, session: str, after: str = "") -> Generator[Iterator[Heard]]:
        headers = {"Last-Event-ID": after} if after else {}
        with (
            self.client as client,
            client.stream("GET", f"/agent/sessions/{session}/events", headers=headers) as answered,
        ):
            assert answered.status_code == 200
            assert answered.headers["content-type"].startswith("text/event-stream")
            yield heard(answered.iter_lines())

    def messages(self, session: str, count: int, after: str = "") -> list[Heard]:
        """Return the next messages, and see that nothing but heartbeats comes behind them."""
        with self.stream(session, after) as stream:
            found: list[Heard] = []
            assert next(stream).data is None  # the first thing is how often to expect a heartbeat
            for each in stream:
                if each.data is not None:
                    found.append(each)
                elif len(found) >= count:
                    return found
        raise AssertionError("the stream has ended")

    def start(self, *arguments: str) -> None:
        """Start the process, also again after it has ended."""
        command = [ready_python(), "-m", "tests.web.served", "--store", self.store, "--port", str(self.port)]
        with self.log.open("a") as written:
            self.process = subprocess.Popen(
                [*command, *arguments], cwd=ROOT, env=environment(), text=True, stdout=written, stderr=written
            )
        until(self._answers, self.process)

    def _answers(self) -> bool:
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", self.port)) == 0

    def ends_with(self, sent: signal.Signals) -> int:
        self.process.send_signal(sent)
        return self.process.wait(60)


def free_port() -> int:
    with socket.socket() as trying:
        trying.bind(("127.0.0.1", 0))
        port: int = trying.getsockname()[1]
        return port


@contextmanager
def serving(folder: Path, *arguments: str, store: str | None = None) -> Generator[Served]:
    """Run the service; whatever it wrote must be no traceback."""
    port = free_port()
    served = Served(store or f"sqlite:///{folder / 'runs.db'}", port, folder / f"server-{port}.log")
    served.start(*arguments)
    try:
        yield served
    finally:
        served.process.send_signal(KILL)
        served.process.wait()
        written = served.log.read_text()
        print(written)  # pytest shows it where the test fails
    assert "Traceback" not in written, written


def bodies_of(store: str, session: str) -> Sequence[tuple[str, dict[str, Any]]]:
    """Return id and body of every message of what is stored of a session."""
    with Steptrail.open_sync(store) as trail:
        return [(each.id, dict(each.body)) for each in envelopes_of(session, trail.session(session).history())]


def ended(store: str, session: str, executions: int = 1) -> Sequence[tuple[str, dict[str, Any]]]:
    """Wait until so many executions of a session have ended; return its messages."""
    with Steptrail.open_sync(store) as trail:
        while True:
            with suppress(SessionNotFound):
                state = trail.session(session).state()
                if not state.is_open and state.execution is not None and state.execution.ordinal == executions:
                    return bodies_of(store, session)
            time.sleep(0.02)
