"""Where the messages of a conversation come from: each has one origin, also after the steps that made it are gone."""

import pytest

from steptrail.domain.agent.events import MessagesAppended
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.snapshot import SNAPSHOTS
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.failures import ErrorType
from steptrail.domain.messages import Message
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    answered,
    asked,
    broke,
    done,
    ended,
    finished,
    opened,
    returned,
    running,
    said,
    started,
    step,
    told,
    wants,
)

NOTE = MessagesAppended(
    messages=(Message.user("check it"), Message.user("twice")), source=MessageSource.HOOK, by="critic"
)


def origins(scenario: AgentScenario) -> list[MessageOrigin]:
    assert len(scenario.state.message_origins) == len(scenario.state.messages)
    return list(scenario.state.message_origins)


def test_an_input_comes_from_no_step() -> None:
    assert origins(given(*opened())) == [MessageOrigin(START + SECOND, 1)]


def test_a_reply_and_the_results_of_its_calls_come_from_their_step_and_from_when_the_model_asked() -> None:
    scenario = given(*opened()).at(
        START + 100 * SECOND, *step(), asked(), wants("look", "look"), running(), returned(), running(1), broke(1)
    )
    replied_at = START + 103 * SECOND
    assert origins(scenario.and_(ended(errors=1)))[1:] == [
        MessageOrigin(replied_at, 1, 1),
        MessageOrigin(replied_at, 1, 1, None, 0, CallStatus.COMPLETED, None, 1.0),
        MessageOrigin(replied_at, 1, 1, None, 1, CallStatus.FAILED, ErrorType.TOOL, 1.0),
    ]


def test_what_is_said_during_a_step_has_the_time_at_which_it_was_said() -> None:
    scenario = given(*opened(), *step(), asked()).at(START + 100 * SECOND, told("hurry"), said("done"), ended())
    assert origins(scenario)[1:] == [
        MessageOrigin(START + 101 * SECOND, 1, 1),
        MessageOrigin(START + 100 * SECOND, 1),
    ]


def test_what_a_hook_says_names_the_hook() -> None:
    assert [origin.hook for origin in origins(given(*opened(), *answered(), NOTE))] == [None, None, "critic", "critic"]


def test_the_next_execution_takes_none_of_them_away() -> None:
    scenario = given(*opened(), *answered(), done(1), finished())
    again = scenario.and_(started(ordinal=2, segment=2))
    assert origins(again)[:-1] == origins(scenario)
    assert origins(again)[-1].execution == 2


def test_they_come_back_from_a_snapshot() -> None:
    scenario = given(*opened(), *answered(), done(1), finished())
    again = SNAPSHOTS.load(SNAPSHOTS.dump(scenario.state))
    assert list(again.message_origins) == origins(scenario)
    more = evolve_all(again, given(*opened(), *answered(), done(1), finished(), NOTE).records[-1:])
    assert more.message_origins[-1].hook == "critic"


@pytest.mark.parametrize("damage", [b"[]", b"null", b'[["x",1]]'])
def test_a_snapshot_that_does_not_know_where_its_messages_come_from_is_refused(damage: bytes) -> None:
    written, *lines = SNAPSHOTS.dump(given(*opened()).state)
    origin = b"[[%d,1,null,null,null,null,null,0.0,false,false]]" % (START + SECOND)
    assert origin in written
    with pytest.raises(ValueError, match=r"Expected `(array|int)`|come from"):
        SNAPSHOTS.load([written.replace(origin, damage), *lines])


def test_a_session_without_messages_has_no_origins() -> None:
    assert list(initial("session").message_origins) == []
    assert SNAPSHOTS.load(SNAPSHOTS.dump(initial("session"))) == initial("session")
