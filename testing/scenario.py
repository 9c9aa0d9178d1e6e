"""Scenarios of a machine as sentences: given these events, when this command comes, then exactly these events follow.

    given(SessionStarted(name="a"), started()).when(Stop(by="ana")).then(StopRequested(by="ana"))
    given(SessionStarted(name="a"), started()).next().is_(TakeDecision(0, "boundary"))

Events are plain payloads. They get versions from 1 and instants one second apart; `at(instant, …)` sets the instant
from which the next ones count on. `Given(MACHINE)` begins a scenario of any other machine of the kernel.
"""

from dataclasses import dataclass, replace
from typing import Generic

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.machine import C, E, F, Machine, S
from steptrail.domain.kernel.record import Recorded

SECOND = 1_000_000
"""Microseconds."""
START = 1_767_225_600 * SECOND
"""The instant of the first event: 2026-01-01 00:00:00 UTC."""


@dataclass(frozen=True)
class Given(Generic[S, C, E, F]):
    """The events so far. `clock` is the instant of the next event."""

    machine: Machine[S, C, E, F]
    session: str = "session"
    records: tuple[Recorded[E], ...] = ()
    clock: int = START

    @property
    def state(self) -> S:
        """The state after everything given."""
        return self.machine.evolve_all(self.machine.initial(self.session), self.records)

    def and_(self, *events: E) -> "Given[S, C, E, F]":
        """Add events, one second apart."""
        first = len(self.records) + 1
        more = tuple(Recorded(first + i, self.clock + i * SECOND, event) for i, event in enumerate(events))
        return replace(self, records=self.records + more, clock=self.clock + len(events) * SECOND)

    def at(self, instant: int, *events: E) -> "Given[S, C, E, F]":
        """Add events from this instant on; without events, only set the clock."""
        return replace(self, clock=instant).and_(*events)

    def when(self, command: C) -> "When[S, C, E, F]":
        """Let a command come in."""
        return When(self, command)

    def next(self, now: int | None = None) -> "Next[S, C, E, F]":
        """Ask what is due at `now`, or at the clock."""
        return Next(self, self.clock if now is None else now)


@dataclass(frozen=True)
class When(Generic[S, C, E, F]):
    """A command on its way."""

    given: Given[S, C, E, F]
    command: C

    def then(self, *events: E) -> Given[S, C, E, F]:
        """Expect exactly these events in this order; return the scenario with them in it."""
        __tracebackhide__ = True
        made = self.given.machine.decide(self.given.state, self.command)
        assert made == events
        return self.given.and_(*events)

    def then_nothing(self) -> Given[S, C, E, F]:
        """Expect that the command is accepted and leads to no event."""
        __tracebackhide__ = True
        return self.then()

    def then_rejected(self, saying: str) -> CommandRejected:
        """Expect a `CommandRejected` whose text holds `saying`; return it."""
        __tracebackhide__ = True
        refused: CommandRejected | None = None
        made: tuple[E, ...] = ()
        try:
            made = self.given.machine.decide(self.given.state, self.command)
        except CommandRejected as error:
            refused = error
        assert refused is not None, f"it was accepted and brought about {made!r}"
        assert saying in str(refused)
        return refused


@dataclass(frozen=True)
class Next(Generic[S, C, E, F]):
    """A question for what is due at an instant."""

    given: Given[S, C, E, F]
    now: int

    @property
    def effects(self) -> tuple[F, ...]:
        """The answer of the machine."""
        return self.given.machine.next_effects(self.given.state, self.now)

    def is_(self, *effects: F) -> Given[S, C, E, F]:
        """Expect exactly these effects; return the scenario, which asking does not change."""
        __tracebackhide__ = True
        assert self.effects == effects
        return self.given

    def is_nothing(self) -> Given[S, C, E, F]:
        """Expect that only a command can bring the stream on."""
        __tracebackhide__ = True
        return self.is_()


AgentScenario = Given[AgentState, Command, AgentEvent, Effect]
"""A scenario of an agent's session."""


def given(*events: AgentEvent) -> AgentScenario:
    """Begin a scenario of an agent's session with what has happened."""
    return Given(AGENT).and_(*events)
