"""A receiver that does not take what is sent to it."""

from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.telemetry import Telemetry
from tests.harness.otlp_receiver import OtlpReceiver
from tests.runner.kit import agent_of
from tests.trail.receivers import receiver as receiver
from tests.unit.cli.command import Type
from tests.unit.cli.conftest import typed as typed


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        for number in range(5):
            trail.run(agent_of(["Hello."]).build(), "hi", session=f"s{number}")
    return url


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
