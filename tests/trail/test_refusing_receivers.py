"""A receiver that refuses spans: what it takes is sent, what it never takes holds up nothing, and each is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from steptrail import Steptrail
from steptrail.telemetry import Telemetry
from tests.harness.otlp_receiver import OtlpReceiver
from tests.runner.kit import agent_of
from tests.trail.receivers import receiver as receiver
from tests.unit.cli.command import Type
from tests.unit.cli.conftest import typed as typed

Spans = list[dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        for number in range(5):
            trail.run(agent_of(["Hello."]).build(), "hi", session=f"s{number}")
    return url


def session(span: dict[str, Any]) -> str:
    return str(span["attributes"]["steptrail.session.id"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_spans_that_were_sent_elsewhere_were_not_taken(
    status: int, store: str, receiver: OtlpReceiver, typed: Type, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda _: status
    run = typed("export", "--otlp", receiver.url, "--store", store)
    assert (run.code, run.out) == (7, "")
    assert f"answered {status}" in caplog.text
    assert "https" in caplog.text


def test_metrics_that_were_sent_elsewhere_were_not_taken(
    receiver: OtlpReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda spans: 200 if spans else 301
    telemetry = Telemetry(receiver.url, metrics=True)
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}", telemetry=telemetry) as trail:
        trail.run(agent_of(["Hello."]).build(), "hi")
    assert receiver.spans
    assert "Failed to export metrics" in caplog.text
    assert "answered 301" in caplog.text


@pytest.mark.parametrize("status", [400, 413])
def test_a_request_that_is_too_large_is_sent_in_parts(
    status: int, store: str, receiver: OtlpReceiver, typed: Type
) -> None:
    receiver.answer = lambda spans: 200 if len(spans) <= 4 else status
    run = typed("export", "--otlp", receiver.url, "--store", store)
    assert (run.code, run.out) == (0, "sent 15 spans\n")
    assert len({span["span_id"] for span in receiver.spans}) == len(receiver.spans) == 15


@pytest.mark.parametrize("status", [400, 413])
def test_a_span_that_is_refused_alone_is_left_out_and_said(
    status: int, store: str, receiver: OtlpReceiver, typed: Type, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = refusing("s2", status)
    run = typed("export", "--otlp", receiver.url, "--store", store)
    assert (run.code, run.out) == (0, "sent 12 spans\n")
    assert {session(span) for span in receiver.spans} == {"s0", "s1", "s3", "s4"}
    said = [each.getMessage() for each in caplog.records if each.name == "steptrail.telemetry"]
    assert len(said) == 3
    assert all("s2" in each and str(status) in each for each in said)


def test_a_receiver_that_takes_nothing_is_away(store: str, receiver: OtlpReceiver, typed: Type) -> None:
    receiver.answer = lambda _: 400
    run = typed("export", "--otlp", receiver.url, "--store", store)
    assert (run.code, run.out) == (7, "")


def test_spans_that_a_receiver_says_it_refused_of_a_request_were_not_sent(
    store: str, receiver: OtlpReceiver, typed: Type, caplog: pytest.LogCaptureFixture
) -> None:
    refused = ExportTracePartialSuccess(rejected_spans=4, error_message="too old\x1b[2J")
    receiver.body = ExportTraceServiceResponse(partial_success=refused).SerializeToString()
    run = typed("export", "--otlp", receiver.url, "--store", store)
    assert (run.code, run.out) == (0, "sent 11 spans\n")
    (said,) = [each.getMessage() for each in caplog.records if each.name == "steptrail.telemetry"]
    assert "refused 4 spans of a request" in said
    assert r"too old\x1b" in said


@pytest.mark.parametrize("body", [b"<html>Welcome", b'{"partialSuccess": {}}', b"\xff" * 9])
def test_an_answer_that_says_nothing_is_passed_over(
    body: bytes, store: str, receiver: OtlpReceiver, typed: Type
) -> None:
    receiver.body = body
    assert typed("export", "--otlp", receiver.url, "--store", store).out == "sent 15 spans\n"


def refusing(name: str, status: int) -> Callable[[Spans], int]:
    return lambda spans: status if any(session(span) == name for span in spans) else 200
