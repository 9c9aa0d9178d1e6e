"""The state of a run after any of its events: a real fold, shown in parts of known size."""

from dataclasses import dataclass
from typing import Any, Final

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.interfaces.cli.kinds import kind_shown
from steptrail.interfaces.http.inspector.bodies import Abridged, abridged
from steptrail.interfaces.http.inspector.masking import Masking
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.trail import Steptrail

__all__ = ["StateAt", "state_at"]

_LAST: Final = 20
"""How many entries of a long list are shown: the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAt:
    """The state after event `version` of `count`; `damage` is why it cannot be told."""

    version: int
    count: int
    shown: Abridged | None
    damage: str | None = None


async def state_at(trail: Steptrail, stream: str, masking: Masking, version: int, count: int) -> StateAt:
    """Return the state after an event, or after the last one where there are fewer."""
    at, shown = min(version, count), kind_shown(stream)
    try:
        handle = trail.handle(name_of(stream))
        state: Any = await handle.state(at=at)
        records = await handle.history(at=at, types=shown.types)
    except CorruptRecord as error:
        return StateAt(version=at, count=count, shown=None, damage=str(error))
    data = _last(dict(shown.state_data(state, records)))
    return StateAt(version=at, count=count, shown=abridged(masking.value(data), most=40_000))


def _last(value: JsonValue) -> JsonValue:
    """Return the value with the last entries of each long list, and the number of those before."""
    match value:
        case dict():
            return {key: _last(inner) for key, inner in value.items()}
        case list() if len(value) > _LAST:
            return [f"… {len(value) - _LAST} before", *map(_last, value[-_LAST:])]
        case list():
            return [_last(inner) for inner in value]
        case str() if len(value) > 2_000:
            return f"{value[:2_000]}… (of {len(value)} characters)"
        case _:
            return value
