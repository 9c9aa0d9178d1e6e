"""The part of an explanation that agents and workflows share: where an execution stands, and who had a say in that."""

from dataclasses import dataclass, field
from typing import Any

from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.standing import Standing, StandingState, Wait
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.rendering import asked_for_data
from steptrail.projections.same_failure import SameFailure
from steptrail.projections.scores import RecordedScore


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExplanation:
    """The part of an answer that agents and workflows share; see `Explanation` for the fields of every kind.

    `is_newest` says that no execution came after this one. `crash` says of one that has crashed on which worker, and
    what that was doing. `waits` are what it waits for, with their times. `same_failure` says how often its failure has
    come lately, None where read models do not know. `scores` are those of the execution that count. `state` is what all
    of it was read from, and says who asked for a pause, for its end or for a stop.
    """

    execution_id: str | None
    status: ExecutionStatus
    stop_reason: str | None
    verdict: str
    waits_for: str | None
    waits: tuple[Wait, ...] = ()
    events: dict[str, int]
    is_newest: bool = True
    is_owned: bool | None = None
    is_crashed: bool = False
    crash: str | None = None
    damage: str | None = None
    same_failure: SameFailure | None = None
    scores: tuple[RecordedScore, ...] = ()
    state: Any = field(repr=False, compare=False)

    def _standing(self) -> dict[str, JsonValue]:
        """Return these fields as JSON."""
        return {
            "executionId": self.execution_id,
            "status": self.status.value,
            "stopReason": self.stop_reason,
            "verdict": self.verdict,
            "crashed": self.is_crashed,
            "crash": self.crash,
            "worker": self.state.fold.worker or None,
            "damage": self.damage,
            **asked_for_data(self.state),
            "waitsFor": self.waits_for,
            "waits": [full_form(wait) for wait in self.waits],
            "events": dict(self.events),
            "sameFailure": self.same_failure.to_dict() if self.same_failure else None,
            "scores": [score.to_dict() for score in self.scores],
        }


def has_crashed(stands: Standing, *, owned: bool | None, damage: str | None) -> bool:
    """Tell whether the owner of a run that stands so has died, as lists tell it. `owned` is None where nobody knows."""
    return owned is False and damage is None and stands.state is StandingState.WORKING
