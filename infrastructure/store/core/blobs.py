"""Large bodies beside the events: content-addressed, stored once, put back on reading.

Whatever in an event's JSON is above the limit is cut out of it: a text, or an array or object that is large as a whole.
A null stands in its place, and in front a list says what stood where, as a JSON pointer:
`{"@blobs":[{"at":"/result","digest":"…","size":40000,"preview":"…"}],"result":null}`. The list belongs to the state or
the content that the digest chain covers, so a changed body is found by its digest and a changed digest by the chain.
A file that the event names is in the list too. Its bytes are a body as they are, which is not put back on reading.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from steptrail.domain.base import Value
from steptrail.domain.files import fields_with_files, files_in, names_files
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.kernel.record import Commit, CommitHead, Recorded
from steptrail.domain.readable import readable
from steptrail.infrastructure.store.core.codec import checked_instant, decode_state, unreadable
from steptrail.infrastructure.store.core.contents import decode_parts, encoded_parts
from steptrail.runtime.kernel.kinds import KINDS

LIMIT = 32 * 1024
"""The bytes of JSON up to which a body stays in its event."""

MARK = b'{"@blobs":'
"""The beginning of a state or a content that refers to blobs. No field of an event has such a name."""
_PREVIEW = 120

FetchBody = Callable[[bytes], bytes | None]
"""Returns the stored body of a digest, or None when there is none."""


class Blob(NamedTuple):
    """A body, as JSON or as the bytes of a file, and its SHA-256."""

    digest: bytes
    body: bytes


class BlobFault(NamedTuple):
    """Something about a stored blob: damage, or that nobody refers to it."""

    digest: str
    why: str
    is_damage: bool


class Reference(Value, frozen=True, kw_only=True):
    """An event's reference to a body of `size` bytes; `at` is a JSON pointer into the event (RFC 6901).

    A file stays where it is: the event names it at that place itself.
    """

    at: Annotated[str, Meta(pattern="^/")]
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: int
    preview: str
    is_file: bool = False


_Taken = tuple[Reference, Blob]


class _References(Struct, rename={"blobs": "@blobs"}):
    blobs: tuple[Reference, ...]


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
_REFERENCES = msgspec.json.Decoder(readable(_References))


def no_blobs(digest: bytes) -> None:
    """Return the body of a store that holds none."""


Encoded = tuple[int, str, int, bytes, bytes | None]
"""The version, the type, the instant, the state and the content of an event; None for no content."""


def encode_commit(commit: Commit, after: int) -> list[Encoded]:
    """Return each event of a commit behind version `after`. Raises `ValueError` for one that cannot be encoded."""
    rows = list[Encoded]()
    for version, (at, event) in enumerate(commit.events, after + 1):
        state, content = encoded_parts(event)
        if content is not None and fields_with_files(type(event)) and names_files(event):
            content = _with_files_listed(event, content)
        rows.append((version, event.TYPE, checked_instant(at), state, content))
    return rows


def _with_files_listed(event: Event, content: bytes) -> bytes:
    """Return the content of an event with the list of the files that it names in front."""
    found = [
        Reference(at=at, digest=part.digest, size=part.size, preview="", is_file=True) for at, part in files_in(event)
    ]
    return MARK + _encode(found) + b"," + content[1:]


def files_of(commit: Commit) -> tuple[Blob, ...]:
    """Return the bytes of the files that come with a commit, by their own digests: no others take their place."""
    return tuple([Blob(sha256(data).digest(), data) for data in commit.files.values()])


def detach_all(encoded: Sequence[Encoded]) -> tuple[list[Encoded], tuple[Blob, ...]]:
    """Return the events of a commit without their large bodies, and those."""
    rows: list[Encoded] = []
    blobs: tuple[Blob, ...] = ()
    for version, type_name, at, state, content in encoded:
        if len(state) > LIMIT:
            state, bodies = detach(state)
            blobs += bodies
        if content is not None and len(content) > LIMIT:
            content, bodies = detach(content)
            blobs += bodies
        rows.append((version, type_name, at, state, content))
    return rows, blobs


def detach(state: bytes) -> tuple[bytes, tuple[Blob, ...]]:
    """Return a state, or a content, without its large bodies, and those; one of ordinary size as it is.

    Raises `ValueError` for JSON that is nested too deeply to be read back.
    """
    if len(state) <= LIMIT:
        return state, ()
    taken: list[_Taken] = []
    payload: dict[str, JsonValue] = _decode(state)
    files = payload.pop("@blobs", ())
    for name, value in payload.items():
        payload[name] = _lighter(value, _pointer("", name), taken)
    if not taken:
        return state, ()
    said = _encode([*(files if isinstance(files, list) else ()), *(reference for reference, _ in taken)])
    return MARK + said + b"," + _encode(payload)[1:], tuple(blob for _, blob in taken)


def is_detached(state: object) -> bool:
    """Tell whether the state or the content of a stored event refers to blobs."""
    return isinstance(state, bytes) and state.startswith(MARK)


def references(state: bytes) -> tuple[Reference, ...]:
    """Return what a detached state refers to. Raises `ValueError` when that cannot be read."""
    try:
        return _REFERENCES.decode(state).blobs
    except ValueError as error:
        raise ValueError("what it says of its blobs cannot be read") from error


def attach(state: bytes, fetch: FetchBody) -> bytes:
    """Return a detached state with its bodies put back. Raises `ValueError` that says which one cannot be."""
    found = references(state)
    payload: dict[str, JsonValue] = _decode(state)
    del payload["@blobs"]
    for reference in found:
        if reference.is_file:
            continue
        body = fetch(bytes.fromhex(reference.digest))
        if (why := _why_unfit(reference, body)) is not None or body is None:
            raise ValueError(why)
        _put(payload, reference.at, _decode(body))
    return _encode(payload)


def blob_fault(state: object, fetch: FetchBody) -> str | None:
    """Return what is wrong with the blobs of a stored state, or None."""
    if not isinstance(state, bytes) or not is_detached(state):
        return None
    try:
        found = references(state)
    except ValueError as error:
        return str(error)
    whys = (_why_unfit(reference, fetch(bytes.fromhex(reference.digest))) for reference in found)
    return next((why for why in whys if why is not None), None)


def blob_faults(digests: Iterable[object], fetch: FetchBody, states: Iterable[bytes]) -> list[BlobFault]:
    """Return what is wrong with the blobs that are stored; `states` are those of all events that refer to any."""
    referred: set[str] = set()
    for state in states:
        with suppress(ValueError):  # the record says so itself
            referred.update(reference.digest for reference in references(state))
    faults: list[BlobFault] = []
    for digest in digests:
        body = fetch(digest) if isinstance(digest, bytes) else b""
        if body is None:
            continue  # erased since it was listed; whoever refers to it still says so
        if not isinstance(digest, bytes) or _digest_of(body) != digest:
            name = digest.hex() if isinstance(digest, bytes) else str(digest)
            faults.append(BlobFault(name, "what is stored does not match its digest", True))
        elif digest.hex() not in referred:
            faults.append(BlobFault(digest.hex(), "no event refers to it: it may be deleted", False))
    return faults


def read_record(
    fetch: FetchBody,
    stream: str,
    version: int,
    type_name: str,
    at: int,
    state: bytes,
    head: CommitHead | None,
    content: bytes | None = None,
) -> Recorded[Event]:
    """Return a stored row as a record, with its content and its bodies. Raises `CorruptRecord`, which says why not."""
    if type_name not in EVENT_TYPES:
        KINDS.of(stream)  # imports the events of that kind: a process that only reads may not have met it yet
    try:
        if state.startswith(MARK):
            state = attach(state, fetch)
        if content is None:
            event = decode_state(type_name, state)
        else:
            event = decode_parts(type_name, state, attach(content, fetch) if is_detached(content) else content)
        return Recorded(version, checked_instant(at), event, head)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise unreadable(stream, version, type_name, state, error) from error


def _lighter(value: JsonValue, at: str, taken: list[_Taken]) -> JsonValue:
    """Return a value without its large parts; None when it is large as a whole."""
    if not _is_heavy(value):
        return value
    inside: list[_Taken] = []
    light: JsonValue = None
    if isinstance(value, dict):
        light = {
            key: _lighter(item, _pointer(at, key), inside) if _may_be_heavy(item) else item
            for key, item in value.items()
        }
    elif isinstance(value, list):
        light = [
            _lighter(item, _pointer(at, str(i)), inside) if _may_be_heavy(item) else item
            for i, item in enumerate(value)
        ]
    said = sum(len(_encode(reference)) for reference, _ in inside)
    if light is None or len(_encode(light)) + said > LIMIT:
        taken.append(_taken(value, at))
        return None
    taken += inside
    return light


def _may_be_heavy(value: JsonValue) -> bool:
    return isinstance(value, str | list | dict)


def _is_heavy(value: JsonValue) -> bool:
    if isinstance(value, str):
        # A character takes six bytes at most, as an escape.
        return len(value) * 6 > LIMIT and len(_encode(value)) > LIMIT
    return isinstance(value, dict | list) and len(_encode(value)) > LIMIT


def _taken(value: JsonValue, at: str) -> _Taken:
    body = _encode(value)
    digest = sha256(body)
    preview = body[: _PREVIEW * 4].decode(errors="ignore")[:_PREVIEW]
    reference = Reference(at=at, digest=digest.hexdigest(), size=len(body), preview=preview)
    return reference, Blob(digest.digest(), body)


def _pointer(at: str, key: str) -> str:
    return f"{at}/{key.replace('~', '~0').replace('/', '~1')}"


def _put(payload: JsonValue, at: str, value: JsonValue) -> None:
    *way, last = (key.replace("~1", "/").replace("~0", "~") for key in at[1:].split("/"))
    try:
        for key in way:
            payload = _inside(payload)[_key(payload, key)]
        _inside(payload)[_key(payload, last)] = value
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its blob has no place {at!r} in it") from error


def _inside(value: JsonValue) -> Any:
    if not isinstance(value, dict | list):
        raise TypeError("nothing stands inside of it")
    return value


def _key(container: JsonValue, key: str) -> str | int:
    return int(key) if isinstance(container, list) else key


def _why_unfit(reference: Reference, body: bytes | None) -> str | None:
    if body is None:
        return f"its blob {reference.digest} ({reference.at}) is missing"
    if _digest_of(body) != bytes.fromhex(reference.digest):
        return f"its blob {reference.digest} ({reference.at}) is damaged"
    return None


def _digest_of(body: object) -> bytes | None:
    # SQLite keeps whatever type a hand wrote into a column.
    return sha256(body).digest() if isinstance(body, bytes) else None
