"""A fork goes on from another session's past: nothing in flight, nobody's request and no key comes along."""

import pytest

from steptrail.domain.agent.commands import Fork
from steptrail.domain.agent.effects import RunCalls, RunHooks, TakeDecision
from steptrail.domain.agent.events import AgentEvent, MetadataChanged, SessionForked, WaitStarted
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.standing import standing
from steptrail.domain.agent.state import AgentState
from steptrail.domain.base import full_form
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.forks import ForkRef
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    agent,
    answered,
    asked,
    decided,
    done,
    ended,
    finished,
    opened,
    pause_asked,
    paused,
    resume,
    returned,
    running,
    started,
    step,
    stop_asked,
    wants,
)

FORK = Fork(by="ana", digest="d1", reason="another model")


def one_step(*more: AgentEvent, key: str | None = None) -> AgentScenario:
    """A session between its first step and its second."""
    first = (*step(), asked(), wants("look"), running(), returned(), ended())
    return given(*opened(agent(hooks=(HookType.AFTER_STEP,)), key=key), *first, *more)


def forked(source: AgentScenario, command: Fork = FORK) -> AgentState:
    """Fork the session as it stands into one that is called `other`."""
    events = source.machine.decide(source.state, command)
    own = [Recorded(i, source.clock + i * SECOND, event) for i, event in enumerate(events, 1)]
    return evolve_all(initial("other"), [*source.records, *own])


def test_a_fork_between_two_steps_names_its_source_and_the_digest_there() -> None:
    source = one_step()
    (event,) = source.machine.decide(source.state, FORK)
    assert event == SessionForked(
        name="triage",
        source="session",
        version=source.state.version,
        digest="d1",
        by="ana",
        reason="another model",
        status=ExecutionStatus.PAUSED,
        executions=1,
        steps=1,
        agent=agent(hooks=(HookType.AFTER_STEP,)),
    )


def test_a_fork_has_the_past_of_its_source_and_a_name_of_its_own() -> None:
    source = one_step()
    state = forked(source, Fork(by="ana", digest="d", name="triage-b", metadata={"arm": "b"}))
    assert (state.agent_id, state.name, state.version) == ("other", "triage-b", 1)
    assert state.forked_from == ForkRef("session", source.state.version)
    assert list(state.messages) == list(source.state.messages)
    assert list(state.steps) == list(source.state.steps)
    assert dict(state.metadata) == {"arm": "b"}


def test_a_fork_tells_the_metadata_of_its_past_and_no_agent_where_no_execution_is_open() -> None:
    over = (decided(1), *answered(2), done(2), finished())
    source = one_step(*over, MetadataChanged(changes={"tenant": "acme", "arm": "a"}, by="ana"))
    (event,) = source.machine.decide(source.state, Fork(by="ana", digest="d", metadata={"arm": "b"}))
    assert isinstance(event, SessionForked)
    assert (event.metadata, event.agent) == ({"tenant": "acme", "arm": "b"}, None)


def test_a_fork_waits_for_a_resume_and_then_goes_on_between_the_steps() -> None:
    state = forked(one_step())
    assert (state.phase, state.status) == (Phase.PAUSED, ExecutionStatus.PAUSED)
    machine = one_step().machine
    assert machine.next_effects(state, state.as_of) == ()
    (resumed,) = machine.decide(state, resume(agent(hooks=(HookType.AFTER_STEP,))))
    on = machine.evolve_all(state, [Recorded(2, state.as_of, resumed)])
    assert on.fold.segment == 2
    assert full_form(resumed)["ended_by"] == SegmentEnd.PAUSE
    assert machine.next_effects(on, on.as_of) == (RunHooks(HookType.AFTER_STEP, 1),)


def test_what_a_fork_does_has_other_effect_ids_than_what_its_source_does() -> None:
    state = forked(one_step())
    assert state.execution_id == "other:1"
    machine = one_step().machine
    more = (*machine.decide(state, resume()), *step(2), asked(2), wants("look"))
    on = machine.evolve_all(state, [Recorded(i, state.as_of + i, event) for i, event in enumerate(more, 2)])
    assert machine.next_effects(on, on.as_of) == (RunCalls((0,)),)


@pytest.mark.parametrize("request_", [stop_asked(), pause_asked()])
def test_nobodys_request_comes_along(request_: AgentEvent) -> None:
    state = forked(one_step(request_))
    assert (state.stop_request, state.pause_request) == (None, None)


def test_no_key_comes_along_so_the_same_key_can_start_anew() -> None:
    source = given(*opened(key="k"), *answered(), done(1), finished())
    state = forked(source)
    assert state.fold.keys == {}
    assert state.status is ExecutionStatus.COMPLETED


def test_a_fork_of_a_finished_session_takes_up_the_next_input() -> None:
    source = given(*opened(), *answered(), done(1), finished())
    state = forked(source)
    machine = source.machine
    on = machine.evolve_all(state, [Recorded(2, state.as_of, started(ordinal=2, segment=2))])
    assert machine.next_effects(on, on.as_of) == (TakeDecision(0, DecisionPhase.BOUNDARY),)


@pytest.mark.parametrize(
    "source",
    [
        given(),
        given(*opened(), decided(0)),
        given(*opened(), *step()),
        given(*opened(), *step(), asked()),
        given(*opened(), *step(), asked(), wants("look")),
        given(*opened(), *step(), asked(), wants("look"), WaitStarted(kind="unknown_outcome", position=0)),
    ],
    ids=["absent", "continuing", "step", "inferring", "settling", "waiting"],
)
def test_a_fork_where_something_is_in_flight_is_refused(source: AgentScenario) -> None:
    source.when(FORK).then_rejected("fork where a step or an execution has ended")


def test_before_anything_was_started_a_fork_has_what_the_session_began_with_and_waits_for_nobody() -> None:
    source = given(opened()[0])
    state = forked(source)
    assert (state.status, state.execution, state.fold.executions) == (ExecutionStatus.PENDING, None, 0)
    stands = standing(state)
    assert (stands.state, stands.due_at, stands.is_open) == (StandingState.DONE, None, False)
    begun = started()
    on = source.machine.evolve_all(state, [Recorded(2, state.as_of, begun)])
    assert (on.execution_id, on.is_open) == (begun.execution_id, True)


def test_a_fork_of_a_fork_shares_both_pasts() -> None:
    source = one_step()
    machine = source.machine
    (first,) = machine.decide(source.state, FORK)
    past = [*source.records, Recorded(1, source.clock, first)]
    between = evolve_all(initial("other"), past)
    (second,) = machine.decide(between, FORK)
    state = evolve_all(initial("third"), [*past, Recorded(1, source.clock, second)])
    assert state.forked_from == ForkRef("other", 1)
    assert state.execution_id == "third:1"
    assert list(state.messages) == list(source.state.messages)
    assert state.phase is Phase.PAUSED


def test_a_pause_in_the_middle_of_a_step_is_no_place_to_fork() -> None:
    given(*opened(), *step(), paused()).when(FORK).then_rejected("it is in paused: fork where")
