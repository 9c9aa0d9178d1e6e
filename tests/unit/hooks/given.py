"""States at the points where hooks run, folded from the events that lead there."""

from collections.abc import Sequence

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    SessionStarted,
    StepCompleted,
    StepStarted,
    ToolExecutionCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.digests import digest_of
from steptrail.domain.hooks.state import HookRecorder, HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ModelInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.domain.version import VERSION
from steptrail.hooks import HookStack
from steptrail.testing import calls

_AGENT = AgentSnapshot(
    name="calc", model=ModelInfo(driver="scripted", model="m"), fingerprint="f", tools=(ToolSpec(name="read"),)
)

_STARTED: tuple[AgentEvent, ...] = (
    SessionStarted(name="calc", metadata={"city": "Bern"}),
    ExecutionStarted(
        execution_id="s:1",
        ordinal=1,
        segment=1,
        worker="w",
        input=Message.user("go"),
        agent=_AGENT,
        by="user",
        library=VERSION,
    ),
)


def fold(*events: AgentEvent) -> AgentState:
    return evolve_all(initial("s"), (Recorded(number, number, event) for number, event in enumerate(events, 1)))


def at_boundary(*more: AgentEvent) -> AgentState:
    """Return the state before the first step, or after `more`."""
    return fold(*_STARTED, *more)


def in_calls(*tools: str, done: int = 0) -> AgentState:
    """Return the state of a step that called these tools, the first `done` of which have returned."""
    wanted: list[tuple[str, dict[str, JsonValue]]] = [(tool, {"n": number}) for number, tool in enumerate(tools)]
    reply = calls(*wanted)
    going = ContinuationEvaluated(
        step=0, decision=ContinuationDecision.REQUEST, should_continue=True, resolved_by="ToolCallPresenceCheck"
    )
    return at_boundary(
        going,
        StepStarted(number=1),
        InferenceStarted(step=1, model="m", request_digest="d", message_count=1),
        InferenceCompleted(reply=reply, duration_seconds=0.0),
        *(event for number in range(done) for event in _called(number, tools[number])),
    )


def _called(position: int, tool: str) -> tuple[AgentEvent, AgentEvent]:
    started = ToolExecutionStarted(
        position=position,
        call_id=f"call-{position + 1}",
        tool=tool,
        effect_id=f"s:1:1:{position}",
        effect=ToolEffect.UNSAFE,
        arguments_digest=digest_of({"n": position}),
    )
    return started, ToolExecutionCompleted(position=position, result="ok", duration_seconds=0.0)


def step_done(state: AgentState) -> AgentState:
    at = state.version + 1
    return evolve_all(state, [Recorded(at, at, StepCompleted(number=1, duration_seconds=0.0))])


def seen_by(hook_type: HookType, state: AgentState, *, position: int | None = None) -> HookState:
    """Return the state as a hook of that type is given it."""
    return HookState(state.fold, as_of=state.as_of, recorder=HookRecorder(hook_type, position, hook="tests.hook"))


async def process(
    stack: HookStack, hook_type: HookType, state: AgentState, *, position: int | None = None
) -> Sequence[AgentEvent]:
    """Run the hooks of one phase and return what they recorded."""
    return await stack.process(hook_type, state, step=state.step_count, position=position)
