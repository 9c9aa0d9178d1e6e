"""Webhook nodes: they ask a real server on loopback, and only the hosts that they name."""

import gzip
import json
import logging
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.domain.flow.events import NodeAttemptCompleted, NodeAttemptFailed, NodeRetryScheduled
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.storable import storable
from steptrail.runtime.flow.means import MOST_BYTES
from steptrail.workflow import FailureClass, FlowResult, RetryPolicy, Workflow
from tests.flow.kit import events_of, run_to_rest
from tests.harness.beside_the_loop import beside_the_loop
from tests.runner.kit import HandClock, trail_of

MARK = "hunter2"


class Server(ThreadingHTTPServer):
    """Answers with what it is told to, by path, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        server.asked.append((self.command, self.path, headers, body))
        if self.path.startswith("/never"):
            server.over.wait()
            return
        if self.path.startswith("/breaks"):
            self.connection.close()
            return
        status, given, content = server.answers[self.path.partition("?")[0]].pop(0)
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **given}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join()


async def ask(url: str, given: object = None, *, clock: HandClock | None = None, **settings: Any) -> FlowResult:
    """Run a workflow of one webhook, and check that its log holds no secret."""
    flow = Workflow("t", result="hook_output").webhook("hook", url, **settings).noop("end").chain("hook", "end").build()
    clock = clock or HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, given)
        await check(trail)
    return result


async def check(trail: Steptrail) -> None:
    for event in await events_of(trail):
        if isinstance(event, NodeAttemptFailed):
            assert MARK not in repr(event)


def failure_in(result: FlowResult) -> tuple[FailureClass, object]:
    assert result.status is ExecutionStatus.FAILED
    assert result.error is not None
    return result.error.failure, result.error.details.get("status")


async def test_a_request_is_made_from_templates_and_its_json_answer_is_the_output(server: Server) -> None:
    server.answers["/orders/7"] = [(201, {"content-type": "application/json; charset=utf-8"}, b'{"made": [1, true]}')]
    result = await ask(
        server.url + "/orders/{{ input.id }}",
        {"id": 7, "who": {"name": "Ana"}},
        body={"for": "{{ input.who }}", "text": "to {{ input.who.name }}"},
        headers={"X-Who": "{{ input.who.name }}", "Authorization": "Bearer t"},
    )
    assert result.output == {"status": 201, "body": {"made": [1, True]}}
    ((method, path, headers, body),) = server.asked
    assert (method, path) == ("POST", "/orders/7")
    assert json.loads(body) == {"for": {"name": "Ana"}, "text": "to Ana"}
    assert (headers["x-who"], headers["authorization"], headers["content-type"]) == (
        "Ana",
        "Bearer t",
        "application/json",
    )
    assert headers["idempotency-key"] == "f:1:hook:1"


async def test_a_text_is_sent_and_read_as_a_text(server: Server) -> None:
    server.answers["/t"] = [(200, {"content-type": "text/plain; charset=iso-8859-1"}, "schön".encode("latin-1"))]
    result = await ask(server.url + "/t", body="grüße", method="put", headers={"Content-Type": "text/x-mine"})
    assert result.output == {"status": 200, "body": "schön"}
    ((method, _, headers, body),) = server.asked
    assert (method, headers["content-type"], body.decode()) == ("PUT", "text/x-mine", "grüße")


@pytest.mark.parametrize(
    ("kind", "is_file"),
    [
        ("image/png", True),
        ("application/pdf", True),
        ("application/octet-stream", True),
        ("no type at all", True),
        ("application/pdf; charset=utf-8", False),
        ("image/svg+xml", False),
        ("application/x-www-form-urlencoded", False),
        ("application/yaml", False),
        ("application/x-ndjson", False),
        ("application/jsonl", False),
        ("", False),
    ],
)
async def test_a_body_that_is_no_text_is_a_file(server: Server, kind: str, is_file: bool) -> None:
    server.answers["/b"] = [(200, {"content-type": kind}, b"\x00%")]
    result = await ask(server.url + "/b", method="get")
    assert result.output["status"] == 200
    if is_file:
        (part,) = result.files
        assert (part.mime_type, part.size) == ("application/octet-stream" if kind.startswith("no ") else kind, 2)
        assert result.output["body"]["digest"] == part.digest
    else:
        assert (result.output["body"], result.files) == ("\x00%", ())


@pytest.mark.parametrize("charset", ["punycode", "PUNYCODE", "base64", "no such", "undefined", "utf\t8"])
async def test_what_is_no_character_set_of_a_text_is_taken_for_none(server: Server, charset: str) -> None:
    server.answers["/t"] = [(200, {"content-type": f"text/plain; charset={charset}"}, b"caf\xc3\xa9 a-9")]
    result = await ask(server.url + "/t", method="get")
    assert result.output == {"status": 200, "body": "caf\u00e9 a-9"}


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (301, FailureClass.TOOL),
        (404, FailureClass.TOOL),
        (408, FailureClass.UNAVAILABLE),
        (429, FailureClass.RATE_LIMIT),
        (500, FailureClass.UNAVAILABLE),
        (507, FailureClass.UNAVAILABLE),
    ],
)
async def test_the_status_decides_the_class_and_no_redirect_is_followed(
    server: Server, status: int, failure: FailureClass
) -> None:
    server.answers["/s"] = [(status, {"location": f"{server.url}/elsewhere?{MARK}"}, MARK.encode())]
    result = await ask(f"{server.url}/s?key={MARK}", headers={"x-key": MARK})
    assert failure_in(result) == (failure, status)
    assert len(server.asked) == 1


async def test_a_full_server_says_how_long_to_wait_and_is_asked_again_with_the_same_key(server: Server) -> None:
    server.answers["/busy"] = [(429, {"retry-after": "40"}, b""), (200, {}, b"well")]
    clock = HandClock()
    retry = RetryPolicy(max_attempts=2, backoff=1.0)
    flow = (
        Workflow("t", result="hook_output")
        .webhook("hook", server.url + "/busy", retry=retry, timeout=None)
        .noop("end")
        .chain("hook", "end")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        (wait,) = [event for event in await events_of(trail) if isinstance(event, NodeRetryScheduled)]
    assert (wait.retry_after, wait.delay_seconds) == (40.0, 40.0)
    assert result.output == {"status": 200, "body": "well"}
    assert {headers["idempotency-key"] for _, _, headers, _ in server.asked} == {"f:1:hook:1"}


async def test_a_wrong_request_is_not_sent_again(server: Server) -> None:
    server.answers["/no"] = [(400, {}, b""), (200, {}, b"")]
    result = await ask(server.url + "/no", retry=RetryPolicy(max_attempts=3, backoff=0.0))
    assert failure_in(result) == (FailureClass.TOOL, 400)
    assert len(server.asked) == 1


async def test_a_connection_that_fails_or_breaks_off_is_unavailable(server: Server) -> None:
    for url, effect, error in (
        (f"{server.url}/breaks?{MARK}", "idempotent", "builtins:ConnectionResetError"),
        (f"http://127.0.0.1:1/x?{MARK}", "unsafe", "builtins:ConnectionError"),
    ):
        result = await ask(url, effect=effect)
        assert failure_in(result) == (FailureClass.UNAVAILABLE, None)
        assert result.error is not None
        assert result.error.error is not None
        assert result.error.error.error_class == error


@pytest.mark.parametrize("path", ["breaks", "half"])
async def test_a_webhook_whose_answer_broke_off_may_have_been_heard_so_it_is_parked_and_not_sent_again(
    server: Server, path: str
) -> None:
    server.answers["/half"] = [(200, {"content-length": "9"}, b"{")] * 3
    retry = RetryPolicy(max_attempts=3, backoff=0.0, retry_on=(FailureClass.UNAVAILABLE,))
    result = await ask(f"{server.url}/{path}?{MARK}", body="pay", retry=retry)
    assert result.status is ExecutionStatus.WAITING
    assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]
    assert len(server.asked) == 1


@pytest.mark.parametrize("path", ["breaks", "half"])
async def test_a_webhook_that_may_be_sent_twice_is_sent_again_when_its_answer_broke_off(
    server: Server, path: str
) -> None:
    server.answers["/half"] = [(200, {"content-length": "9"}, b"{")] * 3
    retry = RetryPolicy(max_attempts=3, backoff=0.0)
    result = await ask(f"{server.url}/{path}", body="pay", retry=retry, effect="keyed")
    assert failure_in(result)[0] is FailureClass.UNAVAILABLE
    assert len({headers["idempotency-key"] for _, _, headers, _ in server.asked}) == 1
    assert len(server.asked) == 3


async def test_the_log_of_the_client_names_no_url_of_a_webhook_and_those_of_others(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    import httpx2

    caplog.set_level(logging.DEBUG)
    server.answers["/ours"] = [(200, {}, b"")]
    server.answers["/theirs"] = [(200, {}, b"")]
    await ask(f"{server.url}/ours?key={MARK}")
    async with httpx2.AsyncClient() as client:
        await client.get(f"{server.url}/theirs")
    assert MARK not in caplog.text
    (told,) = [record.getMessage() for record in caplog.records if record.name == "httpx2"]
    assert f"{server.url}/theirs" in told


async def test_no_answer_in_time_is_a_timeout(server: Server) -> None:
    assert failure_in(await ask(f"{server.url}/never?{MARK}", timeout=0.2, effect="idempotent")) == (
        FailureClass.TIMEOUT,
        None,
    )


async def test_a_webhook_without_an_answer_in_time_may_have_been_heard_so_it_is_parked(server: Server) -> None:
    result = await ask(f"{server.url}/never?{MARK}", timeout=0.2)
    assert result.status is ExecutionStatus.WAITING
    assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(server: Server) -> None:
    fits, longer = b"x" * MOST_BYTES, b"x" * (MOST_BYTES + 1)
    server.answers["/long"] = [(200, {}, fits), (200, {}, longer)]
    result = await ask(server.url + "/long")
    assert result.output == {"status": 200, "body": fits.decode()}
    assert failure_in(await ask(server.url + "/long")) == (FailureClass.VALIDATION, 200)


@pytest.mark.parametrize(
    "unreadable",
    [
        ({}, b"x" * (MOST_BYTES + 1)),
        ({"content-type": "application/json"}, b"{"),
        ({"content-encoding": "gzip"}, b"no"),
        ({"content-encoding": "gzip"}, gzip.compress(b"x" * (MOST_BYTES + 1))),
        ({"content-encoding": "gzip, gzip"}, gzip.compress(gzip.compress(b"x"))),
        ({"content-encoding": "br"}, b"x"),
    ],
)
async def test_a_success_that_cannot_be_read_is_not_sent_again_with_the_failures_of_the_other_side(
    server: Server, unreadable: tuple[dict[str, str], bytes]
) -> None:
    server.answers["/done"] = [(200, *unreadable)] * 3
    retry = RetryPolicy(max_attempts=3, backoff=0.0, retry_on=(FailureClass.TOOL, FailureClass.UNAVAILABLE))
    assert failure_in(await ask(server.url + "/done", body="pay", retry=retry))[0] is FailureClass.VALIDATION
    assert len(server.asked) == 1


@pytest.mark.parametrize("content", [b"{", b"NaN", b"[" * 100_000])
async def test_an_answer_that_is_not_the_json_it_says_is_a_failure(server: Server, content: bytes) -> None:
    server.answers["/odd"] = [(200, {"content-type": "application/problem+json"}, content)]
    assert failure_in(await ask(server.url + "/odd")) == (FailureClass.VALIDATION, 200)


async def test_others_have_the_event_loop_while_a_large_answer_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.runtime.flow.calls.port.storable", beside_the_loop(storable))
    rows = [{"number": number} for number in range(10_000)]
    server.answers["/rows"] = [(200, {"content-type": "application/json"}, json.dumps(rows).encode())]
    result = await ask(f"{server.url}/rows")
    assert result.status is ExecutionStatus.COMPLETED
    assert result.output == {"status": 200, "body": rows}


async def test_an_answer_without_a_body_is_a_success(server: Server) -> None:
    server.answers["/none"] = [(204, {"content-type": "application/json"}, b"")]
    assert (await ask(server.url + "/none", method="GET")).output == {"status": 204, "body": None}


@pytest.mark.parametrize(
    "given",
    [
        "http://elsewhere.invalid/",
        "http://127.0.0.1@elsewhere.invalid/",
        "http://hunter2:x@127.0.0.1/",
        "http://elsewhere.invalid\\@127.0.0.1/",
        "http://127.0.0.1.elsewhere.invalid/",
        "http://elsewhere.invalid/127.0.0.1",
        "http://elsewhere.invalid#@127.0.0.1/",
        "http://127.0.0.1:x/",
        "http://[::1/",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/\r\nx",
        "file://127.0.0.1/etc/passwd",
        "//127.0.0.1/",
        "",
    ],
)
async def test_only_the_hosts_that_the_node_names_are_asked(given: str) -> None:
    flow = Workflow("t").webhook("hook", "{{ input }}", hosts=("127.0.0.1",)).noop("end").chain("hook", "end").build()
    async with trail_of() as trail:
        result = await trail.run(flow, given, session="f")
        await check(trail)
    assert failure_in(result) == (FailureClass.CONFIG, None)
    assert result.error is not None
    assert result.error.attempt == 0


async def test_hosts_are_compared_without_regard_to_case(server: Server) -> None:
    server.answers["/h"] = [(200, {}, b"here")]
    url = f"HTTP://LOCALHOST:{server.server_port}/h"
    result = await ask("{{ input }}", url, hosts=("LocalHost",))
    assert result.output == {"status": 200, "body": "here"}


@pytest.mark.parametrize(
    "headers",
    [{"x-a": "{{ input }}"}, {"Host": "elsewhere.invalid"}, {"x a": "b"}, {"Content-Length": "1"}],
)
async def test_a_header_that_could_change_the_request_is_not_sent(server: Server, headers: dict[str, str]) -> None:
    result = await ask(server.url + "/x", f"a\r\nx-b: {MARK}", headers=headers)
    assert failure_in(result) == (FailureClass.CONFIG, None)
    assert result.error is not None
    assert result.error.attempt == 0
    assert server.asked == []


async def test_without_the_package_the_failure_names_the_extra(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Workflow("t").webhook("hook", server.url + "/x").build()  # by a process that has the package
    monkeypatch.setitem(sys.modules, "httpx2", None)
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert failure_in(result) == (FailureClass.CONFIG, None)
    assert result.error is not None
    assert "steptrail[flow]" in result.error.message


async def test_a_map_sends_one_request_for_each_item(server: Server) -> None:
    server.answers["/1"], server.answers["/2"] = [(200, {}, b"one")], [(200, {}, b"two")]
    url = server.url + "/{{ item }}"
    flow = Workflow("t").map("hooks", over="input", url=url, hosts=("127.0.0.1",), output="said").noop("end")
    async with trail_of() as trail:
        result = await trail.run(flow.chain("hooks", "end").build(), [1, 2], session="f")
        ends = [event for event in await events_of(trail) if isinstance(event, NodeAttemptCompleted)]
    assert result.envelope.vars["said"] == [{"status": 200, "body": "one"}, {"status": 200, "body": "two"}]
    assert [event.detail for event in ends] == [{"status": 200}] * 2
    assert [headers["idempotency-key"] for _, _, headers, _ in server.asked] == ["f:1:hooks:1:0", "f:1:hooks:1:1"]
