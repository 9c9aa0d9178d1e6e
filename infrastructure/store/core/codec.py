"""Events to bytes and back.

A store has the JSON of an event, and beside it the instant and the name of the type. Where events are written outside
of a store, the instant is spliced in front, `{"@":<16 digits>,…}`: a head of fixed width that is cut off before the
event is decoded. A type that was retired stays readable through an upcaster.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import msgspec

from steptrail.domain.base import NO_SUCH_FIELD, place_and_fault, reader_of
from steptrail.domain.errors import CorruptRecord, RecordTooNew
from steptrail.domain.kernel.event import EVENT_TYPES, UPCASTERS, Event, Payload

_MARK = b'{"@":'
_BEFORE = len(_MARK)
_WIDTH = 16
_HEAD = _BEFORE + _WIDTH + 1
_LATEST = 10**_WIDTH - 1

_ENCODER = msgspec.json.Encoder()


class _TooNewError(ValueError):
    pass


def encode(event: Event, at: int) -> bytes:
    """Return the bytes of an event that happened at `at`, with that instant in front.

    Raises `ValueError` for an instant that is out of range, and for text that is not Unicode.
    """
    payload = _ENCODER.encode(event)
    # Blanks, not zeros, fill a short number: JSON allows no leading zero.
    return b'{"@":%16d' % checked_instant(at) + (b"}" if payload == b"{}" else b"," + payload[1:])


def checked_instant(at: object) -> int:
    """Return a number of microseconds of UTC. Raises `ValueError` for anything outside of 0 and 10**16 - 1, in 2286."""
    if type(at) is int and 0 <= at <= _LATEST:
        return at
    raise ValueError(f"the instant {at!r} is not a number of microseconds from 0 to {_LATEST}")


def apart(encoded: bytes) -> tuple[int, bytes]:
    """Return the instant and the state of an encoded event. Raises `ValueError` when no instant is in front."""
    if not encoded.startswith(_MARK) or len(encoded) < _HEAD:
        raise ValueError("it does not begin with an instant")
    return int(encoded[_BEFORE : _HEAD - 1]), b"{" + (encoded[_HEAD:] or b"}")


def decode(type_name: str, encoded: bytes) -> tuple[int, Event]:
    """Return the instant and the event. Raises `ValueError` that says why the bytes cannot be read."""
    at, state = apart(encoded)
    return at, decode_state(type_name, state)


def decode_state(type_name: str, state: bytes) -> Event:
    """Return the event of a state. Raises `ValueError` that says why the bytes cannot be read."""
    if type_name not in EVENT_TYPES:
        type_name, state = _upcast(type_name, state)
    return _decoder(type_name)(state)


def unreadable(stream: str, version: int, type_name: str, state: bytes, error: Exception) -> CorruptRecord:
    """Return the error that names a record and says why it cannot be read, from what decoding it raised."""
    why = str(error)
    match error:
        case msgspec.ValidationError():
            place, fault = place_and_fault(error)
            why = f"{place or 'the event'}: {fault}"
            if fault == NO_SUCH_FIELD:
                # An event gets a field that holds its default in all older ones without another name for its type.
                return RecordTooNew(stream, version, type_name, f"{why}: a newer version of Steptrail wrote it")
        case RecursionError():
            why = "it is nested too deeply"
        case AttributeError() | TypeError():
            # SQLite keeps whatever type a hand wrote into a column.
            why = _wrong_type(type_name, state)
        case _TooNewError():
            return RecordTooNew(stream, version, type_name, why)
        case _:
            pass
    return CorruptRecord(stream, version, str(type_name), why)


def _wrong_type(type_name: object, state: object) -> str:
    if isinstance(type_name, str):
        return f"its state is {type(state).__name__}, not bytes"
    return f"its type is {type(type_name).__name__}, not text"


def stored_names(types: Iterable[str], stored: Iterable[object]) -> tuple[str, ...]:
    """Return `types` with every retired name that is read as one of them.

    Of the names that are `stored`, those come along that a newer version gave to one of them: there is more of it then
    than can be read here, and who asks for it is to be told so.
    """
    wanted = set(types)
    grew = True
    while grew:
        older = {name for name, upcaster in UPCASTERS.items() if upcaster.successor in wanted}
        grew = not older <= wanted
        wanted |= older
    bases, newest = {_split(name)[0] for name in wanted}, _newest_versions()
    split = {name: _split(name) for name in stored if isinstance(name, str)}  # one that is damaged may be no text
    newer = {name for name, (base, version) in split.items() if base in bases and newest.get(base, 0) < version}
    return tuple(sorted(wanted | newer))


@cache
def _decoder(type_name: str) -> Callable[[bytes], Event]:
    return reader_of(EVENT_TYPES[type_name])


def _upcast(type_name: str, body: bytes) -> tuple[str, bytes]:
    payload: Payload = msgspec.json.decode(body) if type_name in UPCASTERS else {}
    name, seen = type_name, set[str]()
    while name not in EVENT_TYPES:
        upcaster = UPCASTERS.get(name)
        if upcaster is None or name in seen:
            raise _unknown(name)
        seen.add(name)
        try:
            payload = upcaster.upcast(payload)
        except Exception as error:
            raise ValueError(f"its upcaster failed with {type(error).__name__}: {error}") from error
        name = upcaster.successor
    return name, msgspec.json.encode(payload)


def _unknown(name: str) -> ValueError:
    base, version = _split(name)
    known = _newest_versions().get(base, 0)
    if known and version > known:
        newer = f"it was written by a newer version of Steptrail: this one reads {base!r} up to v{known}"
        return _TooNewError(f"{newer}, update to read it")
    why = f"the event type {name!r} is not known here: a newer version, or a module that is not imported, wrote it"
    return _TooNewError(why) if version > known else ValueError(why)


def _newest_versions() -> Mapping[str, int]:
    """Return the newest version of each type that can be read, under the name of the type without a version."""
    return dict(sorted(map(_split, (*EVENT_TYPES, *UPCASTERS))))


def _split(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)\.v(\d+)", name)
    return (match[1], int(match[2])) if match else (name, 0)
