"""Files as they are given: made of bytes, with a type and a name that can be trusted, and refused where they cannot."""

import copy
import mimetypes
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steptrail import AgentBuilder
from steptrail.domain.agent.commands import Send, Start
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.files import files_in, reference_to, with_files
from steptrail.domain.kernel.record import Recorded
from steptrail.errors import ConfigurationError
from steptrail.messages import File, FilePart, Image, Message, MessageRole, TextPart
from steptrail.testing import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\n-"
IMAGE = Image.from_bytes(PNG, name="a.png")
AGENT = AgentBuilder("clerk").with_model(ScriptedModel([]))


@pytest.mark.parametrize(
    ("data", "said", "name", "known"),
    [
        (PNG, "text/html", None, "image/png"),
        (b"\xff\xd8\xff\xe0", None, None, "image/jpeg"),
        (b"GIF89a", None, None, "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", None, None, "image/webp"),
        (b"%PDF-1.4", "text/plain", "a.txt", "application/pdf"),
        (b"a", " Text/CSV; charset=utf-8", "a.txt", "text/csv"),
        (b"a", None, "a.txt", "text/plain"),
        (b"a", None, "a.yaml", "application/yaml"),
        (b"a", None, "a.YML", "application/yaml"),
        (b"\x1f\x8b", None, "a.csv.gz", "application/octet-stream"),
        (b"a", None, "the/place:b.csv", "text/csv"),
        (b"a", None, None, "application/octet-stream"),
    ],
)
def test_the_type_is_that_of_the_bytes_or_else_as_said(
    data: bytes, said: str | None, name: str | None, known: str
) -> None:
    assert File.from_bytes(data, said, name=name).mime_type == known


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: File.from_bytes(b"", name="a"), "the file 'a' is empty"),
        (lambda: File.from_bytes(b"abc", at_most=2), "the file has more than 2 bytes: 3 bytes; `at_most` allows more"),
        (lambda: File.from_bytes("abc"), "a file is made of bytes, not of str"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        (lambda: File.from_bytes(b"a", "a/b\r\nX: y"), "is no type of a file"),
        (lambda: File.from_bytes(b"a", detail="big"), "is auto, low or high, not 'big'"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        (lambda: Image.from_bytes(b"%PDF-1", name="a.pdf"), "[application/pdf, 6 bytes, a.pdf] is no image"),
        (lambda: Image.from_path("/dev/zero", at_most=9), "has more than 9 bytes"),
        (lambda: Message.user("a", "b"), "behind its text a message holds files, not str"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        (lambda: AGENT.with_examples(Message.user("a", IMAGE)), "`with_examples` takes no files"),
    ],
)
def test_what_cannot_be_a_file_is_refused_where_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert why in str(refused.value)


def test_a_file_at_a_path_has_its_name_and_no_name_holds_a_path_or_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    assert Image.from_path(tmp_path / "a.png") == IMAGE
    assert File.from_bytes(b"a", name="../../b\n\x1b[1m\\c\u2028.txt").filename == "c.txt"
    assert File.from_bytes(b"a", name="/").filename is None
    with pytest.raises(FileNotFoundError):
        File.from_path(tmp_path / "none")


def test_the_tables_of_the_machine_do_not_say_what_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "mime.types").write_text("text/vnd.odd txt\n")
    known = mimetypes.knownfiles
    try:
        mimetypes.init([*known, str(tmp_path / "mime.types")])
        assert File.from_bytes(b"a", name="a.txt").mime_type == "text/plain"
    finally:
        mimetypes.init(known)


def test_a_long_name_is_looked_through_once() -> None:
    # So long a name took as many minutes, had each of its letters been the beginning of another look.
    assert File.from_bytes(b"a", name="a" * 1_000_000).filename == "a" * 255


def test_a_stored_part_is_equal_to_the_file_and_has_no_bytes() -> None:
    said = Message.user("What?", IMAGE)
    stored = msgspec.json.decode(msgspec.json.encode(said), type=Message)
    assert stored == said == with_files(said, reference_to)
    assert hash(stored) == hash(said)
    assert [part.data for _, part in (*files_in(said), *files_in(stored))] == [PNG, None]
    assert IMAGE != File.from_bytes(PNG, name="b.png") != 3
    assert PNG not in msgspec.json.encode(said)


def test_a_copy_of_a_file_has_the_bytes() -> None:
    said = copy.deepcopy(Message.user("", IMAGE))
    pickled = pickle.loads(pickle.dumps(IMAGE))  # noqa: S301 - our own
    assert [(each, each.data) for each in (copy.copy(IMAGE), pickled, *(part for _, part in files_in(said)))] == [
        (IMAGE, PNG)
    ] * 3


def told(*parts: FilePart, role: MessageRole = MessageRole.USER) -> Message:
    return Message(role=role, parts=(TextPart(text="hi"), *parts))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (told(reference_to(IMAGE)), "is named without its bytes"),
        (told(IMAGE, role=MessageRole.SYSTEM), "files stand in messages of the user, not in one of the system"),
        (told(IMAGE, role=MessageRole.ASSISTANT), "files stand in messages of the user, not in one of the assistant"),
    ],
)
def test_a_digest_alone_is_refused_and_a_file_that_the_user_does_not_say(message: Message, why: str) -> None:
    agent = AGENT.build().snapshot
    events = decide(initial("s"), Start(input=told(IMAGE), agent=agent, worker=None))
    assert [part.data for _, part in files_in(events[-1])] == [PNG]
    opened = evolve_all(initial("s"), [Recorded(at, 0, event) for at, event in enumerate(events, 1)])
    for start in (
        Start(input=message, agent=agent, worker=None),
        Start(input=told(), history=(message,), agent=agent, worker=None),
    ):
        with pytest.raises(ConfigurationError, match=why):
            decide(initial("s"), start)
    with pytest.raises(ConfigurationError, match=why):
        decide(opened, Send(messages=(message,)))


def test_the_same_bytes_under_two_names_keep_both() -> None:
    said = Message.user("", *(File.from_bytes(b"tea", name=name) for name in ("a.txt", "b.txt")))
    assert [(part.filename, part.data) for part in Send(messages=(said,), by="ana").messages[0].files] == [
        ("a.txt", b"tea"),
        ("b.txt", b"tea"),
    ]
