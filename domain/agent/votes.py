"""Gathers the votes of decisions as they are recorded, and says which of them a decision resolves.

A resume is decided by guards alone. The votes that were cast before it stay for the decision of their own moment.
"""

from typing import Protocol

from steptrail.domain.agent.events.decisions import DecisionPhase, EvaluationsRecorded
from steptrail.domain.continuation.evaluation import ContinuationEvaluation

Votes = tuple[ContinuationEvaluation, ...]


class Ballot(Protocol):
    """The votes that no decision has resolved yet, those of guards on a resume, and those of the last decision."""

    votes: Votes
    guard_votes: Votes
    decided_votes: Votes


def take_votes(ballot: Ballot, event: EvaluationsRecorded) -> None:
    """Add votes. Those of the criteria come first in the trace, also when hooks have voted before them."""
    if event.phase is DecisionPhase.END:
        return
    if event.phase is DecisionPhase.RESUME:
        ballot.guard_votes = (*ballot.guard_votes, *event.votes)
    elif event.hook is not None:
        ballot.votes = (*ballot.votes, *event.votes)
    else:
        ballot.votes = (*event.votes, *ballot.votes)


def resolved_votes(ballot: Ballot, phase: DecisionPhase) -> Votes:
    """Return the votes that a decision of this phase resolves, and take them away."""
    if phase is DecisionPhase.RESUME:
        votes, ballot.guard_votes = ballot.guard_votes, ()
    elif phase is DecisionPhase.STOP:
        votes, ballot.votes = (*ballot.decided_votes, *ballot.votes), ()
    else:
        votes, ballot.votes = ballot.votes, ()
    return votes
