"""Files of workflows lie in the store once and as they are, and go along where their runs go."""

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import FileUnreadable
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.python.archive import ArchiveFile, file_of, unarchived
from steptrail.messages import File, Image, Message
from steptrail.testing import ManualClock, ScriptedModel
from steptrail.workflow import Artifact, BuiltWorkflow, Envelope, NodeContext, RunOptions, Update, Workflow
from tests.conftest import ON_FILE_ONLY

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1_000
IMAGE = Image.from_bytes(PNG, name="a.png")
NOTE = File.from_bytes(b"tea", "text/plain", name="n.txt")


async def kept(seen: Envelope, context: NodeContext) -> Update:
    photo = await context.file(seen.input["photo"])
    message, artifact = Message.user("", NOTE), Artifact(id="n", file=NOTE)
    return Update([photo, NOTE], set={"large": "x" * 40_000}, messages=(message,), artifacts=(artifact,))


async def read(seen: Envelope, context: NodeContext) -> list[int]:
    return [len((await context.file(each)).data or b"") for each in seen.vars["kept"]]


FLOW: BuiltWorkflow = (
    Workflow("w", result="kept")
    .function("keep", kept, output="kept")
    .human("ask", prompt="Go on?", type="input", output="answer")
    .function("read", read, output="sizes")
    .chain("keep", "ask", "read")
    .build()
)
RESTS = RunOptions(longest_wait=0.0)


@ON_FILE_ONLY
@pytest.mark.acceptance("8.9-10")
async def test_bytes_are_stored_once_and_raw_and_a_run_goes_on_with_them_in_another_process(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(FLOW, {"photo": IMAGE}, session="f", vars={"too": [IMAGE]}, options=RESTS)
    async with Steptrail.open(store_url) as trail:
        await trail.flow("f").answer("ask", by="ana", data=NOTE)
        result = await trail.flow("f").resume(FLOW)
        assert result.envelope.vars["sizes"] == [len(PNG), 3], result
        assert [part.digest for part in result.files] == [IMAGE.digest, NOTE.digest]
        assert (await trail.flow("f").file(result.files[0])).data == PNG
        assert result.envelope.messages == (Message.user("", NOTE),)
        assert not (await examine(cast(RecorderEventStore, trail.store))).findings
    with sqlite3.connect(store_url.removeprefix("sqlite:///")) as connection:
        held: list[Any] = connection.execute(
            "SELECT body FROM blobs WHERE length(body) IN (3, ?)", [len(PNG)]
        ).fetchall()
        told = connection.execute("SELECT sum(length(state) + length(coalesce(content, ''))) FROM events").fetchone()
    assert sorted(body for (body,) in held) == sorted([PNG, b"tea"])
    assert told[0] < 60_000


async def test_a_fork_shares_them_and_an_archive_has_them_and_the_last_that_names_them_takes_them_along(
    store_url: str, tmp_path: Path
) -> None:
    clock, folder = ManualClock(), tmp_path / "old"
    async with Steptrail.open(store_url, clock=clock) as trail:
        await trail.run(FLOW, {"photo": IMAGE}, session="f", options=RESTS)
        fork = await trail.flow("f").fork(session="twin")
        await trail.flow("f").answer("ask", by="ana", data=None)
        await trail.flow("f").resume(FLOW)
        assert (await fork.file(IMAGE.digest)).data == PNG
        await fork.resume(FLOW, options=RESTS)
        await fork.answer("ask", by="ana", data=File.from_bytes(b"of the fork"))
        assert (await fork.resume(FLOW)).envelope.vars["sizes"] == [len(PNG), 3]
        with pytest.raises(FileUnreadable):
            await trail.flow("f").file(File.from_bytes(b"of the fork"))
        clock.advance(86_400)
        await trail.run(
            AgentBuilder("a").with_model(ScriptedModel(["ok"])).build(), Message.user("", IMAGE), session="s"
        )
        clock.advance(86_400)
        await trail.retain(older_than=timedelta(days=1.5), archive=folder, dry_run=False)
        assert [await trail.store.file(each.digest) for each in (IMAGE, NOTE)] == [PNG, None]
    async with Steptrail.open(f"sqlite:///{tmp_path / 'look.db'}") as look:
        await unarchived(look, [ArchiveFile.proved(file_of(folder, f"flow:{each}")) for each in ("f", "twin")])
        for name in ("f", "twin"):
            assert [(await look.flow(name).file(each.digest)).data for each in (IMAGE, NOTE)] == [PNG, b"tea"]
        assert not (await examine(cast(RecorderEventStore, look.store))).findings


async def test_files_of_streams_below_stay_with_each_that_names_them(store_url: str) -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["Three."])).build()
    inner = Workflow("inner").function("cut", lambda _: NOTE, output="out").build()
    flow = (
        Workflow("w")
        .agent("ask", agent, prompt="{{ input }}")
        .flow("below", inner, output="out")
        .chain("ask", "below")
        .build()
    )
    async with Steptrail.open(store_url) as trail:
        assert (await trail.run(flow, IMAGE, session="f")).files == (NOTE,)
        below = [row.stream for row in await trail.runs() if row.parent is not None]
        (session,) = [trail.session(each.removeprefix("agent:")) for each in below if each.startswith("agent:")]
        assert (await session.file(IMAGE.digest)).data == PNG
        (made,) = [each for each in below if each.startswith("flow:")]
        await trail.erase(made, by="ana", reason="asked")
        assert (await trail.flow("f").file(NOTE.digest)).data == b"tea"
        await trail.erase("flow:f", by="ana", reason="asked", cascade=True)
        assert [await trail.store.file(each.digest) for each in (IMAGE, NOTE)] == [None, None]
