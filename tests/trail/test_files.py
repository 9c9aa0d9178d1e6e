"""Files of a conversation lie in the store once and as they are, beside the events, and go along where it goes on."""

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, HookType, Steptrail, ToolEffect, tool
from steptrail.domain.agent.snapshot import SNAPSHOTS, lines_of
from steptrail.domain.files import files_in, reference_to
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.errors import (
    CommandRejected,
    ConfigurationError,
    ErrorPolicy,
    FileUnreadable,
    NotARecording,
    StoreAway,
)
from steptrail.hooks import CallableHook
from steptrail.infrastructure.store.core.blobs import LIMIT
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python.archive import ArchiveFile, file_of, unarchived
from steptrail.messages import File, Image, Message
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ManualClock, ScriptedModel, call
from steptrail.testing.scripted_model import calls
from steptrail.tools import ToolReply
from tests.conftest import ON_FILE_ONLY
from tests.processes.agents.interposed import Interposed

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1_000
IMAGE = Image.from_bytes(PNG, name="a.png")
NOTE = File.from_bytes(b"tea", "text/plain", name="n.txt")


class Looking(ScriptedModel):
    """Keeps the bytes of all files that it is shown, call by call."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(list(answers))
        self.seen: list[list[bytes]] = []

    async def infer(self, request: ModelRequest) -> ModelReply:
        parts = [part for _, part in files_in(tuple(request.messages))]
        self.seen.append([await request.read(part.digest) for part in parts])
        return await super().infer(request)


def rows(store_url: str, statement: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(store_url.removeprefix("sqlite:///")) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.acceptance("8.9-2")
async def test_a_file_is_shown_again_in_another_process_and_answered_once(store_url: str) -> None:
    said, model = Message.user("What?", IMAGE, NOTE), Looking("A cat.", "No.", "Still.")
    agent = AgentBuilder("clerk").with_model(model).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, said, session="s")
    async with Steptrail.open(store_url) as trail:
        result = await trail.run(agent, said, session="s")
        assert (result.output, result.stored) == ("A cat.", True)
        session = trail.session("s")
        await session.send(agent, Message.user("", NOTE))
        assert model.seen == [[PNG, b"tea"], [PNG, b"tea", b"tea"]]
        assert (await session.state()).messages[0] == said
        fork = await session.fork(session="twin")
        await fork.send(agent, "And now?")
        assert model.seen[-1] == model.seen[1]
        for each in (session, fork):
            assert await each.file(IMAGE.digest) == IMAGE
            assert (await each.file(IMAGE.digest)).data == PNG


async def test_an_open_run_with_a_file_goes_on_with_the_same_message_and_no_other(store_url: str) -> None:
    said, agent = Message.user("What?", IMAGE), AgentBuilder("clerk").with_model(Looking("A cat.")).build()
    async with Steptrail.open(store_url) as trail:
        await trail.start(agent, said, session="s")
    async with Steptrail.open(store_url) as trail:
        with pytest.raises(CommandRejected, match="another input"):
            await trail.run(agent, Message.user("What?", NOTE), session="s")
        assert (await trail.run(agent, said, session="s")).output == "A cat."


async def test_a_session_opens_no_file_that_it_does_not_name(store_url: str) -> None:
    agent = AgentBuilder("clerk").with_model(Looking("A cat.", "None.")).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, Message.user("What?", IMAGE), session="mine")
        await trail.run(agent, "What?", session="yours")
        with pytest.raises(FileUnreadable, match="no message of session 'yours' names it"):
            await trail.session("yours").file(IMAGE.digest)
        with pytest.raises(ConfigurationError, match="named without its bytes"):
            await trail.session("yours").send(agent, Message.user("", reference_to(IMAGE)))


async def test_other_bytes_under_the_digest_of_a_file_take_its_place_for_nobody(store_url: str) -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["A cat.", "A dog."])).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, Message.user("What?", IMAGE), session="mine")
        await trail.run(agent, Message.user("What?", File.of(IMAGE, b"smaller")), session="yours")
        assert (await trail.session("mine").file(IMAGE.digest)).data == PNG


@ON_FILE_ONLY
@pytest.mark.acceptance("8.9-1")
async def test_bytes_are_stored_once_and_raw_and_neither_in_events_nor_in_snapshots(store_url: str) -> None:
    images = [Image.from_bytes(PNG[:60_000] + bytes([n])) for n in range(76)]
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["ok"] * 160)).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, "hi", session="s")
        for place in range(0, 76, 4):
            await trail.session("s").send(agent, Message.user("look", *images[place : place + 4], *images[:4]))
        assert sum(map(len, lines_of(await trail.session("s").state()))) < 200_000
    ((held, count),) = rows(store_url, "SELECT sum(length(body)), count(*) FROM blobs")
    assert (held, count) == (76 * 60_001, 76)
    assert rows(store_url, "SELECT sum(length(state) + length(content)) < 1000000 FROM events") == [(1,)]


async def test_a_hook_adds_a_file_beside_a_text_that_is_large_too(store_url: str) -> None:
    def shown(state: HookState) -> HookState:
        return state.with_messages(Message.user("x" * LIMIT, NOTE)) if len(state.messages) == 1 else state

    model = Looking("Go on.", "Done.")
    agent = AgentBuilder("clerk").with_model(model).with_hook(HookType.EXECUTION_START, CallableHook(shown)).build()
    async with Steptrail.open(store_url) as trail:
        result = await trail.run(agent, "hi", session="s")
        assert model.seen == [[b"tea"]]
        assert result.state.messages[1] == Message.user("x" * LIMIT, NOTE)
        assert (await trail.session("s").state()).messages == result.state.messages


@ON_FILE_ONLY
@pytest.mark.parametrize("body", [b"x", None])
async def test_a_damaged_file_fails_the_call_and_is_named_by_the_doctor(store_url: str, body: bytes | None) -> None:
    model = Looking("A cat.", "No.")
    agent = AgentBuilder("clerk").with_model(model).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, Message.user("What?", IMAGE), session="s")
    change = "DELETE FROM blobs" if body is None else "UPDATE blobs SET body = x'78'"
    rows(store_url, change)
    async with Steptrail.open(store_url) as trail:
        result = await trail.session("s").send(agent, "again?")
        assert IMAGE.digest in str(await trail.session("s").why())
        assert result.output is None
        findings = (await examine(cast(RecorderEventStore, trail.store))).findings
        assert any(IMAGE.digest in finding.what and finding.is_damage for finding in findings)
        # The same bytes, said once more, are the repair.
        await trail.run(agent, Message.user("", IMAGE), session="t")
        assert not (await examine(cast(RecorderEventStore, trail.store))).findings


async def test_a_run_goes_on_once_a_store_is_back_that_was_away_while_its_file_was_read() -> None:
    class Away(Interposed):
        is_away = True

        async def file(self, digest: str) -> bytes | None:
            if self.is_away:
                raise StoreAway("the server of the store is away")
            return await super().file(digest)

    store, model = Away(), Looking("A cat.")
    agent = AgentBuilder("clerk").with_model(model).build()
    async with Steptrail(Environment(store=store)) as trail:
        with pytest.raises(StoreAway):
            await trail.run(agent, Message.user("What?", IMAGE), session="s")
        store.is_away = False
        assert (await trail.run(agent, Message.user("What?", IMAGE), session="s")).output == "A cat."


async def test_files_go_into_an_archive_and_come_back_and_go_with_the_last_session_that_names_them(
    store_url: str, tmp_path: Path
) -> None:
    clock, folder = ManualClock(), tmp_path / "old"
    agent = AgentBuilder("clerk").with_model(Looking("A cat.", "No.", "Yes.")).build()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await trail.run(agent, Message.user("What?", IMAGE, NOTE), session="s")
        await trail.session("s").send(agent, Message.user("And?", IMAGE))
        clock.advance(86_400)
        await trail.run(agent, Message.user("What?", IMAGE), session="t")
        clock.advance(86_400)
        await trail.retain(older_than=timedelta(days=1.5), archive=folder, dry_run=False)
        assert [await trail.store.file(each.digest) for each in (IMAGE, NOTE)] == [PNG, None]
        await trail.erase("t", by="ana", reason="asked")
        assert await trail.store.file(IMAGE.digest) is None
    file = file_of(folder, "agent:s")
    async with Steptrail.open(f"sqlite:///{tmp_path / 'look.db'}") as look:
        for _ in range(2):
            await unarchived(look, [ArchiveFile.proved(file)])
        assert [(await look.session("s").file(each.digest)).data for each in (IMAGE, NOTE)] == [PNG, b"tea"]
        assert not (await examine(cast(RecorderEventStore, look.store))).findings
    lines = file.read_bytes().splitlines(keepends=True)
    for damaged, why in (
        (lines[:2] + lines[3:], f"names the file {NOTE.digest} and does not hold it"),
        ([*lines[:2], b'{"file":"*"}\n', *lines[3:]], "line 3 of .* is damaged"),
        ([*lines[:2], b'{"file":"dGVh' + b'eHh4"}\n', *lines[3:]], f"names the file {NOTE.digest}"),
    ):
        file.write_bytes(b"".join(damaged))
        with pytest.raises(NotARecording, match=why):
            ArchiveFile.proved(file)


@tool(effect=ToolEffect.READ)
def look(at: str) -> object:
    """Return what a camera shows."""
    return {"image": IMAGE, "reply": ToolReply({"cups": 3}, IMAGE, NOTE), "list": [IMAGE, NOTE]}[at]


@pytest.mark.acceptance("8.9-4")
async def test_files_of_tools_are_stored_once_and_shown_in_this_process_and_the_next(store_url: str) -> None:
    wanted = calls(("look", {"at": "image"}), ("look", {"at": "reply"}), ("look", {"at": "list"}))
    model = Looking(wanted, "Three.", "Still three.")
    agent = AgentBuilder("clerk").with_model(model).with_tools(look).build()
    async with Steptrail.open(store_url) as trail:
        result = await trail.run(agent, "How many?", session="s")
    seen = [PNG, PNG, b"tea", PNG, b"tea"]
    assert model.seen == [[], seen]
    first, second, third = result.state.steps[0].tool_executions
    assert (first.result, first.files) == (IMAGE.placeholder, (IMAGE,))
    assert (second.result, second.files) == ({"cups": 3}, (IMAGE, NOTE))
    assert (third.result, third.files) == ([IMAGE.placeholder, NOTE.placeholder], (IMAGE, NOTE))
    async with Steptrail.open(store_url) as trail:
        session = trail.session("s")
        state = await session.state()
        assert (state.messages, state.steps) == (result.state.messages, result.state.steps)
        assert SNAPSHOTS.load(SNAPSHOTS.dump(state)).steps == state.steps
        await session.send(agent, "And now?")
        assert model.seen[-1] == seen
        assert (await session.file(NOTE.digest)).data == b"tea"
        assert await cast(RecorderEventStore, trail.store).verify("agent:s") is None


@ON_FILE_ONLY
async def test_the_command_line_says_what_was_shown(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    agent = (
        AgentBuilder("clerk").with_model(ScriptedModel([call("look", at="image"), "A cat."])).with_tools(look).build()
    )
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, Message.user("", IMAGE, NOTE), session="s")
    assert await asyncio.to_thread(main, ["show", "s", "--store", store_url]) == 0
    said = capsys.readouterr().out
    assert f"user      {IMAGE.placeholder} {NOTE.placeholder}" in said


async def test_a_tool_that_returns_a_file_where_none_can_be_has_failed(store_url: str) -> None:
    @tool
    def wrong() -> object:
        return ToolReply(3, "a.png")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    @tool
    def hidden() -> object:
        return {"picture": IMAGE}

    @tool
    def bare() -> object:
        return Image(digest=IMAGE.digest, mime_type="image/png", size=3)

    agent = AgentBuilder("clerk").with_model(Looking(calls(("wrong", {}), ("hidden", {}), ("bare", {})), "Hm."))
    agent.with_tools(wrong, hidden, bare).with_error_policy(ErrorPolicy.retry_all(3))
    async with Steptrail.open(store_url) as trail:
        result = await trail.run(agent.build(), "go", session="s")
    said = [each.error.message for each in result.state.steps[0].tool_executions if each.error is not None]
    assert said[0].startswith("a ToolReply holds files behind its value, with their bytes, not 'a.png'")
    assert said[2].startswith("a ToolReply holds files behind its value, with their bytes, not Image(")
    assert "Image" in said[1]
