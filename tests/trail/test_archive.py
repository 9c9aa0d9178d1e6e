"""Sessions that ended long ago go into an archive that proves what it holds, and are erased after that."""

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from steptrail import Steptrail
from steptrail.domain.kernel.erasure import Erasure
from steptrail.errors import ConfigurationError, NotARecording, SessionErased
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python import archive
from steptrail.interfaces.python.archive import ArchiveFile, file_of, unarchived
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing import ManualClock
from steptrail.workflow import Workflow
from tests.runner.kit import Crash, agent_of
from tests.trail.test_tree import family

DAY = timedelta(days=1)
STREAMS = ("agent:large", "agent:twin", "agent:..said@x", "flow:sum")


async def filled(trail: Steptrail) -> dict[str, Any]:
    """Run what ends, with children, a fork and large bodies; return the events of each stream."""
    await trail.run(family(), "go", session="tree")
    await trail.run(agent_of(["x" * 70_000]).build(), "y" * 70_000, session="large")
    fork = await trail.session("large").fork(session="twin")
    await fork.send(agent_of(["", "again"]).build(), "and?")
    await trail.run(agent_of(["Done."]).build(), "hi", session="..said@x")
    await trail.run(Workflow("sum").noop("one").noop("two").build(), {}, session="sum")
    streams = [row.stream for row in await trail.runs()]
    return {stream: (await trail.store.read(stream)).records for stream in streams}


@pytest.mark.acceptance("9.1-6")
async def test_what_was_archived_is_erased_proved_and_whole_in_another_store(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, folder, other = ManualClock(), tmp_path / "2026", f"sqlite:///{tmp_path / 'look.db'}"
    async with Steptrail.open(store_url, clock=clock) as trail:
        was, listed = await filled(trail), await trail.runs()
        clock.advance(2 * 86_400)
        assert len((await trail.retain(older_than=DAY, archive=folder)).erased) == len(was)
        assert not folder.exists()
        done = await trail.retain(older_than=DAY, archive=folder, dry_run=False)
        assert {each.stream for each in done.erased} == was.keys() > set(STREAMS)
        assert {path.parent for path in folder.rglob("*")} == {folder}
        files = [str(file_of(folder, stream)) for stream in was]
        assert sorted(map(str, folder.iterdir())) == sorted(files)
        with pytest.raises(SessionErased):
            await trail.session("large").state()
    async with Steptrail.open(other) as look:
        for _ in range(2):  # as after a crash
            await unarchived(look, [ArchiveFile.proved(Path(path)) for path in files])
        assert {stream: (await look.store.read(stream)).records for stream in was} == was
        assert {row.stream: row for row in await look.runs()} == {row.stream: row for row in listed}
        assert (await look.session("twin").state()).output == "again"


def test_the_command_line_archives_proves_and_takes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, other, folder = f"sqlite:///{tmp_path / 'runs.db'}", f"sqlite:///{tmp_path / 'look.db'}", tmp_path / "old"
    with Steptrail.open_sync(here, clock=ManualClock(datetime(2020, 1, 1, tzinfo=UTC))) as trail:
        trail.run(agent_of(["Done."]).build(), "hi", session="s1")
    archive = ["retain", "--older-than", "1d", "--archive", str(folder), "--yes", "--store", here]
    assert main(archive) == 0
    file = str(folder / "agent-s1.jsonl")
    capsys.readouterr()
    assert main(["unarchive", file, "--check", "--json", "--store", here]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["is"]) == ("s1", "as erased")
    assert main(["unarchive", file, "--store", here]) == 2
    assert "was erased from this store by retention" in capsys.readouterr().err
    assert main(["unarchive", file, "--store", other]) == 0
    assert main(["doctor", "--store", other]) == 0
    assert main(["show", "s1", "--store", other]) == 0
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'third.db'}") as trail:
        trail.run(agent_of(["Another."]).build(), "hi", session="s1")
    assert main(["unarchive", file, "--store", f"sqlite:///{tmp_path / 'third.db'}"]) == 2
    assert "another session s1 is in this store already" in capsys.readouterr().err


async def archive_of(trail: Steptrail, clock: ManualClock, folder: Path) -> dict[str, Path]:
    """Archive what ended, and return the file of each stream."""
    streams = [row.stream for row in await trail.runs()]
    clock.advance(2 * 86_400)
    await trail.retain(older_than=DAY, archive=folder, dry_run=False)
    return {stream: file_of(folder, stream) for stream in streams}


async def forked(folder: Path) -> dict[str, Path]:
    clock = ManualClock()
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="source")
        fork = await trail.session("source").fork(session="fork")
        await fork.send(agent_of(["", "again"]).build(), "and?")
        await trail.run(agent_of(["Done."]).build(), "hi", session="other")
        return await archive_of(trail, clock, folder)


async def test_a_process_that_dies_between_two_files_has_stored_and_listed_the_first(tmp_path: Path) -> None:
    files = await forked(tmp_path)

    def dying() -> Iterator[ArchiveFile]:
        yield ArchiveFile.proved(files["agent:other"])
        raise Crash

    async with Steptrail.open("sqlite:///:memory:") as look:
        with pytest.raises(Crash):
            await unarchived(look, dying())
        assert [row.stream for row in await look.runs()] == ["agent:other"]


async def test_a_fork_may_come_before_its_source_and_without_it_is_told_when_all_others_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, other = await forked(tmp_path / "old"), f"sqlite:///{tmp_path / 'look.db'}"
    order = [str(files[f"agent:{name}"]) for name in ("fork", "other", "source")]
    assert await asyncio.to_thread(main, ["unarchive", *order[:2], "--store", other]) == 2
    assert "session fork is a fork of source, which is in none of the files" in capsys.readouterr().err
    async with Steptrail.open(other) as look:
        assert [row.stream for row in await look.runs()] == ["agent:other"]
    assert await asyncio.to_thread(main, ["unarchive", *order, "--store", other]) == 0
    async with Steptrail.open(other) as look:
        assert {row.stream for row in await look.runs()} == files.keys()
        assert (await look.session("fork").state()).output == "again"


async def test_a_fork_of_a_fork_without_the_first_source_is_no_damage_and_that_one_is_named(tmp_path: Path) -> None:
    clock, steps = ManualClock(), agent_of(["Done.", "again", "and again"]).build()
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(steps, "hi", session="source")
        fork = await trail.session("source").fork(session="fork")
        await fork.send(steps, "and?")
        await (await fork.fork(session="twig")).send(steps, "and?")
        files = await archive_of(trail, clock, tmp_path)
    source, fork_file, twig = (files[f"agent:{name}"] for name in ("source", "fork", "twig"))
    async with Steptrail.open("sqlite:///:memory:") as look:
        for given in ((twig, fork_file), (twig,)):  # the second time the fork is in the store already
            with pytest.raises(ConfigurationError, match="session fork is a fork of source, which is in none"):
                await unarchived(look, map(ArchiveFile.proved, given))
            assert await look.runs() == []
        await unarchived(look, map(ArchiveFile.proved, (twig, source, fork_file)))
        assert {row.stream for row in await look.runs()} == files.keys()
        assert (await look.session("twig").state()).output == "and again"


async def test_no_file_is_stored_where_one_of_them_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, other = await forked(tmp_path / "old"), tmp_path / "look.db"
    files["agent:other"].write_bytes(files["agent:other"].read_bytes().replace(b"Done.", b"Gone."))
    command = ["unarchive", *map(str, sorted(files.values(), reverse=True)), "--store", f"sqlite:///{other}"]
    assert await asyncio.to_thread(main, command) == 2
    assert "is not what was archived" in capsys.readouterr().err
    assert not other.exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells there which file a number is of")
async def test_all_folders_of_a_new_archive_are_on_the_disk_before_anything_is_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, folder, sync = ManualClock(), tmp_path / "archive" / "2026", os.fsync
    synced, synced_by_then = list[Path](), list[Path]()

    def syncing(number: int) -> None:
        sync(number)
        synced.append(Path(f"/proc/self/fd/{number}").readlink())

    monkeypatch.setattr(os, "fsync", syncing)
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        await trail.retain(
            older_than=DAY, archive=folder, dry_run=False, on_erased=lambda _: synced_by_then.extend(synced)
        )
    assert {tmp_path.resolve(), folder.parent.resolve(), folder.resolve()} <= {*synced_by_then}


class Dying:
    """A store whose process dies where it is to erase, before or after it has."""

    def __init__(self, store: EventStore, *, after: bool) -> None:
        self._store, self._after = store, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def erase(self, *streams: Any, **said: Any) -> list[Erasure]:
        if self._after:
            await self._store.erase(*streams, **said)
        raise Crash


@pytest.mark.parametrize("after", [False, True])
async def test_a_process_that_dies_between_the_file_and_the_erasure_loses_nothing(
    store_url: str, tmp_path: Path, *, after: bool
) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        records = (await trail.store.read("agent:s1")).records
    clock.advance(2 * 86_400)
    dying = cast("EventStore", Dying(open_store(store_url), after=after))
    async with Steptrail(Environment(store=dying, clock=clock)) as trail:
        with pytest.raises(Crash):
            await trail.retain(older_than=DAY, archive=tmp_path, dry_run=False)
    async with Steptrail.open(store_url, clock=clock) as trail:
        assert (await trail.erasure("s1") is None) is not after
        again = await trail.retain(older_than=DAY, archive=tmp_path, dry_run=False)
        assert len(again.erased) == (0 if after else 1)
        erasure = await trail.erasure("s1")
    (file,) = tmp_path.glob("*.jsonl")
    archived = ArchiveFile.proved(file)
    assert erasure is not None
    assert (archived.digest.hex(), archived.events) == (erasure.digest, len(records))


async def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        await trail.retain(older_than=DAY, archive=tmp_path, dry_run=False)
    (file,) = tmp_path.glob("*.jsonl")
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for changed, why in (
        (whole.replace(b"Done.", b"Gone."), "is not what was archived"),
        (b"".join(lines[:-1]), "and says that there are"),
        (b"".join([*lines[:3], *lines[4:]]), "is not what was archived|and says that there are"),
        (whole[:-20], "is no record"),
        (b"", "is empty"),
        (b"{}\n", "is no archived session"),
        (lines[0], "holds no events"),
        (whole.replace(b'"digest":"', b'"digest":"zz'), "is damaged"),
        (b"\0" * 99, "is no archived session"),
        (
            whole.replace(b'"stream":"agent:s1"', b'"stream":"agent:../s1"'),
            "the header of .* is damaged: .* session id",
        ),
        (whole.replace(b'"stream":"agent:s1"', b'"stream":"s1"'), "the header of .* is damaged: 's1' is no session"),
    ):
        file.write_bytes(changed)
        with pytest.raises(NotARecording, match=why):
            ArchiveFile.proved(file)
    with pytest.raises(NotARecording, match="cannot be read"):
        ArchiveFile.proved(tmp_path / "nowhere")


async def test_a_file_is_proved_that_can_be_read_once_such_as_one_that_is_unpacked_meanwhile(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        events = await trail.store.version("agent:s1")
        file = (await archive_of(trail, clock, tmp_path))["agent:s1"]
    reader, writer = os.pipe()
    os.write(writer, file.read_bytes())
    os.close(writer)
    assert ArchiveFile.proved(Path(f"/dev/fd/{reader}")).events == events
    os.close(reader)


async def test_nothing_is_erased_where_the_archive_cannot_be_written(tmp_path: Path) -> None:
    clock, folder = ManualClock(), tmp_path / "taken"
    folder.write_text("a file")
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        with pytest.raises(ConfigurationError, match="cannot be written, s1 is kept"):
            await trail.retain(older_than=DAY, archive=folder, dry_run=False)
        assert (await trail.session("s1").state()).output == "Done."


async def test_a_file_of_another_session_is_never_replaced_and_one_of_less_of_this_is(tmp_path: Path) -> None:
    clock = ManualClock()
    dying = cast("EventStore", Dying(open_store("sqlite:///:memory:"), after=False))
    async with Steptrail(Environment(store=dying, clock=clock)) as trail:
        for text in ("Done.", "More."):
            await trail.session("s1").send(agent_of(["Done.", "More."]).build(), text)
            clock.advance(2 * 86_400)
            with pytest.raises(Crash):
                await trail.retain(older_than=DAY, archive=tmp_path, dry_run=False)
    (file,) = tmp_path.glob("*.jsonl")
    whole = ArchiveFile.proved(file)
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        await trail.run(agent_of(["Other."]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        report = await trail.retain(older_than=DAY, archive=tmp_path, dry_run=False)
        assert report.erased == ()
        assert "holds another session, or one of another store" in report.kept[0][1]
    assert ArchiveFile.proved(file) == whole


async def test_of_two_stores_that_archive_the_same_id_at_one_moment_one_keeps_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, both_write, write = ManualClock(), asyncio.Barrier(2), archive._write_and_prove  # pyright: ignore[reportPrivateUsage]

    async def beside_the_other(*args: Any) -> None:
        await both_write.wait()
        await write(*args)
        await both_write.wait()

    monkeypatch.setattr(archive, "_write_and_prove", beside_the_other)
    async with (
        Steptrail.open("sqlite:///:memory:", clock=clock) as one,
        Steptrail.open("sqlite:///:memory:", clock=clock) as two,
    ):
        said = {one: "One.", two: "Two."}
        for trail, text in said.items():
            await trail.run(agent_of([text]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        retained = [trail.retain(older_than=DAY, archive=tmp_path, dry_run=False) for trail in said]
        erased = [trail for trail, done in zip(said, await asyncio.gather(*retained), strict=True) if done.erased]
        (kept,) = {one, two} - {*erased}
        assert (await kept.session("s1").state()).output == said[kept]
    (file,) = tmp_path.iterdir()
    assert file.read_text().count(said[erased[0]])
    assert not file.read_text().count(said[kept])
