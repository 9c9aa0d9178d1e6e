"""Connects sessions of agents to the kernel: makes their performers, and places for the streams of their calls."""

from functools import partial
from typing import TypeAlias

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.given import a_plain_function
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.performer import Runner
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.segment import Perform, Segment

AgentStream: TypeAlias = StreamControl[AgentState, Command, AgentEvent, Effect]


class SessionOwner:
    """Makes the performers of one session, and its `stream` that they drive."""

    def __init__(
        self,
        environment: Environment,
        session: SessionId,
        on_commit: OnCommit | None,
        on_update: OnUpdate | None,
    ) -> None:
        if on_update is not None:
            a_plain_function(on_update, "`on_update`", "an update")
        self._env, self._on_update = environment, on_update
        self.stream: AgentStream = AgentStream(
            AGENT,
            environment,
            stream_of(session),
            alone=self.performed_by(None),
            below=partial(control_of, environment),
            on_commit=on_commit,
        )

    def performed_by(self, agent: AnyAgent | None) -> Perform[AgentState, AgentEvent, Effect]:
        """Return a function that makes performers of an agent; None makes performers that only close what is open."""
        return partial(self._runner, agent)

    def _runner(self, agent: AnyAgent | None, segment: Segment[AgentState, AgentEvent]) -> Runner:
        env, journal = self._env, segment.journal
        metadata = journal.committed.metadata
        return Runner(
            journal,
            agent,
            segment.flight,
            reach=env.reach,
            watching=partial(env.watcher, journal.stream, self._on_update, lambda: journal.committed.version),
            child_of=partial(ChildPlace.below, env, metadata, takes_over=segment.took_over),
            draw=env.draw,
            forget=partial(env.fanout.forget, journal.stream),
        )
