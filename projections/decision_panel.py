"""One decision of a run: the votes that it resolved, and how near each limit was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.votes import Votes, resolved_votes, take_votes
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import LIMITS
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.kernel.record import Recorded

_MONEY = ("costUsd", "maxCostUsd")
_AMOUNTS: Final[Mapping[str, tuple[str, str]]] = {
    kind.__name__: getattr(kind, "keys", _MONEY) for kind in LIMITS.values()
}
"""Name of a limit -> the keys of the used and of the allowed amount in the context of its votes."""


class DecisionPanel(NamedTuple):
    """A decision, as it was stored, with its votes in their order, and the one of them that decided; None for none."""

    taken: Recorded[stored.ContinuationEvaluated]
    votes: Votes
    deciding: ContinuationEvaluation | None


@dataclass(slots=True)
class _Ballot:
    votes: Votes = ()
    guard_votes: Votes = ()
    decided_votes: Votes = ()


def decision_panel(records: Sequence[Recorded[stored.AgentEvent]], version: int) -> DecisionPanel | None:
    """Return the decision in event `version`; None when that is no decision among these records.

    The records must reach back to the decision before it, or the votes that lie further back are left out.
    """
    ballot = _Ballot()
    for record in records:
        match record.event:
            case stored.ExecutionStarted():
                ballot = _Ballot()
            case stored.ExecutionResumed():
                ballot.guard_votes = ()
            case stored.EvaluationsRecorded() as cast:
                take_votes(ballot, cast)
            case stored.ContinuationEvaluated() as taken:
                votes = resolved_votes(ballot, taken.phase)
                if record.version == version:
                    deciding = ContinuationOutcome.from_evaluations(votes).deciding_vote
                    return DecisionPanel(Recorded(version, record.at, taken), votes, deciding)
                if taken.phase is not DecisionPhase.RESUME or not taken.should_continue:
                    ballot.decided_votes = votes
            case _:
                pass
    return None


def share_of_limit(vote: ContinuationEvaluation) -> float | None:
    """Return the part of its limit that is used, from 0, by a vote; None for what is no limit of a number."""
    keys = _AMOUNTS.get(vote.criterion_class)
    if keys is None or not all(key in vote.context for key in keys):
        return None
    try:
        used, most = (Decimal(str(vote.context[key])) for key in keys)
    except InvalidOperation:
        return None
    if not (used.is_finite() and most.is_finite()) or most < 0:
        return None
    return float(used / most) if most else 1.0
