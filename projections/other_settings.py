"""A recorded session in which other settings stand, and what follows from them there.

What followed in the log is concluded again by the code that ran. As long as that comes to the same, the log is the
record of the run with the other settings too. Where the two part, nothing that comes after is evidence: an end there is
exact, and anything else is unknown.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn, TypeAlias

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.conclude import Judges, conclude
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.effects import Effect, TakeDecision
from steptrail.domain.agent.evolve import evolve_all
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.what_if import Used

Judging: TypeAlias = Callable[[AgentState, Sequence[Criterion] | None], Judges]
"""Makes the judges of an execution, with these criteria beside the built-in ones; None for those of an agent."""


class WhatIfQuestion(NamedTuple):
    """The other settings. `changed` returns an agent with them, or raises `ConfigurationError`.

    `brings_criteria` says that the judges have criteria of an agent, so that no recorded vote stands in for them.
    `trusts_tools` says that tools which get a context do nothing otherwise because of another limit.
    """

    changed: Callable[[AgentSnapshot], AgentSnapshot]
    judges: Judging
    brings_criteria: bool = False
    trusts_tools: bool = False


class Parts(Exception):
    """The recorded run and the other one part at event `at`. `ended` is the state of one that stops there.

    `is_the_end` says that the recorded one stopped there, `is_unasked` that the other settings are none for it.
    """

    def __init__(
        self, why: str, at: int, *, ended: AgentState | None = None, is_the_end: bool = False, is_unasked: bool = False
    ) -> None:
        self.why, self.at, self.ended, self.is_the_end, self.is_unasked = why, at, ended, is_the_end, is_unasked
        self.used = Used()
        self.fork_at: int | None = None


class OtherSettings:
    """A session as it was recorded, with other settings in its state.

    `judges` is None where the settings are the recorded ones, and from where the runs part.
    """

    def __init__(self, state: AgentState, question: WhatIfQuestion) -> None:
        self.state, self.question = state, question
        self.recorded: AgentSnapshot | None = None
        self.judges: Judges | None = None
        self.has_other_policy = self.has_other_time = False

    def put_in(self) -> None:
        """Put the other settings in the place of the recorded ones. Raises `ConfigurationError`."""
        execution = self.execution
        recorded, other = execution.agent, self.question.changed(execution.agent)
        if other == recorded and not self.question.brings_criteria:
            return
        self.has_other_policy = other.error_policy != recorded.error_policy
        self.has_other_time = _times(other) != _times(recorded)
        self.recorded, execution.agent = recorded, other
        self.judges = self.question.judges(self.state, None if self.question.brings_criteria else ())

    def take_out(self, *states: AgentState) -> None:
        """Put the recorded settings back, in other states too that were made of this one. Nothing is concluded then."""
        for state in (self.state, *states):
            if self.judges is not None and self.recorded is not None and state.execution is not None:
                state.execution.agent = self.recorded
        self.judges = None

    @property
    def execution(self) -> ExecutionFold:
        """The execution."""
        execution = self.state.execution
        assert execution is not None  # noqa: S101 - only events of an execution are looked at
        return execution

    def due(self, at: int) -> Effect | None:
        """Return the effect that is due at an instant; None when none is."""
        return next_of(self.state, at)

    def concluded(self, effect: Effect | None, at: int, state: AgentState | None = None) -> Sequence[stored.AgentEvent]:
        """Return the events that the effect comes to without the world; none where it needs that."""
        if effect is None or self.judges is None:
            return ()
        return conclude((state or self.state).at(at), effect, at, self.judges) or ()

    @contextmanager
    def as_recorded(self) -> Generator[None]:
        """Have the recorded settings in the state."""
        execution, other = self.execution, self.execution.agent
        execution.agent = self.recorded or other
        try:
            yield
        finally:
            execution.agent = other

    def stop(self, events: Sequence[stored.AgentEvent], at: int, version: int, state: AgentState) -> NoReturn:
        """Part with the end that these votes and this decision are, unless something could have prevented it."""
        ended = evolve_all(state, records_of(at, state, events))
        outcome = ended.last_continuation_outcome
        if outcome is None or (not outcome.is_forbidden() and self.execution.agent.has_hooks(HookType.STOP)):
            raise Parts("its Stop hooks would have been asked, which could have prevented an end there", version)
        raise Parts("", version, ended=ended)

    def stop_of(self, effect: Effect | None, at: int, version: int, state: AgentState | None = None) -> None:
        """Part where a decision is due that ends the run."""
        if isinstance(effect, TakeDecision):
            events = self.concluded(effect, at, state)
            if any(isinstance(each, stored.ContinuationEvaluated) and not each.should_continue for each in events):
                self.stop(events, at, version, state or self.state)


def _times(agent: AgentSnapshot) -> tuple[float | None, float | None]:
    return agent.limits.binding("timeout"), agent.limits.binding("cumulative_timeout")


def next_of(state: AgentState, at: int) -> Effect | None:
    """Return the effect that is due in a state at an instant; None when none is."""
    return next(iter(next_effects(state.at(at), at)), None)


def records_of(
    at: int, state: AgentState, events: Sequence[stored.AgentEvent]
) -> Sequence[Recorded[stored.AgentEvent]]:
    """Return events as they would be recorded after a state."""
    return [Recorded(state.version, at, event) for event in events]
