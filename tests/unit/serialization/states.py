"""States with given messages, for serializers: of a session that has run nothing."""

from collections.abc import Sequence

from steptrail.domain.agent.events import AgentEvent, MessagesAppended, SessionStarted
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from tests.runner.kit import NOON


def state_of(messages: Sequence[Message]) -> AgentState:
    records: list[Recorded[AgentEvent]] = [
        Recorded(1, NOON, SessionStarted(name="a")),
        Recorded(2, NOON, MessagesAppended(messages=tuple(messages), by="user")),
    ]
    return evolve_all(initial("s"), records)
