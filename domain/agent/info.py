"""Who a session is and how long it has worked, as one small value that goes to and from JSON by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from steptrail.domain.instants import Datetime

__all__ = ["StateInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """A session's id, when it began, when it last moved, and the active seconds of its execution."""

    id: str
    started_at: Datetime
    updated_at: Datetime
    cumulative_execution_seconds: float = 0.0

    def add_execution_time(self, seconds: float, *, at: Datetime) -> "StateInfo":
        """Return a copy with so many seconds more, as of `at`."""
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
        """Read `to_dict` back; data from before the seconds were kept has none, which is zero.

        Raises `ValueError` when another key is missing or a value does not fit.
        """
        missing = [key for key in ("id", "startedAt", "updatedAt") if not isinstance(data.get(key), str)]
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
