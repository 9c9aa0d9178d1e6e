"""Events to bytes and back.

An encoded event is its JSON with its instant spliced in front, `{"@":<16 digits>,…}`: a head of fixed width that is cut
off before the event is decoded and is still plain JSON for audit tools and SQL. The type name is stored beside it. A
type that was retired stays readable through an upcaster.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeVar

import msgspec

from steptrail.domain.base import place_and_fault
from steptrail.domain.errors import CorruptRecord, RecordTooNew
from steptrail.domain.kernel.event import EVENT_TYPES, UPCASTERS, Event, Payload

__all__ = ["INSTANT_WIDTH", "decode", "encode", "stored_names", "unreadable", "with_instant"]

E = TypeVar("E", bound=Event)

_MARK = b'{"@":'
_BEFORE = len(_MARK)
_WIDTH = 16
INSTANT_WIDTH = _BEFORE + _WIDTH
"""The bytes that the instant takes at the front of a state, up to the comma behind it."""
_HEAD = INSTANT_WIDTH + 1
_LATEST = 10**_WIDTH - 1

_ENCODER = msgspec.json.Encoder()


class _TooNewError(ValueError):
    pass


def encode(event: Event, at: int) -> bytes:
    """Return the stored bytes of an event that happened at `at`, in microseconds of UTC.

    Raises `ValueError` for an instant outside of 0 and 10**16 - 1 (the year 2286), and for text that is not Unicode.
    """
    return with_instant(_ENCODER.encode(event), at)


def with_instant(payload: bytes, at: int) -> bytes:
    """Return the JSON of an object with the instant in front. Raises `ValueError` for one that is out of range."""
    if not 0 <= at <= _LATEST:
        raise ValueError(f"the instant {at} is not a number of microseconds from 0 to {_LATEST}")
    # Blanks, not zeros, fill a short number: JSON allows no leading zero.
    return b'{"@":%16d' % at + (b"}" if payload == b"{}" else b"," + payload[1:])


def decode(type_name: str, state: bytes) -> tuple[int, Event]:
    """Return the instant and the event. Raises `ValueError` that says why the bytes cannot be read."""
    if not state.startswith(_MARK) or len(state) < _HEAD:
        raise ValueError("it does not begin with an instant")
    at = int(state[_BEFORE:INSTANT_WIDTH])
    body = b"{" + (state[_HEAD:] or b"}")
    cls = EVENT_TYPES.get(type_name)
    if cls is None:
        cls, body = _upcast(type_name, body)
    return at, _decoder(cls)(body)


def unreadable(stream: str, version: int, type_name: str, state: bytes, error: Exception) -> CorruptRecord:
    """Return the error that names a record and says why it cannot be read, from what decoding it raised."""
    why = str(error)
    match error:
        case msgspec.ValidationError():
            place, fault = place_and_fault(error)
            why = f"{place or 'the event'}: {fault}"
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


def stored_names(types: Iterable[str]) -> tuple[str, ...]:
    """Return `types` with every retired name that is read as one of them."""
    wanted = set(types)
    grew = True
    while grew:
        older = {name for name, upcaster in UPCASTERS.items() if upcaster.successor in wanted}
        grew = not older <= wanted
        wanted |= older
    return tuple(sorted(wanted))


@cache
def _decoder(cls: type[E]) -> Callable[[bytes], E]:
    return msgspec.json.Decoder(cls).decode


def _upcast(type_name: str, body: bytes) -> tuple[type[Event], bytes]:
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
    return EVENT_TYPES[name], msgspec.json.encode(payload)


def _unknown(name: str) -> ValueError:
    base, version = _split(name)
    known = [number for other in (*EVENT_TYPES, *UPCASTERS) for b, number in [_split(other)] if b == base]
    if known and version > max(known):
        newer = f"it was written by a newer version of Steptrail: this one reads {base!r} up to v{max(known)}"
        return _TooNewError(f"{newer}, update to read it")
    why = f"the event type {name!r} is not known here: a newer version, or a module that is not imported, wrote it"
    return ValueError(why)


def _split(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)\.v(\d+)", name)
    return (match[1], int(match[2])) if match else (name, 0)
