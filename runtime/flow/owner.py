"""Connects runs of workflows to the kernel: makes their performers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from steptrail.domain.flow.commands import FlowCommand
from steptrail.domain.flow.effects import FlowEffect
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.given import a_plain_function
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.flow.means import WITHOUT, FlowMeans
from steptrail.runtime.flow.performer import FlowRunner
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.runtime.kernel.segment import Perform, Segment

FlowStream: TypeAlias = StreamControl[FlowState, FlowCommand, FlowEvent, FlowEffect]

OnFlowCommit: TypeAlias = Callable[[Sequence[Recorded[FlowEvent]]], None]
"""Is told of the events that this process stores in a stream of a workflow."""


class FlowOwner:
    """Makes the performers of one stream of a workflow, and its `stream` that they drive."""

    def __init__(
        self,
        environment: Environment,
        flow_id: str,
        means: FlowMeans = WITHOUT,
        on_commit: OnFlowCommit | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        if on_update is not None:
            a_plain_function(on_update, "`on_update`", "an update")
        self._env, self._means, self._on_update = environment, means, on_update
        self.stream: FlowStream = FlowStream(
            FLOW,
            environment,
            flow_stream(flow_id),
            alone=self.performed_by(None),
            below=partial(control_of, environment),
            on_commit=on_commit,
        )

    def performed_by(self, flow: BuiltWorkflow | None) -> Perform[FlowState, FlowEvent, FlowEffect]:
        """Return a function that makes performers; without a workflow they only close what is open."""
        return partial(self._runner, flow)

    def _runner(self, flow: BuiltWorkflow | None, segment: Segment[FlowState, FlowEvent]) -> FlowRunner:
        env, journal = self._env, segment.journal
        metadata = journal.committed.metadata
        return FlowRunner(
            journal,
            flow,
            segment.flight,
            self._means,
            reach=env.reach,
            draw=env.draw,
            child_of=partial(ChildPlace.below, env, metadata, takes_over=segment.took_over),
            watching=partial(env.watcher, journal.stream, self._on_update, lambda: journal.committed.version),
            forget=partial(env.fanout.forget, journal.stream),
            stop_below=self.stream.stop_below,
        )
