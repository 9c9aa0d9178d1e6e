"""The messages about live updates that processes send each other, as short JSON texts."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from steptrail.domain.live import DeltaKind, NodeProgress, Progress, ReplyKey, ToolProgress
from steptrail.domain.readable import readable
from steptrail.domain.storable import as_unicode
from steptrail.runtime.kernel.live_reply import ReplyEnd

_LONGEST_WORDS = 500
"""Characters of the message of a tool's progress that are passed on."""


class Wants(msgspec.Struct, tag="wants", frozen=True):
    """Says that followers in process `who` want to see these streams; those of `anew` from the beginning of a reply.

    With `asks`, the others are to say what they want.
    """

    who: str
    streams: Sequence[str] = ()
    anew: Sequence[str] = ()
    asks: bool = False


class TextShown(msgspec.Struct, tag="text", frozen=True):
    """The text of a reply after its first `at` characters. `end` says how it ended, once all of it was told."""

    stream: str
    version: int
    key: ReplyKey
    at: int
    pieces: Sequence[tuple[DeltaKind, str]] = ()
    end: ReplyEnd | None = None


class CallsShown(msgspec.Struct, tag="calls", frozen=True):
    """How far the calls of an agent have come, each with the version of the stream at that time."""

    stream: str
    shown: Sequence[tuple[int, ToolProgress]]


class NodesShown(msgspec.Struct, tag="nodes", frozen=True):
    """How far the nodes of a workflow have come, each with the version of the stream at that time."""

    stream: str
    shown: Sequence[tuple[int, NodeProgress]]


Message: TypeAlias = Wants | TextShown | CallsShown | NodesShown

_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(readable(Message))


def encoded(message: Message) -> str:
    """Return a message as text."""
    return msgspec.json.encode(message).decode()


def decoded(text: str) -> Message | None:
    """Return the message in a text; None when it is not understood, such as one of another version of this module."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def wants(who: str, streams: Iterable[str], anew: Iterable[str], *, asks: bool, most_bytes: int) -> Iterable[str]:
    """Yield as many messages as it takes."""
    empty = len(msgspec.json.encode(Wants(who, asks=asks)))
    lists = (list[str](), list[str]())
    size = empty
    for which, names in enumerate((streams, anew)):
        for name in names:
            needed = len(msgspec.json.encode(name)) + 1
            if size + needed > most_bytes and size > empty:
                yield encoded(Wants(who, *lists, asks=asks))
                lists, size, asks = (list[str](), list[str]()), empty, False
            lists[which].append(name)
            size += needed
    if asks or size > empty:
        yield encoded(Wants(who, *lists, asks=asks))


def text_shown(
    message: TextShown, pieces: Iterable[tuple[DeltaKind, str]], *, end: ReplyEnd | None, most_bytes: int
) -> tuple[str, int]:
    """Return `message` with as much of the pieces as it has room for, and how many characters those are."""
    room = most_bytes - len(msgspec.json.encode(msgspec.structs.replace(message, end=end)))
    held, count = list[tuple[DeltaKind, str]](), 0
    for kind, text in pieces:
        whole = as_unicode(text)
        part = _beginning_of(whole, room)
        if part:
            held.append((kind, part))
            count += len(part)
            room -= _size(part)
        if part != whole:
            end = None
            break
    return encoded(msgspec.structs.replace(message, pieces=held, end=end)), count


def progress_shown(stream: str, news: Sequence[tuple[int, Progress]], *, most_bytes: int) -> str | None:
    """Return a message of the newest of the news, as many as it has room for; None when it has room for none."""
    held = list[tuple[int, Progress]]()
    room = most_bytes - len(msgspec.json.encode(CallsShown(stream, ())))
    for version, each in reversed(news):
        cut = (version, replace(each, message=as_unicode(each.message[:_LONGEST_WORDS])))
        try:
            size = len(msgspec.json.encode(cut)) + 1
        except UnicodeEncodeError:
            continue
        if size <= room:
            held.append(cut)
            room -= size
    calls = [(version, each) for version, each in held[::-1] if isinstance(each, ToolProgress)]
    nodes = [(version, each) for version, each in held[::-1] if isinstance(each, NodeProgress)]
    if nodes:
        return encoded(NodesShown(stream, nodes))
    return encoded(CallsShown(stream, calls)) if calls else None


def _beginning_of(text: str, room: int) -> str:
    """Return as much of the text as fits into `room` bytes, or a little less."""
    while text and (size := _size(text)) > room:
        text = text[: min(len(text) - 1, len(text) * max(0, room) // size)]
    return text


def _size(text: str) -> int:
    return len(msgspec.json.encode(text)) + len('["reasoning",],')
