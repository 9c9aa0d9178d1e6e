"""Instructions that are written while a run goes on: when their functions are asked, and how long a text is shown."""

from typing import cast

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.effects import Record, ResolveInstructions, TakeDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    InstructionsResolved,
    StepStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.snapshot import SNAPSHOTS
from steptrail.domain.instructions import InstructionsPlace, InstructionsSpec, InstructionsTime, instructing
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import StopReason
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    agent,
    answered,
    decided,
    done,
    finished,
    forbid,
    opened,
    resumed,
    started,
    stop_asked,
)

ONCE = InstructionsSpec(name="once", every=InstructionsTime.EXECUTION, at=InstructionsPlace.SYSTEM)
EACH = InstructionsSpec(name="each", every=InstructionsTime.STEP, at=InstructionsPlace.TAIL)
MORE = structs.replace(ONCE, name="more")


def with_instructions(*specs: InstructionsSpec) -> AgentSnapshot:
    return structs.replace(agent(), instructions=specs)


AGENT = with_instructions(ONCE, EACH)
FIRST = (*opened(AGENT), decided(0))
BOTH, ONE = ResolveInstructions(1, ("once", "each")), ResolveInstructions(2, ("each",))
A, NONE = InstructionsResolved(name="each", text="a"), InstructionsResolved(name="each", text="")


def texts_after(*events: AgentEvent) -> dict[str, str]:
    return dict(given(*events).state.instructions)


def test_the_functions_are_asked_once_it_was_decided_to_start_a_step() -> None:
    given(*opened(AGENT)).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))
    given(*FIRST).next().is_(BOTH)


def test_those_of_an_execution_are_asked_before_its_first_step_and_those_of_a_step_before_each() -> None:
    given(*opened(AGENT), *answered(1), decided(1)).next().is_(ONE)
    over = (*opened(AGENT), *answered(1), done(1), finished())
    given(*over, started(AGENT, ordinal=2), decided(0)).next().is_(BOTH)


def test_those_that_a_changed_agent_brings_are_asked_before_the_next_step() -> None:
    changed = structs.replace(resumed(), agent=with_instructions(ONCE, MORE))
    scenario = given(*opened(AGENT), *answered(1), changed, decided(1))
    scenario.next().is_(ResolveInstructions(2, ("more",)))


def test_a_stop_after_the_decision_asks_no_function() -> None:
    given(*FIRST, stop_asked()).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_the_vote_of_a_function_that_failed_is_counted_before_a_step_starts_also_after_a_crash() -> None:
    failed = structs.replace(forbid("once", StopReason.GUARD), hook="once")
    given(*FIRST, failed).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))
    recovered = (*FIRST, failed, resumed(), decided(0, phase=DecisionPhase.RESUME))
    given(*recovered).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_a_text_holds_until_the_function_gives_another() -> None:
    over = (*FIRST, A, *answered(1)[1:], done(1), finished(), started(AGENT, ordinal=2))
    assert texts_after(*over) == {"each": "a"}
    assert texts_after(*over, NONE) == {}


def test_the_texts_of_a_state_cannot_be_changed() -> None:
    texts = cast("dict[str, str]", given(*FIRST, A).state.instructions)
    with pytest.raises(TypeError):
        texts["each"] = "b"


def test_a_snapshot_keeps_the_texts_and_who_was_asked() -> None:
    state = given(*FIRST, A, StepStarted(number=1)).state
    again = SNAPSHOTS.load(SNAPSHOTS.dump(state))
    assert again.instructions == {"each": "a"}
    assert again.execution is not None
    assert again.execution.instructed == ("once", "each")


def test_texts_of_the_system_are_one_message_and_those_of_the_tail_are_fenced() -> None:
    tail = structs.replace(EACH, name="last")
    texts = {"once": "A.", "more": "B.", "each": "C.", "last": "D.", "gone": "never shown"}
    assert instructing((ONCE, EACH, MORE, tail), texts) == (
        (Message.system("A.\n\nB."),),
        (Message.user("<instructions>C.</instructions>\n<instructions>D.</instructions>"),),
    )
    assert instructing((ONCE, EACH), {}) == ((), ())


def test_an_agent_without_instructions_starts_its_steps_at_once() -> None:
    given(*opened(), decided(0)).next().is_(Record((StepStarted(number=1),)))
