"""A recorded session as a file: what is read back, and one clear line for what is none."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import orjson
import pytest
from msgspec import structs

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.agent.events import SessionStarted
from steptrail.domain.kernel.record import CommitHead, Recorded
from steptrail.errors import NotARecording
from steptrail.interfaces.python.recording import Recording
from steptrail.testing import ScriptedModel, normalise, replay
from tests.golden.streams import FOLDER, read

STORED = read(FOLDER / "agent-v1-approved.jsonl")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A recording in a file."""
    head = CommitHead(commit_id="c-1", actor='ana },"type":"x"', causation=None, segment=1)
    Recording("golden", [structs.replace(record, head=head) for record in STORED], ("card",)).save(
        tmp_path / "in" / "r.jsonl"
    )
    return tmp_path / "in" / "r.jsonl"


def test_what_is_saved_is_loaded_with_the_heads_of_commits(saved: Path) -> None:
    loaded = Recording.load(saved)
    assert (loaded.session, loaded.redacted) == ("golden", ("card",))
    assert [(r.version, r.at, r.event) for r in loaded.records] == [(r.version, r.at, r.event) for r in STORED]
    assert {record.head.actor for record in loaded.records if record.head} == {'ana },"type":"x"'}


async def test_a_fork_of_a_fork_is_loaded_as_it_was_saved_and_replayed(tmp_path: Path) -> None:
    agent = AgentBuilder("a").with_model(ScriptedModel(["One.", "Two.", "Three."])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "hi", session="s")
        session = trail.session("s")
        for name in ("fork", "twig"):
            session = await session.fork(session=name)
            await session.send(agent, "And?")
        recording = Recording("twig", await session.history())
    recording.save(tmp_path / "twig.jsonl")
    loaded = Recording.load(tmp_path / "twig.jsonl")
    assert loaded == recording
    assert normalise((await replay(agent, loaded)).events) == normalise(recording.events)


def test_the_header_says_who_wrote_it_and_what_is_not_in_it(saved: Path) -> None:
    header = orjson.loads(saved.read_bytes().splitlines()[0])
    assert (header["steptrail"], header["agent"], header["format"]) == (version("steptrail"), "golden", 1)
    assert header["notCaptured"]


async def test_a_fork_without_the_end_of_the_past_that_it_shares_is_refused(tmp_path: Path) -> None:
    path, agent = tmp_path / "fork.jsonl", AgentBuilder("a").with_model(ScriptedModel(["One."])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        shared = (await trail.run(agent, "hi", session="s")).state.version
        fork = await trail.session("s").fork(session="fork")
        Recording("fork", await fork.history()).save(path)
    header, *lines = path.read_bytes().splitlines()
    del lines[shared - 1]
    path.write_bytes(b"\n".join([changed(header, events=len(lines)), *lines]) + b"\n")
    why = f"it forks after event {shared}, where event {shared} belongs"
    with pytest.raises(NotARecording, match=f"line {shared + 1} of .* is out of order: {why}"):
        Recording.load(path)


def test_saving_again_replaces_the_file_and_leaves_nothing_beside_it(saved: Path) -> None:
    Recording("other", STORED).save(saved)
    assert Recording.load(saved).session == "other"
    assert list(saved.parent.iterdir()) == [saved]


def changed(header: bytes, **fields: object) -> bytes:
    return orjson.dumps({**orjson.loads(header), **fields})


def test_a_device_without_lines_is_no_session_and_is_not_read_for_ever() -> None:
    with pytest.raises(NotARecording, match=r"^/dev/zero is no session: its first line has 1,000,000 bytes or more$"):
        Recording.load("/dev/zero")


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "nothing in it": (lambda lines: [], "is empty"),
    "another file": (lambda lines: [b"# notes", *lines], "is no recorded session"),
    "other JSON": (lambda lines: [b"[1]", *lines[1:]], "is no recorded session"),
    "a later format": (
        lambda lines: [changed(lines[0], format=2, steptrail="9.0"), *lines[1:]],
        "has the format 2 of Steptrail 9.0",
    ),
    "an id that is none": (lambda lines: [changed(lines[0], session="a b"), *lines[1:]], "the header of .* is damaged"),
    "a torn end": (lambda lines: lines[:-1], "holds 33 events and says that there are 34"),
    "a torn line": (lambda lines: [*lines[:-1], lines[-1][:-9]], "line 35 of .* is no record"),
    "a value of another type": (
        lambda lines: [*lines[:1], lines[1].replace(b'"name":', b'"name":1,"name":'), *lines[2:]],
        "line 2 of .* is damaged",
    ),
    "a field of a later version": (
        lambda lines: [*lines[:1], lines[1].replace(b'"name":', b'"mood":1,"name":'), *lines[2:]],
        "line 2 of .* mood: There is no such field: a newer version of Steptrail wrote it",
    ),
    "two lines that were exchanged": (
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        "line 5 of .* is out of order: it holds event 5, where event 4 belongs",
    ),
    "a line twice and another one never": (
        lambda lines: [*lines[:5], lines[4], *lines[6:]],
        "line 6 of .* is out of order: it holds event 4, where event 5 belongs",
    ),
    "a line cut out, also of what the header counts": (
        lambda lines: [changed(lines[0], events=33), *lines[1:5], *lines[6:]],
        "line 6 of .* is out of order: it holds event 6, where event 5 belongs",
    ),
    "its beginning cut off, also of what the header counts": (
        lambda lines: [changed(lines[0], events=33), *lines[2:]],
        "line 2 of .* is out of order: it holds event 2, where event 1 belongs",
    ),
    "a run of a workflow": (
        lambda lines: [changed(lines[0], kind="steptrail.flow"), *lines[1:]],
        "holds a run of a workflow, which can be read and not replayed",
    ),
    "a later event": (
        lambda lines: [*lines[:1], lines[1].replace(b"session.started.v1", b"session.started.v9"), *lines[2:]],
        "line 2 of .* newer version",
    ),
    "a commit by a list": (
        lambda lines: [lines[0], lines[1].replace(b'"actor":"', b'"actor":[],"other":"'), *lines[2:]],
        "line 2 of .* is damaged: Expected `str`",
    ),
    "a commit of a segment that no store has": (
        lambda lines: [lines[0], lines[1].replace(b'"segment":1', b'"segment":1' + b"0" * 19), *lines[2:]],
        "line 2 of .* is damaged: Expected `int`",
    ),
    "a version that no store has": (
        lambda lines: [lines[0], lines[1].replace(b'"version":1', b'"version":1' + b"0" * 19), *lines[2:]],
        "line 2 of .* is no record",
    ),
    "a line that seems to begin a hundred thousand states": (
        lambda lines: [lines[0], b'{"version":1,"commit":{' + b'},"type":"x","state":{}' * 100_000, *lines[2:]],
        "line 2 of .* is no record",
    ),
}


@pytest.mark.parametrize(("damage", "why"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_file_that_is_no_recording_is_refused_with_the_reason(saved: Path, damage: Damage, why: str) -> None:
    saved.write_bytes(b"".join(line + b"\n" for line in damage(saved.read_bytes().splitlines())))
    with pytest.raises(NotARecording, match=why):
        Recording.load(saved)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARecording, match="cannot be read: No such file"):
        Recording.load(tmp_path / "none.jsonl")


def test_a_session_in_which_nothing_was_started_is_nothing_to_replay() -> None:
    with pytest.raises(NotARecording, match="there is nothing to replay"):
        Recording("empty", [Recorded(1, 0, SessionStarted(name="a"))])
