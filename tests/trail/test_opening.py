"""What a service gives to `Steptrail.open` wrongly is one clear error, and nothing is left open or made."""

import asyncio
import gc
import logging
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from steptrail import Steptrail
from steptrail.errors import ConfigurationError, StoreUnavailable
from steptrail.interfaces.python.sync import SyncSteptrail
from steptrail.telemetry import Telemetry
from steptrail.testing import ManualClock


def told(**settings: Any) -> Telemetry:
    return Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), **settings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"store": None}, "NoneType is no store, because"),
        ({"store": b"sqlite:///runs.db"}, "bytes is no store, .*: give an address such as 'sqlite:///runs.db'"),
        ({"store": 5, "engine": "procrastinate"}, "int is no store"),
        ({"busy_timeout": "5"}, "busy_timeout is a number of seconds from 0, not '5'"),
        ({"busy_timeout": None}, "not None"),
        ({"busy_timeout": 1e10}, "busy_timeout is a number of seconds from 0, a century at most, not 10000000000.0"),
        ({"create": "no"}, "`create` is True or False, not .?no"),
        ({"read_only": "false"}, "`read_only` is True or False, not .?false"),
        ({"live": "yes"}, "`live` is True or False, not .?yes"),
        ({"clock": 5}, "`clock` is an object with the methods `utc` and `monotonic`, not int"),
        ({"clock": ManualClock}, "`utc` and `monotonic`, not"),
        ({"telemetry": "http://x"}, r"`telemetry` is a `Telemetry\(...\)` of steptrail.telemetry, not str"),
        ({"projections": 5}, "`projections` are a list of projections, not int"),
        ({"engine": 5}, "`engine` is 'procrastinate', or an object with the methods"),
        ({"engine": object()}, "`steptrail.fleet.Engine`, not object"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_opened(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": f"sqlite:///{tmp_path / 'runs.db'}", **given}
    with pytest.raises(ConfigurationError, match=said):
        Steptrail.open(**settings)
    assert list(tmp_path.iterdir()) == []


async def test_a_telemetry_of_another_trail_leaves_no_store_open(tmp_path: Path) -> None:
    telemetry = told()
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry):
        with pytest.raises(ConfigurationError, match="serves one trail"):
            Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}", telemetry=telemetry)
    assert list(tmp_path.iterdir()) == []


def test_a_trail_that_is_made_by_hand_says_how_one_is_opened() -> None:
    with pytest.raises(ConfigurationError, match=r"`Steptrail.open\('sqlite:///runs.db'\)`"):
        Steptrail("sqlite:///runs.db")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_a_metric_reader_that_fails_at_its_end_is_logged_and_the_store_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(InMemoryMetricReader):
        def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
            raise ConnectionError("the receiver is away")

    async with Steptrail.open("sqlite:///:memory:", telemetry=told(metrics=Broken())) as trail:
        pass
    assert [each.name for each in caplog.records if each.levelno == logging.ERROR] == ["steptrail.telemetry"]
    with pytest.raises(Exception, match="is closed"):
        await trail.runs()


async def test_whoever_cannot_be_closed_before_the_store_does_not_keep_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def fails(_: object) -> None:
        raise asyncio.CancelledError

    class Last(SimpleSpanProcessor):
        def shutdown(self) -> None:
            closed.append("telemetry")

    monkeypatch.setattr("steptrail.runtime.kernel.waking.Waking.aclose", fails)
    trail = await Steptrail.open(
        "sqlite:///:memory:", telemetry=Telemetry(processor=Last(InMemorySpanExporter()))
    ).__aenter__()
    await trail.runs()
    closing = asyncio.create_task(trail.close())
    await asyncio.wait({closing})
    assert closing.cancelled()
    assert closed == ["telemetry"]
    with pytest.raises(StoreUnavailable, match="is closed"):
        await trail.runs()


def test_a_blocking_trail_is_closed_once_by_several_threads_and_all_wait_for_the_end(tmp_path: Path) -> None:
    before, together = set(threading.enumerate()), threading.Barrier(4)
    for _ in range(5):
        trail = Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}")
        trail.runs()

        def close(trail: SyncSteptrail = trail) -> list[threading.Thread]:
            together.wait(60)
            trail.close()
            return [each for each in threading.enumerate() if each not in before and each.name.startswith("steptrail")]

        with ThreadPoolExecutor(4) as closers:
            assert [each.result() for each in [closers.submit(close) for _ in range(4)]] == [[]] * 4
        trail.close()


async def test_a_trail_that_is_dropped_unclosed_is_warned_of_and_one_that_was_closed_is_not(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        async with Steptrail.open(url) as trail:
            await trail.runs()
        del trail
        gc.collect()
        assert heard == []
        dropped = Steptrail.open(url)
        store = dropped.store
        del dropped
        gc.collect()
    await store.close()
    assert [each.category for each in heard] == [ResourceWarning]
    assert "await trail.close()" in str(heard[0].message)


@pytest.fixture
def run_by_trio(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Have trio say that it runs this, while the list holds something."""
    says_so: list[bool] = []

    def current_trio_token() -> None:
        if not says_so:
            raise RuntimeError("must be called from async context")

    loaded = ModuleType("trio.lowlevel")
    vars(loaded)["current_trio_token"] = current_trio_token
    monkeypatch.setitem(sys.modules, "trio.lowlevel", loaded)
    return says_so


def test_inside_trio_a_trail_is_refused_when_it_is_opened(run_by_trio: list[bool]) -> None:
    Steptrail.open_sync("sqlite:///:memory:").close()
    run_by_trio.append(True)
    for opened in (Steptrail.open, Steptrail.open_sync):
        with pytest.raises(ConfigurationError, match=r"run by trio.*asyncio\.run"):
            opened("sqlite:///:memory:")


async def test_a_loop_of_asyncio_that_trio_runs_will_do(run_by_trio: list[bool]) -> None:
    run_by_trio.append(True)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert not (await trail.runs())
