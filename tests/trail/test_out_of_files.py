"""A process that cannot open one more file is told so in one typed error, and goes on when it can."""

import asyncio
import gc
import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.broadcasting import Broadcaster
from steptrail.domain.kernel import by_prefix
from steptrail.domain.kernel.by_prefix import ByPrefix
from steptrail.errors import StoreFull, StoreUnavailable
from steptrail.testing import ManualClock
from tests.harness.scarce import files_left, largest_file
from tests.integration.broadcast.transports import KeepingTransport
from tests.trail.test_out_of_threads import use
from tests.trail.workers import PATIENCE, until
from tests.views.kit import desk

WHY = r"has as many files open as it may \(`ulimit -n`\)"


@pytest.mark.parametrize("left", [0, 1, 2])
async def test_a_store_that_cannot_be_opened_says_that_it_is_for_lack_of_descriptors(tmp_path: Path, left: int) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(desk("Found."), "hi", session="a")
        # The other store keeps the log, which a first connection would need no descriptor for.
        with files_left(left), pytest.raises(StoreUnavailable, match=WHY):
            async with Steptrail.open(url) as other:
                await other.run(desk("Found."), "hi", session="b")
    async with Steptrail.open(url) as trail:
        assert (await trail.run(desk("Found."), "hi", session="b")).output == "Found."


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_blocking_trail_says_it_too_and_leaves_nothing_open(tmp_path: Path, left: int) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with files_left(left), pytest.raises(StoreUnavailable, match=WHY):
        Steptrail.open_sync(url)
    gc.collect()
    with Steptrail.open_sync(url) as trail:
        assert trail.runs() == []


async def test_leases_and_read_models_say_it(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Found."), "hi", session="a")
        views = trail.views
        with files_left(0), pytest.raises(StoreUnavailable, match=f"the leases in .*{WHY}"):
            await trail.run(desk("Found."), "hi", session="b")
        with files_left(0), pytest.raises(StoreUnavailable, match=WHY):
            await views.stats()
        assert (await views.stats()).total.runs == 1
        with files_left(0), pytest.raises(StoreUnavailable, match=WHY):
            await views.verify()
        assert not await views.verify()


async def test_a_broadcaster_that_stands_by_waits_until_a_file_can_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.interfaces.python.broadcaster._TRY_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("steptrail.runtime.kernel.follower._LOOK_SECONDS", 0.01)
    url, told = f"sqlite:///{tmp_path / 'runs.db'}", KeepingTransport()
    async with (
        Steptrail.open(url) as trail,
        Steptrail.open(url) as other,
        Broadcaster(other, KeepingTransport()) as first,
    ):
        await trail.run(desk("Found."), "hi", session="a")
        await first.caught_up()
        async with Broadcaster(trail, told) as standing_by:
            with files_left(0):
                await until(lambda: "waits for the store: the leases" in caplog.text)
            await first.__aexit__(None, None, None)
            await trail.run(desk("Found."), "hi", session="b")
            async with asyncio.timeout(PATIENCE):
                await standing_by.caught_up()
    assert {each.session_id for each in told.durable} == {"b"}


@pytest.mark.slow("asks a server")
async def test_whichever_file_a_trail_on_a_server_cannot_open_the_same_works_when_it_can(postgres_url: str) -> None:
    refusals = 0
    for left in range(30):
        async with asyncio.timeout(PATIENCE), Steptrail.open(postgres_url, live=True) as trail:
            with files_left(left):
                try:
                    await use(trail, f"s{left}")
                    is_enough = True
                except StoreUnavailable as error:
                    assert re.search(WHY, str(error))  # noqa: PT017 - it may also do with so many
                    is_enough = False
                    refusals += 1
            await use(trail, f"again-{left}")
            assert {"steptrail-listener", "steptrail-live"} <= {each.name for each in threading.enumerate()}
        if is_enough:
            break
    assert refusals > 1


async def test_an_archive_without_room_is_a_full_store_and_not_a_wrong_folder(tmp_path: Path) -> None:
    clock, archive = ManualClock(), tmp_path / "archive"
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}", clock=clock) as trail:
        await trail.run(desk("Found."), "hi", session="a")
        clock.advance(2 * 86_400)
        with largest_file(400), pytest.raises(StoreFull, match=r"the file of a in the archive .* 400 bytes at most"):
            await trail.retain(older_than=timedelta(days=1), archive=archive, dry_run=False)
        assert not list(archive.iterdir())
        assert (await trail.session("a").state()).output == "Found."
        report = await trail.retain(older_than=timedelta(days=1), archive=archive, dry_run=False)
        assert [each.stream for each in report.erased] == ["agent:a"]


def test_code_that_cannot_be_read_when_it_is_first_needed_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> object:
        raise OSError(24, "Too many open files", "kind.py")

    kinds = ByPrefix[object]({"agent:": "steptrail.runtime.agent.kind:KIND"})
    with monkeypatch.context() as patched:
        patched.setattr(by_prefix, "import_module", refused)
        with pytest.raises(StoreUnavailable, match=r"the code of .*kind cannot be read: Too many open files"):
            kinds.of("agent:a")
    assert kinds.of("agent:a") is not None
