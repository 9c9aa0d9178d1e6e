"""Every command in every phase: accepted with these events, accepted again with none, or refused with what to do."""

import pytest
from msgspec import structs

from steptrail.domain.agent.commands import Command, Send, Start
from steptrail.domain.agent.events import AgentEvent, ExecutionPaused, MessagesAppended, PauseRequested, StopRequested
from steptrail.domain.agent.interruptions import was_productive
from steptrail.domain.agent.phases import Phase
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    AGENT,
    answered,
    done,
    finished,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    start,
    stop_asked,
    told,
)
from tests.unit.agent.test_pause_and_stop import OPEN

CLOSED: dict[str, tuple[AgentEvent, ...]] = {
    "absent": (),
    "idle": (*opened(), *answered(), done(1), finished()),
}
RUNNING = {**OPEN, "paused": (*opened(), pause_asked(), paused())}
SEND = Send(messages=(Message.user("more"),))
PAUSE = Pause(by="ana", reason="lunch")
STOP = Stop(by="ana", reason="enough")


@pytest.mark.parametrize("where", CLOSED)
def test_a_start_is_accepted_when_nothing_is_open(where: str) -> None:
    scenario = given(*CLOSED[where])
    ordinal = scenario.state.fold.executions + 1
    began = structs.replace(opened()[1], execution_id=f"session:{ordinal}", ordinal=ordinal, segment=ordinal)
    opening = opened()[:1] if where == "absent" else ()
    scenario.when(start()).then(*opening, began)


def test_a_start_says_where_the_session_comes_from() -> None:
    parent = ParentRef(kind="agent", session="p", execution="p:1", effect="p:1:1:0")
    command = Start(input=Message.user("hello"), agent=AGENT, worker="w", metadata={"team": "a"}, parent=parent)
    session, execution = opened()
    session = structs.replace(session, parent=parent, metadata={"team": "a"})
    scenario = given().when(command).then(session, execution)
    assert scenario.state.parent_agent_id == "p"
    assert scenario.state.metadata == {"team": "a"}


@pytest.mark.parametrize("where", RUNNING)
def test_a_start_is_refused_while_an_execution_is_open(where: str) -> None:
    given(*RUNNING[where]).when(start(text="more")).then_rejected(
        "another input: `send` adds this to it, `resume` goes on with it, `stop` ends it"
    )
    given(*RUNNING[where]).when(start(key="new")).then_rejected(
        "this input without this key: `send` adds this to it, `run` goes on with it, `stop` ends it"
    )


@pytest.mark.parametrize("where", RUNNING)
def test_a_message_is_accepted_while_an_execution_is_open(where: str) -> None:
    given(*RUNNING[where]).when(SEND).then(MessagesAppended(messages=SEND.messages, by="user"))


@pytest.mark.parametrize("where", RUNNING)
def test_a_stop_is_accepted_once_while_an_execution_is_open(where: str) -> None:
    scenario = given(*RUNNING[where]).when(STOP).then(StopRequested(by="ana", reason="enough"))
    scenario.when(STOP).then_nothing()
    scenario.when(Stop(by="bob")).then_nothing()


@pytest.mark.parametrize("where", OPEN)
def test_a_pause_is_accepted_once_while_an_execution_is_open(where: str) -> None:
    scenario = given(*OPEN[where]).when(PAUSE).then(PauseRequested(by="ana", reason="lunch"))
    scenario.when(PAUSE).then_nothing()


def test_a_pause_of_what_is_paused_changes_nothing() -> None:
    given(*RUNNING["paused"]).when(PAUSE).then_nothing()


def test_a_person_takes_over_the_pause_that_a_cancelled_caller_left() -> None:
    left = (pause_asked("caller"), ExecutionPaused(by="caller", step_seconds=0.0))
    asked = (
        PauseRequested(by="ana", reason="lunch"),
        ExecutionPaused(by="ana", reason="lunch", step_seconds=0.0),
    )
    held = given(*opened(), *left).when(PAUSE).then(*asked)
    for again in (PAUSE, Pause(by="bob"), Pause(by="caller")):
        held.when(again).then_nothing()
    assert held.state.fold.resume_to is Phase.BOUNDARY


def test_a_request_of_a_worker_that_drains_gives_way_to_that_of_a_person() -> None:
    draining = given(*opened(), pause_asked("caller"))
    draining.when(Pause(by="caller")).then_nothing()
    asked = draining.when(PAUSE).then(PauseRequested(by="ana", reason="lunch"))
    asked.when(Pause(by="caller")).then_nothing()


@pytest.mark.parametrize("where", RUNNING)
def test_a_resume_is_accepted_while_an_execution_is_open(where: str) -> None:
    scenario = given(*RUNNING[where])
    ended_by = SegmentEnd.CRASH
    if where == "paused":
        ended_by = SegmentEnd.PAUSE
    elif where.startswith("waiting"):
        ended_by = SegmentEnd.WAIT
    since = scenario.state.fold.step.clock.since if scenario.state.fold.step else None
    scenario.when(resume(scenario.state.agent or AGENT, last_seen=since or 0)).then(
        resumed(scenario.state.fold.segment + 1, ended_by, productive=was_productive(scenario.state, ended_by))
    )


@pytest.mark.parametrize("where", CLOSED)
@pytest.mark.parametrize(
    ("command", "saying"),
    [
        (SEND, "start one with this input"),
        (PAUSE, "no execution is open"),
        (STOP, "no execution is open"),
        (resume(), "no execution is open"),
    ],
)
def test_without_an_open_execution_the_other_commands_are_refused(where: str, command: Command, saying: str) -> None:
    error = given(*CLOSED[where]).when(command).then_rejected(saying)
    assert error.session == "session"


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ((), start(key="k")),
        (opened(), Send(messages=(Message.user("more"),), key="k")),
        (opened(), Pause(by="ana", key="k")),
        (opened(), Stop(by="ana", key="k")),
    ],
)
def test_a_key_is_accepted_once_also_when_much_has_happened_since(
    before: tuple[AgentEvent, ...], command: Command
) -> None:
    scenario = given(*before)
    scenario = scenario.and_(*scenario.machine.decide(scenario.state, command))
    scenario.when(command).then_nothing()
    ended = scenario.and_(*answered(), done(1), finished())
    ended.when(command).then_nothing()


def test_another_key_is_another_command() -> None:
    scenario = given(*opened(), told("more", key="k1"))
    command = Send(messages=(Message.user("more"),), key="k2")
    scenario.when(command).then(told("more", key="k2"))


def test_the_first_stop_is_the_one_that_is_obeyed() -> None:
    state = given(*opened(), stop_asked("ana"), stop_asked("bob")).state
    assert state.stop_request is not None
    assert state.stop_request.by == "ana"


def test_a_stop_request_that_came_after_the_end_stops_nothing() -> None:
    state = given(*CLOSED["idle"], stop_asked()).state
    assert state.stop_request is None
