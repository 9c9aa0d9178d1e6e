"""How often the failure of a run has come lately: what `why` and the page of a run say of others that failed alike."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.projections.camel_form import camel_fields

LATELY: Final = timedelta(days=7)
"""How far back failures are counted, by the instant at which their runs began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameFailure:
    """Runs of the last `days` days that failed alike, also the one that was asked about if it is one of them.

    `signature` is that of their error; `is_more` says that there are more than `runs`.
    """

    signature: str
    runs: int
    is_more: bool
    days: int = LATELY.days

    def __str__(self) -> str:
        many = "1 run" if self.runs == 1 and not self.is_more else f"{self.runs:,}{'+' if self.is_more else ''} runs"
        return f"in {many if self.runs else 'no run'} in the last {self.days} days"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return camel_fields(self)
