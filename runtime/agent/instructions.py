"""The instructions of an agent that functions of the service write while a run goes on."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias

from msgspec import Struct

from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded, InstructionsResolved
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.shown import ShownState
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.names import chosen_name, function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instructions import InstructionsPlace, InstructionsSpec, InstructionsTime
from steptrail.domain.kernel.given import a_function, a_text, one_of
from steptrail.domain.storable import storable
from steptrail.runtime.agent.run_log import failed_vote
from steptrail.runtime.kernel.cancellation import is_asked_to_end


class InstructionsState(ShownState):
    """The state that a function of instructions gets. All its values are copies."""

    __slots__ = ()

    @property
    def resources(self) -> Any:
        """The things that are open for the run. Raises `ConfigurationError` when none are."""
        return self._means.resources


InstructionsFunction: TypeAlias = Callable[[InstructionsState], str | Awaitable[str | None] | None]
"""Returns the text of instructions for a state; None for none. It may be async, and is asked again after a crash."""


class WrittenInstructions(Struct, frozen=True):
    """A function that writes instructions, and what is recorded of them."""

    spec: InstructionsSpec
    function: InstructionsFunction


class Instructions:
    """The instructions of an agent, in the order in which they are asked for. Immutable."""

    def __init__(self, written: tuple[WrittenInstructions, ...] = ()) -> None:
        self.written = written

    @property
    def specs(self) -> tuple[InstructionsSpec, ...]:
        """The instructions as they are recorded."""
        return tuple(each.spec for each in self.written)

    def with_function(
        self, function: InstructionsFunction, *, every: str, at: str, name: str, whose: str
    ) -> "Instructions":
        """Return them with one more. Raises `ConfigurationError` for what is no function, and for a taken name."""
        a_function(function, f"{whose}: what writes instructions", "the state")
        called = chosen_name(a_text(name, f"{whose}: the name of instructions").strip() or function_name(function))
        if called in {spec.name for spec in self.specs}:
            raise ConfigurationError(f"{whose} has two instructions named {called!r}: give one of them another `name`")
        spec = InstructionsSpec(
            name=called,
            every=one_of(InstructionsTime, every, f"{whose}: `every` of instructions", "the times"),
            at=one_of(InstructionsPlace, at, f"{whose}: `at` of instructions", "the places"),
        )
        return Instructions((*self.written, WrittenInstructions(spec, function)))

    async def resolve(
        self, state: AgentState, names: Collection[str], means: Means, within: float | None
    ) -> tuple[AgentEvent, ...]:
        """Ask the functions of these names; return the texts that changed.

        The last event is a vote to stop when a function raised, or when all together did not answer `within` so many
        seconds. The functions after it are not asked then.
        """
        until = None if within is None else asyncio.get_running_loop().time() + within
        changed = list[AgentEvent]()
        for each in self.written:
            name = each.spec.name
            if name not in names:
                continue
            limit = asyncio.timeout_at(until)
            try:
                shown = InstructionsState(state.fold, as_of=state.as_of, means=means)
                async with limit:
                    given = each.function(shown)
                    text = _text(await given if inspect.isawaitable(given) else given)
            except asyncio.CancelledError:
                if is_asked_to_end():
                    raise
                error: Exception = RuntimeError("the function cancelled itself, and nobody had asked it to")
            except Exception as raised:
                error = TimeoutError("it used up the time that the run had left") if limit.expired() else raised
            else:
                if text != state.instructions.get(name, ""):
                    changed.append(InstructionsResolved(name=name, text=text))
                continue
            return (*changed, failed_instructions(state, name, error))
        return tuple(changed)


def failed_instructions(state: AgentState, name: str, error: Exception) -> EvaluationsRecorded:
    """Log that a function of instructions failed, and return its vote to stop."""
    return EvaluationsRecorded(votes=(failed_vote(state.agent_id, "the instructions", name, error),), hook=name)


def _text(given: object) -> str:
    """Return the text of an answer, without white space around it; empty for None. Raises for what is no text."""
    if given is None:
        return ""
    if not isinstance(given, str):
        raise TypeError(f"instructions are a text or None, and this function returned {type(given).__name__}")
    return str(storable(given, "the text of instructions")).strip()
