"""The answers of a what-if: whether an execution would be the same, would have stopped earlier, or is unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import usd_text
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.projections.camel_form import camel_fields


class WhatIfAnswer(StrEnum):
    """The answer about one execution."""

    SAME = "same"
    """Every decision falls as it was recorded, up to the same end."""
    STOPS_EARLIER = "stops_earlier"
    """It would have stopped before its recorded end."""
    UNKNOWN = "unknown"
    """From some event on it would have been another run, which nobody has recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """The steps, tokens, active seconds and US dollars of a part of an execution; no `cost` without recorded prices."""

    steps: int = 0
    tokens: int = 0
    active_seconds: float = 0.0
    cost: Decimal | None = None

    def __add__(self, other: "Used") -> "Used":
        costs = [each.cost for each in (self, other) if each.cost is not None]
        return Used(
            steps=self.steps + other.steps,
            tokens=self.tokens + other.tokens,
            active_seconds=self.active_seconds + other.active_seconds,
            cost=sum(costs, Decimal(0)) if costs else None,
        )

    def beyond(self, other: "Used") -> "Used":
        """Return how much more this is."""
        return Used(
            steps=self.steps - other.steps,
            tokens=self.tokens - other.tokens,
            active_seconds=max(0.0, self.active_seconds - other.active_seconds),
            cost=None if self.cost is None else self.cost - (other.cost or Decimal(0)),
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON; the cost is a text, so that it stays exact."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "activeSeconds": self.active_seconds,
            "cost": None if self.cost is None else usd_text(self.cost),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """The answer about one execution, or about a session of which none could be read: `execution_id` is None then.

    `status`, `stop_reason` and `answered` are what was recorded. `why` says the answer in words; it is empty for an
    execution that would be the same in all. `version` is the event from which the recorded run and the other one
    differ. It would have stopped after `step` steps, for the reason `would_stop`, which `vote` decided. `saved` is what
    was used after that; `is_wrong` says that the run came to an answer after that, which would be lost.

    The answer to what is unknown can be paid for: by a fork after event `fork_at`, or by a retry if it
    `can_be_retried`.
    """

    session_id: str
    execution_id: str | None = None
    agent: str = ""
    status: ExecutionStatus | None = None
    stop_reason: StopReason | None = None
    answered: bool = False
    answer: WhatIfAnswer
    why: str = ""
    version: int | None = None
    step: int | None = None
    would_stop: StopReason | None = None
    vote: ContinuationEvaluation | None = None
    saved: Used = Used()
    is_wrong: bool = False
    fork_at: int | None = None
    can_be_retried: bool = False

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return camel_fields(self)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answers about executions, those of the session that began last first."""

    rows: Sequence[WhatIfRow]

    def count(self, answer: WhatIfAnswer) -> int:
        """Return how many executions have this answer."""
        return sum(row.answer is answer for row in self.rows)

    @property
    def wrong(self) -> int:
        """The number of those that would have stopped earlier and so would have lost their answer."""
        return sum(row.is_wrong for row in self.rows)

    @property
    def saved(self) -> Used:
        """The sum of what those used that would have stopped earlier, after that. Of the others nothing is counted."""
        return sum((row.saved for row in self.rows if row.answer is WhatIfAnswer.STOPS_EARLIER), Used())

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the summary and the rows as JSON."""
        return {
            "executions": len(self.rows),
            "same": self.count(WhatIfAnswer.SAME),
            "stopsEarlier": self.count(WhatIfAnswer.STOPS_EARLIER),
            "wrong": self.wrong,
            "unknown": self.count(WhatIfAnswer.UNKNOWN),
            "saved": self.saved.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
        }
