"""Two runs beside each other: how each ended, and the first event in which they differ.

Times, ids and what else no two runs have in common are left out of the comparison.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap, zip_longest
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct

from steptrail.domain.agent.events import ContinuationEvaluated, EvaluationsRecorded
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import SessionStarted
from steptrail.interfaces.http.inspector.events import record_shown, said_of, sound_events
from steptrail.interfaces.http.inspector.state import ShownChange, shown_changes
from steptrail.projections.masking import Masking
from steptrail.runtime.kernel.ports import EventStore

_BATCH: Final = 500
_MOST: Final = 20_000
"""So many events of each run are compared."""
_BEFORE: Final = 5
_AFTER: Final = 15
_VOLATILE = frozenset(
    {
        "at",
        "by",
        "deadline",
        "digest",
        "id",
        "key",
        "metadata",
        "raw",
        "seconds",
        "session",
        "usage",
        "version",
        "worker",
    }
)
_DECISIONS = (EvaluationsRecorded.TYPE, ContinuationEvaluated.TYPE)
_WORDS_OF_VOTES = frozenset({"context", "reason"})
"""The words of a vote say how long a run has taken."""
_VOLATILE_ENDS = ("_at", "_id", "_ids", "_seconds", "_digest", "_us")


class Side(NamedTuple):
    """One of the two: its stream, and the first and the last event of its execution."""

    stream: str
    first: int
    last: int


class ComparedLine(NamedTuple):
    """An event of each run at the same place; None where one has ended before."""

    one: tuple[int, str, str] | None
    other: tuple[int, str, str] | None
    is_same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`first` is the line with the first difference; None where there is none in `compared` events.

    `lines` are those around it, `hidden` is how many equal ones stand before them, and `changes` say what differs in
    the first difference, where both events are of one type. `is_cut` tells that there are events behind those compared,
    or one that cannot be read.
    """

    first: ComparedLine | None
    compared: int
    lines: Sequence[ComparedLine]
    hidden: int
    is_cut: bool
    changes: Sequence[ShownChange] = ()


async def compare(store: EventStore, masking: Masking, one: Side, other: Side) -> Comparison:
    """Compare two executions event by event, up to some events behind the first difference, or up to a damage."""
    shown: list[tuple[Recorded[Any] | None, Recorded[Any] | None, bool]] = []
    first: int | None = None
    changes: Sequence[ShownChange] = ()
    compared, hidden, behind, spoilt = 0, 0, _AFTER, list[int]()
    while compared < _MOST and behind and not spoilt:
        read = [await _read(store, side, compared) for side in (one, other)]
        spoilt = [len(records) for records, damage in read if damage is not None]
        pairs = list(zip_longest(*[records for records, _ in read]))[: min(spoilt, default=_BATCH)]
        if not pairs:
            break
        are_same = await asyncio.to_thread(list, starmap(_are_same, pairs))
        for (left, right), is_same in zip(pairs, are_same, strict=True):
            shown.append((left, right, is_same))
            compared += 1
            if first is not None:
                behind -= 1
                if not behind:
                    break
            elif not is_same:
                first, changes = len(shown) - 1, await asyncio.to_thread(_changes, masking, left, right)
            elif len(shown) > _BEFORE:
                hidden += 1
                del shown[0]
    lines = await asyncio.to_thread(
        lambda: [
            ComparedLine(_line(one, left, masking), _line(other, right, masking), is_same)
            for left, right, is_same in shown
        ]
    )
    return Comparison(
        first=None if first is None else lines[first],
        compared=compared,
        lines=lines,
        hidden=hidden,
        is_cut=first is None and (compared >= _MOST or bool(spoilt)),
        changes=changes,
    )


async def _read(store: EventStore, side: Side, done: int) -> tuple[Sequence[Recorded[Any]], CorruptRecord | None]:
    after = side.first - 1 + done
    return await sound_events(store, side.stream, after, min(_BATCH, side.last - after))


def _line(side: Side, record: Recorded[Any] | None, masking: Masking) -> tuple[int, str, str] | None:
    if record is None:
        return None
    said = said_of(side.stream, record_shown(record, masking.event(record.event)), masking)
    return record.version, record.event.TYPE.removesuffix(".v1"), said


def _changes(masking: Masking, one: Recorded[Event] | None, other: Recorded[Event] | None) -> Sequence[ShownChange]:
    if one is None or other is None or one.event.TYPE != other.event.TYPE:
        return ()
    return shown_changes(masking, _lasting(one.event), _lasting(other.event))[0]


def _are_same(one: Recorded[Event] | None, other: Recorded[Event] | None) -> bool:
    return _sense(one) == _sense(other)


def _sense(record: Recorded[Event] | None) -> str:
    """Return what an event says that another run could say as well."""
    if record is None:
        return ""
    kind = record.event.TYPE
    if kind == SessionStarted.TYPE:
        return kind
    volatile = _VOLATILE | _WORDS_OF_VOTES if kind in _DECISIONS else _VOLATILE
    return f"{kind} {json.dumps(_lasting(record.event, volatile), sort_keys=True)}"


def _lasting(value: Any, volatile: frozenset[str] = _VOLATILE) -> JsonValue:
    """Return a value as JSON without the fields that differ in every run. What is content stays as it is."""
    match value:
        case Struct():
            names = [name for name in value.__struct_fields__ if name not in volatile]
            kept = [name for name in names if not name.endswith(_VOLATILE_ENDS)]
            return {"": type(value).__name__} | {name: _lasting(getattr(value, name), volatile) for name in kept}
        case tuple() | list():
            items = cast("Sequence[Any]", value)
            return [_lasting(item, volatile) for item in items]
        case dict():
            entries = cast("dict[str, Any]", value)
            return {key: _lasting(inner, volatile) for key, inner in entries.items()}
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
