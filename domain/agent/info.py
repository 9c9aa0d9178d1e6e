"""A small summary of a session, which can be converted to JSON and back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steptrail.domain.base import an_object
from steptrail.domain.instants import Datetime
from steptrail.domain.json_value import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """A session's id, the times of its first and newest event, and the active seconds of its execution."""

    id: str
    started_at: Datetime
    updated_at: Datetime
    cumulative_execution_seconds: float = 0.0

    def add_execution_time(self, seconds: float, *, at: Datetime) -> "StateInfo":
        """Return a copy with `seconds` more of active time, updated at `at`."""
        total = self.cumulative_execution_seconds + seconds
        return replace(self, cumulative_execution_seconds=total, updated_at=at)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `id`, `startedAt`, `updatedAt` (ISO 8601, UTC) and `cumulativeExecutionSeconds`."""
        return {
            "id": self.id,
            "startedAt": self.started_at.isoformat(),
            "updatedAt": self.updated_at.isoformat(),
            "cumulativeExecutionSeconds": self.cumulative_execution_seconds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "StateInfo":
        """Make an instance from the result of `to_dict`. The seconds may be missing and are then 0.

        Raises `ValueError` when another key is missing or a value has the wrong type.
        """
        given = an_object(data, "the information of a session")
        missing = [key for key in ("id", "startedAt", "updatedAt") if not isinstance(given.get(key), str)]
        if missing:
            raise ValueError(f"the information of a session needs {' and '.join(map(repr, missing))} as text")
        seconds = data.get("cumulativeExecutionSeconds", 0.0)
        if not isinstance(seconds, int | float):
            raise ValueError(f"'cumulativeExecutionSeconds' is a number, not {seconds!r}")
        return cls(
            id=str(data["id"]),
            started_at=Datetime.fromisoformat(str(data["startedAt"])),
            updated_at=Datetime.fromisoformat(str(data["updatedAt"])),
            cumulative_execution_seconds=float(seconds),
        )
