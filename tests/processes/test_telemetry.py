"""A receiver in a process of its own gets every span, although the export is killed on the way."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from steptrail import Steptrail
from steptrail.testing import call
from steptrail.tools import SubagentTool
from tests.harness import otlp_receiver
from tests.harness.postgres_server import PostgresServer
from tests.harness.spans import spans_of
from tests.runner.families import asks, boss, look, named
from tests.runner.kit import agent_of

_SESSIONS = 40


@pytest.fixture
def receiver() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, otlp_receiver.__file__], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        yield process.stdout.readline().strip()
        process.terminate()


def received(url: str) -> list[dict[str, Any]]:
    with urlopen(url, timeout=60) as answer:  # noqa: S310 - our own receiver
        spans: list[dict[str, Any]] = json.load(answer)
    return spans


def followed(url: str, store: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
    words = ["export", "--otlp", url, "--follow", "--store", store]
    env = {**os.environ, "OTEL_SERVICE_NAME": "x"}
    return subprocess.Popen([sys.executable, "-m", "steptrail", *words], env=env, stderr=stderr)


class Runs:
    """The runs of a store, and the spans of them that a receiver is to be told."""

    def __init__(self, store: str, receiver: str) -> None:
        self._store, self._receiver = store, receiver
        self._spans = set[str]()

    def run(self, session: str) -> None:
        """Run a session to its end."""
        with Steptrail.open_sync(self._store) as trail:
            trail.run(agent_of(["Hello."]).build(), "hi", session=session)
            history = trail.session(session).history()
            self._spans.update(span.span_id for span in spans_of(f"agent:{session}", history))

    def arrive(self, following: "subprocess.Popen[bytes]") -> None:
        """Wait until the receiver has the spans of all runs, and no other, from an export that goes on."""
        while {span["span_id"] for span in received(self._receiver)} != self._spans:
            assert following.poll() is None
            time.sleep(0.05)


@pytest.mark.acceptance("8.8-3")
def test_an_export_that_was_killed_has_sent_every_span_in_the_end(receiver: str, store_url: str) -> None:
    # The lease of the first one ends by itself on a server, and the second one waits for that.
    store = f"{store_url}?lease_seconds=10" if store_url.startswith("postgresql") else store_url
    spans: dict[str, str | None] = {}
    with Steptrail.open_sync(store) as trail:
        for number in range(_SESSIONS):
            child = named("reader", call("look"), "42").with_tools(look).build()
            agent = boss([SubagentTool(child)], asks("reader", "go"), "Done.").build()
            trail.run(agent, "go", session=f"s{number}")
        for row in trail.runs(limit=10 * _SESSIONS):
            for span in spans_of(row.stream, trail.handle(row.stream).history()):
                spans[span.span_id] = span.parent_id
    first = followed(receiver, store)
    while not received(receiver):
        time.sleep(0.002)
    first.kill()
    first.wait()
    second = followed(receiver, store)
    while {span["span_id"] for span in received(receiver)} != spans.keys():
        assert second.poll() is None
        time.sleep(0.05)
    second.send_signal(signal.SIGTERM)
    assert second.wait() == 0
    told = received(receiver)
    assert {span["span_id"]: span["parent_id"] for span in told} == spans
    assert {span["service"] for span in told} == {"x"}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="another process is given a limit")
def test_an_export_that_follows_goes_on_when_its_store_has_room_again(receiver: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    runs = Runs(store, receiver)
    runs.run("before")
    with followed(receiver, store, stderr=subprocess.PIPE) as following:
        runs.arrive(following)
        before = resource.prlimit(following.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        runs.run("meanwhile")
        assert following.stderr is not None
        assert b"a file may have 1 bytes at most" in following.stderr.readline()
        resource.prlimit(following.pid, resource.RLIMIT_FSIZE, before)
        runs.run("after")
        runs.arrive(following)
        following.send_signal(signal.SIGTERM)
        assert following.wait() == 0


def test_an_export_that_follows_goes_on_when_the_server_of_the_store_is_back(receiver: str) -> None:
    with PostgresServer() as server:
        store = server.url(server.create_database())
        runs = Runs(store, receiver)
        runs.run("before")
        with followed(receiver, store, stderr=subprocess.PIPE) as following:
            runs.arrive(following)
            server.stop()
            assert following.stderr is not None
            # It was lost in the middle of a statement, or cannot be reached with the next one.
            assert store.encode() in following.stderr.readline()
            server.start()
            runs.run("after")
            runs.arrive(following)
            following.send_signal(signal.SIGTERM)
            assert following.wait() == 0


def test_an_export_that_follows_goes_on_when_the_store_is_no_longer_locked(receiver: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = f"sqlite:///{path}"
    runs = Runs(store, receiver)
    runs.run("before")
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        with followed(receiver, store, stderr=subprocess.PIPE) as following:
            assert following.stderr is not None
            assert b"is locked by another process" in following.stderr.readline()
            shell.execute("ROLLBACK")
            runs.run("after")
            runs.arrive(following)
            following.send_signal(signal.SIGTERM)
            assert following.wait() == 0
