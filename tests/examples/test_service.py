"""The service as a real server: over HTTP, through a stream, a kill and a shutdown."""

import json
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Steptrail
from steptrail.events import ExecutionPaused, ToolExecutionCompleted
from tests.examples.running import command_of, environment, events, starts, until
from tests.harness.ready_python import KILL, ready_python

ORDER = "Order 5 packets of tea."
LARGE = "Order 50 packets of tea."
DONE = {"said": "It is done as you asked: 5 packets of tea are ordered.", "ordered": 5}


@dataclass(frozen=True)
class Told:
    """One Server-Sent Event."""

    event: str
    data: Any
    id: int | None


@dataclass(frozen=True)
class Service:
    """A server process and a client of it."""

    folder: Path
    process: "subprocess.Popen[str]"
    client: httpx.Client

    def post(self, path: str, expecting: int, body: object, **headers: str) -> dict[str, Any]:
        answered = self.client.post(path, json=body, headers=headers)
        assert answered.status_code == expecting, answered.text
        found: dict[str, Any] = answered.json()
        return found

    def get(self, path: str, expecting: int = 200) -> dict[str, Any]:
        answered = self.client.get(path)
        assert answered.status_code == expecting, answered.text
        found: dict[str, Any] = answered.json()
        return found

    def start(self, text: str, key: str = "key") -> str:
        run: str = self.post("/runs", 202, {"input": text}, **{"Idempotency-Key": key})["id"]
        return run

    def reaches(self, run: str, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.get(f"/runs/{run}")
            return found if found["status"] == status else None

        found = until(look, self.process)
        assert found is not None
        return found

    @contextmanager
    def stream(self, run: str, last: int = 0) -> Generator[Iterator[Told]]:
        with self.client.stream("GET", f"/runs/{run}/stream", headers={"Last-Event-ID": str(last)}) as answered:
            assert answered.headers["content-type"].startswith("text/event-stream")
            yield told(answered.iter_lines())

    def orders(self) -> list[int]:
        return [json.loads(path.read_text())["packets"] for path in (self.folder / "service" / "orders").glob("*.json")]

    @property
    def store(self) -> Path:
        return self.folder / "service" / "runs.db"

    def ends_with(self, sent: signal.Signals) -> None:
        self.process.send_signal(sent)
        assert self.process.wait() == -sent


def told(lines: Iterator[str]) -> Iterator[Told]:
    for first in lines:
        block = [first, *takewhile(bool, lines)]
        fields = dict(line.split(": ", 1) for line in block if line and not line.startswith(":"))
        if fields:
            yield Told(fields["event"], json.loads(fields["data"]), int(fields["id"]) if "id" in fields else None)


@contextmanager
def serving(folder: Path, *arguments: str) -> Generator[Service]:
    log = folder / "server.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [ready_python(), *command_of("service", "--port", "0", *arguments)[1:]],
            cwd=folder,
            env=environment(),
            text=True,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        found = until(lambda: re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text()), process)
        assert found is not None
        assert log.read_text().startswith("model: a script, not a model")
        with httpx.Client(base_url=found[1], timeout=60) as client:
            yield Service(folder, process, client)
    finally:
        process.send_signal(KILL)
        process.wait()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as running:
        yield running


def ids(seen: list[Told]) -> list[int]:
    return [each.id for each in seen if each.id is not None]


def test_a_request_that_comes_twice_is_one_run(service: Service) -> None:
    run = service.start(ORDER)
    assert service.start(ORDER) == run
    found = service.reaches(run, "completed")
    assert service.start(ORDER) == run
    assert found["output"] == DONE
    assert (
        found["why"]["verdict"] == "completed, stopped after 2 steps (completed): no criterion asked for another step"
    )
    assert service.orders() == [5]
    (order,) = (service.folder / "service" / "orders").glob("*.json")
    assert json.loads(order.read_text())["for"] == "somebody"
    assert len(starts(events(service.store, run), "order")) == 1

    refused = service.post("/runs", 422, {"input": LARGE}, **{"Idempotency-Key": "key"})
    assert "another input" in refused["detail"]
    assert service.start(ORDER, key="another") != run


def test_a_reader_that_is_there_sees_text_as_it_comes_and_events_as_they_are_stored(service: Service) -> None:
    run = service.start(LARGE)
    with service.stream(run) as stream:
        seen = [next(stream)]
        while seen[-1].event != "wait.started.v1":
            seen.append(next(stream))
        (approval,) = service.get(f"/runs/{run}")["approvals"]
        service.post(f"/runs/{run}/approvals/{approval}", 202, {"answer": "approve", "by": "ana"})
        seen += stream
    assert seen[-1].event == "outcome"
    assert (seen[-1].data["status"], seen[-1].data["stopReason"]) == ("completed", "completed")
    stored = events(service.store, run)
    assert ids(seen) == [record.version for record in stored]
    assert [each.event for each in seen if each.id] == [record.event.TYPE for record in stored]

    names = [each.event for each in seen]
    first, last = names.index("delta"), len(names) - 1 - names[::-1].index("delta")
    assert names[first - 1] == "inference.started.v1"
    assert set(names[first : last + 1]) == {"delta", "partial"}
    assert names[last + 1] in {"partial", "inference.completed.v1"}
    assert last > first  # text, joined when nobody was there to fetch it, and its end
    said = "".join(each.data["text"] for each in seen if each.event == "delta")
    assert json.loads(said) == seen[-1].data["output"]
    assert [each.data["partial"] for each in seen if each.event == "partial"][-1] == seen[-1].data["output"]
    (progress,) = [each.data["message"] for each in seen if each.event == "progress"]
    assert progress == "the supplier has it"


def test_a_reader_that_comes_late_or_again_gets_what_is_stored(service: Service) -> None:
    run = service.start(ORDER)
    version = service.reaches(run, "completed")["version"]
    with service.stream(run) as stream:
        late = list(stream)
    with service.stream(run, last=7) as stream:
        again = list(stream)
    with service.stream(run, last=version) as stream:
        knows_it_all = list(stream)
    assert ids(late) == list(range(1, version + 1))
    assert [each.event for each in late if each.id is None] == ["outcome"]
    assert again == late[7:]
    assert knows_it_all == late[-1:]


def test_a_message_to_a_finished_run_begins_again_and_the_stream_goes_on_from_there(service: Service) -> None:
    run = service.start("How much tea is left?")
    version = service.reaches(run, "completed")["version"]
    service.post(f"/runs/{run}/messages", 202, {"text": ORDER}, **{"Idempotency-Key": "message"})
    with service.stream(run, last=version) as stream:
        seen = list(stream)
    assert seen[0].event == "execution.started.v1"
    assert seen[-1].data["output"] == DONE
    assert all(later == earlier + 1 for earlier, later in pairwise([version, *ids(seen)]))
    service.post(f"/runs/{run}/messages", 202, {"text": ORDER}, **{"Idempotency-Key": "message"})
    assert service.orders() == [5]
    # A reader from the beginning sees both answers, and one outcome.
    with service.stream(run) as stream:
        assert [each.event for each in stream].count("outcome") == 1


def test_a_denied_order_is_not_placed_and_one_with_edited_arguments_is(service: Service) -> None:
    denied, edited = service.start(LARGE, key="denied"), service.start(LARGE, key="edited")
    for run, answer in (
        (denied, {"answer": "deny", "by": "ana", "reason": "there is no room"}),
        (edited, {"answer": "approve", "by": "ana", "arguments": {"item": "tea", "packets": 20}}),
    ):
        (approval,) = service.reaches(run, "waiting")["approvals"]
        service.post(f"/runs/{run}/approvals/{approval}", 202, answer)
        refused = service.post(f"/runs/{run}/approvals/{approval}", 409, answer)
        assert "an approval is answered once" in refused["detail"]
    assert "ana denied it: there is no room" in service.reaches(denied, "completed")["output"]["said"]
    service.reaches(edited, "completed")
    assert service.orders() == [20]


def test_a_run_that_waits_is_stopped_for_good(service: Service) -> None:
    run = service.start(LARGE)
    service.reaches(run, "waiting")
    assert service.post(f"/runs/{run}/stop", 200, {"by": "ana"})["stopReason"] == "user_requested"
    assert service.get(f"/runs/{run}")["why"]["resolvedBy"] == "UserStop"
    refused = service.post(f"/runs/{run}/stop", 409, {"by": "ana"})
    assert refused["error"] == "CommandRejected"


def test_what_another_process_stores_comes_through_the_stream(service: Service) -> None:
    run = service.start(LARGE)
    service.reaches(run, "waiting")
    with service.stream(run) as stream:
        next(stream)
        with Steptrail.open_sync(f"sqlite:///{service.store}") as trail:
            trail.session(run).stop(by="another process")
        seen = list(stream)
    assert seen[-1].data["stopReason"] == "user_requested"


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [("/runs/nobody", 404, "SessionNotFound"), ("/runs/no%20id", 400, "ConfigurationError")],
)
def test_what_is_not_there_or_cannot_be_is_said_clearly(service: Service, path: str, status: int, error: str) -> None:
    assert service.get(path, status)["error"] == error
    assert service.get(f"{path}/stream", status)["error"] == error
    assert service.post(f"{path}/messages", status, {"text": "Hello?"})["error"] == error
    assert service.post(f"{path}/stop", status, {"by": "ana"})["error"] == error
    service.post("/runs", 422, {})


def test_what_cannot_be_stored_and_a_place_that_there_cannot_be_are_refused(service: Service) -> None:
    run = service.start(ORDER)
    headers = {"Content-Type": "application/json"}
    unfit = service.client.post("/runs", content=b'{"input": "\\ud800"}', headers=headers)
    assert (unfit.status_code, unfit.json()["error"]) == (422, "NotStorable")
    for last in ("-1", "x", "9" * 19, "9" * 30):
        answered = service.client.get(f"/runs/{run}/stream", headers={"Last-Event-ID": last})
        assert answered.status_code == 422, last


@pytest.mark.parametrize("body", [b'{"input": NaN}', b"[1e999]", b'{"input": {"secret": "s3cret"}}', b"{"])
def test_a_body_that_is_none_is_refused_without_being_repeated(service: Service, body: bytes) -> None:
    refused = service.client.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["error"]) == (422, "RequestValidationError")
    assert "body" in refused.json()["detail"]
    assert "s3cret" not in refused.text


def test_nobody_answers_and_nobody_stops(service: Service) -> None:
    run = service.start(LARGE)
    (approval,) = service.reaches(run, "waiting")["approvals"]
    assert "by" in service.post(f"/runs/{run}/approvals/{approval}", 422, {"answer": "approve", "by": ""})["detail"]
    assert "by" in service.post(f"/runs/{run}/stop", 422, {"by": ""})["detail"]
    assert service.get(f"/runs/{run}")["approvals"] == [approval]


def test_a_service_that_is_killed_goes_on_and_orders_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--slow", "120") as killed:
        run = killed.start(ORDER)
        until(lambda: killed.orders() == [5], killed.process)
        with killed.stream(run) as stream:
            seen = [next(stream) for _ in range(6)]
        killed.process.send_signal(KILL)
        assert killed.process.wait() == -signal.SIGKILL
    with serving(tmp_path, "--slow", "120") as restarted:
        with restarted.stream(run, last=6) as stream:
            seen += stream
        assert restarted.start(ORDER) == run
        assert seen[-1].data["output"] == DONE
        assert restarted.orders() == [5]
    stored = events(restarted.store, run)
    assert ids(seen) == [record.version for record in stored]
    assert starts(stored, "order") == [(f"{run}:1:1:0", 1), (f"{run}:1:1:0", 2)]


def test_a_service_that_is_asked_to_end_pauses_its_runs_and_the_next_one_takes_them_up(tmp_path: Path) -> None:
    with serving(tmp_path, "--slow", "120", "--grace", "0.1") as ending:
        run, other = ending.start(ORDER, key="one"), ending.start(LARGE, key="two")
        until(lambda: ending.orders() == [5], ending.process)
        ending.reaches(other, "waiting")
        with Steptrail.open_sync(f"sqlite:///{ending.store}") as trail:
            trail.session(other).pause(by="ops", reason="we look into it")
        with ending.stream(run) as stream:
            next(stream)
            ending.ends_with(signal.SIGTERM)
            seen = list(stream)
        assert "outcome" not in [each.event for each in seen]
        assert "ERROR" not in (tmp_path / "server.log").read_text()
    assert isinstance(events(ending.store, run)[-1].event, ExecutionPaused)

    with serving(tmp_path) as restarted:
        assert restarted.reaches(run, "completed")["output"] == DONE
        assert restarted.get(f"/runs/{other}")["status"] == "paused"
        assert restarted.orders() == [5]


def test_a_shutdown_lets_what_is_in_flight_end_within_its_grace(tmp_path: Path) -> None:
    with serving(tmp_path, "--slow", "6", "--grace", "60") as ending:
        run = ending.start(ORDER)
        until(lambda: ending.orders() == [5], ending.process)
        ending.ends_with(signal.SIGTERM)
    log = events(ending.store, run)
    assert [record.event.result for record in log if isinstance(record.event, ToolExecutionCompleted)] == [
        "5 packets of tea are ordered"
    ]
    assert isinstance(log[-1].event, ExecutionPaused)
    assert log[-1].event.by == "caller"
