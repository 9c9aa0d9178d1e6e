"""Events of decisions: every vote, what they resolved to, and what is waited for.

What was stored before a field had its default is read as it stands, unless it lacks that field: then it is damaged.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.stored import StoredVotes
from steptrail.domain.failures import ErrorType
from steptrail.domain.kernel.event import Event, EventKind, Payload, Upcast
from steptrail.domain.shared.events import WaitEnded, WaitStarted
from steptrail.domain.shared.run import StopReason

__all__ = [
    "ContinuationEvaluated",
    "DecisionEvent",
    "DecisionPhase",
    "EvaluationsRecorded",
    "RetryScheduled",
]


class DecisionPhase(StrEnum):
    """When votes are cast, and when the decision is taken that they are for."""

    BOUNDARY = "boundary"
    """Between two steps."""
    RESUME = "resume"
    """When a segment begins away from the boundary: only guards vote."""
    STOP = "stop"
    """After the Stop hooks, once more."""
    END = "end"
    """Votes of a hook that fails while the execution ends. No decision comes after them."""


def _every_decision_spelt_out(payload: Payload) -> Payload:
    votes = payload["votes"]
    if isinstance(votes, list) and any(isinstance(vote, dict) and "decision" not in vote for vote in votes):
        msg = "a vote has no decision"
        raise ValueError(msg)
    return payload


def _spelt_out(payload: Payload) -> Payload:
    if "should_continue" not in payload:
        msg = "it does not say whether the run goes on"
        raise ValueError(msg)
    return payload


class EvaluationsRecorded(Event):
    """Votes were cast. The votes of a decision are all those since the decision before it, but for those too late.

    `read_settings` says that a criterion of the agent's own looked at the run's limits, policy or prices. Which setting
    a built-in criterion goes by stands in its vote; what a hook looked at stands in `HooksRan`.
    """

    TYPE = "evaluations.recorded.v2"
    KIND = EventKind.INTENT
    UPCASTS: ClassVar[Mapping[str, Upcast]] = {"evaluations.recorded.v1": _every_decision_spelt_out}
    STATE = frozenset({"hook", "votes"})
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    votes: StoredVotes
    hook: str | None = None
    read_settings: bool = False

    @property
    def counts_as(self) -> EventKind:
        """A hook's vote has been cast, whatever came in meanwhile. Criteria are asked anew."""
        return self.KIND if self.hook is None else EventKind.FACT


class ContinuationEvaluated(Event):
    """A decision was taken after step `step` (0: before the first).

    `retries`: it goes on because the error policy wants what failed in that step to be tried again. `answered`: it
    stops with an answer of its own, also where a limit is reached at the same moment.
    """

    TYPE = "continuation.evaluated.v2"
    KIND = EventKind.ANEW
    UPCASTS: ClassVar[Mapping[str, Upcast]] = {"continuation.evaluated.v1": _spelt_out}
    STATE = frozenset({"resolved_by"})
    step: int = Field(ge=0)
    phase: DecisionPhase = DecisionPhase.BOUNDARY
    decision: ContinuationDecision
    should_continue: bool = True
    resolved_by: str
    stop_reason: StopReason = StopReason.COMPLETED
    retries: bool = False
    answered: bool = False


class RetryScheduled(Event):
    """A failed step will be followed by another try after `delay_seconds`, at `due_at` (microseconds of UTC).

    The delay follows from the error policy and from `draw`, a random number.
    """

    TYPE = "retry.scheduled.v1"
    KIND = EventKind.INTENT
    error_type: ErrorType
    failures: int = Field(ge=1)
    draw: float = Field(ge=0, lt=1)
    delay_seconds: float = Field(ge=0)
    due_at: int
    retry_after: float | None = None


DecisionEvent = EvaluationsRecorded | ContinuationEvaluated | RetryScheduled | WaitStarted | WaitEnded
