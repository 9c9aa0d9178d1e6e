"""Connects runs of workflows to the kernel."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from steptrail.domain.flow.commands import FlowCommand
from steptrail.domain.flow.effects import FlowEffect
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.flow.means import WITHOUT, FlowMeans
from steptrail.runtime.flow.performer import FlowRunner
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.live_updates import OnUpdate

FlowStream: TypeAlias = StreamControl[FlowState, FlowCommand, FlowEvent, FlowEffect]

OnFlowCommit: TypeAlias = Callable[[Sequence[Recorded[FlowEvent]]], None]
"""Is told of the events that this process stores in a stream of a workflow."""


def run_stream(
    environment: Environment,
    flow_id: str,
    means: FlowMeans = WITHOUT,
    on_commit: OnFlowCommit | None = None,
    on_update: OnUpdate | None = None,
) -> FlowStream:
    """Return the control of the stream of a run."""
    alone = partial(FlowRunner, None, means)
    return FlowStream(FLOW, environment, flow_stream(flow_id), alone=alone, on_commit=on_commit, on_update=on_update)
