"""A toy, an agent and a workflow are all machines, on both stores."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, cast

from steptrail import Agent, AgentBuilder, ToolEffect, tool
from steptrail.domain.agent.commands import Approve as ApproveCall, Start
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.flow.commands import StartFlow
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.state import FlowState
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import Writing
from steptrail.domain.messages import Message
from steptrail.domain.shared.forks import Fork as ForkRun
from steptrail.errors import Backoff
from steptrail.projections.kinds import PROJECTIONS, Bill, KindProjections
from steptrail.projections.lifecycle import RunEvent
from steptrail.runtime.agent.kind import session_stream
from steptrail.runtime.agent.performer import Runner
from steptrail.runtime.flow.control import brought
from steptrail.runtime.flow.kind import run_stream
from steptrail.runtime.flow.means import WITHOUT
from steptrail.runtime.flow.performer import FlowRunner
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import KINDS, Kind
from steptrail.runtime.kernel.live_updates import writes_nothing
from steptrail.runtime.kernel.segment import Segment
from steptrail.testing import call, say
from steptrail.tools import ToolRetry
from steptrail.workflow import BuiltWorkflow, RetryPolicy, RunOptions, Workflow
from tests.contracts.machine_contract import HOUR, ForkingContract, Subject, World
from tests.contracts.toy_machine import (
    TOY,
    Approve,
    Begin,
    Fork,
    Toy,
    ToyCommand,
    ToyEffect,
    ToyEvent,
    ToyPerformer,
)
from tests.kinds.bell import StandingExplainer


def _nothing_to_tell(toy: Toy) -> tuple[str, ...]:
    return ()


def _nobody_writes(toy: Toy) -> Writing:
    return writes_nothing


def _nothing_settles(event: Event) -> None:
    del event


def _alone(environment: Environment, stream: str) -> StreamControl[Any, Any, Any, Any]:
    """Return what takes commands to a toy; it closes what is open and counts no further."""

    def performing(segment: Segment[Toy, ToyEvent]) -> ToyPerformer:
        return ToyPerformer(segment, None)

    return StreamControl[Toy, ToyCommand, ToyEvent, ToyEffect](TOY, environment, stream, alone=performing)


def _free_of_charge(event: Event) -> None:
    del event


class _Untold:
    """Tells listeners nothing of a toy."""

    def __init__(self, toy: Toy) -> None:
        self.version = toy.version

    def copied(self) -> "_Untold":
        return copy(self)

    def apply(self, record: Recorded[Any], /, *, position: int | None = None) -> tuple[RunEvent, ...]:
        del position
        self.version = record.version
        return ()


if "toy:" not in KINDS:
    PROJECTIONS.add(
        "toy:", KindProjections(partial(StandingExplainer, TOY), Bill((), lambda: _free_of_charge), lifecycle=_Untold)
    )
    KINDS.add(
        "toy:", Kind(TOY, control=_alone, in_flight=_nothing_to_tell, writing=_nobody_writes, settles=_nothing_settles)
    )


class TestToy(ForkingContract):
    def subject(self, environment: Environment, name: str, world: World, *, asks: bool) -> Subject:
        def counting(segment: Segment[Toy, ToyEvent]) -> ToyPerformer:
            return ToyPerformer(segment, world.count)

        def begin(key: str | None) -> Callable[[Any, bool], Sequence[Any]]:
            return lambda _state, _took_over: (Begin(environment.worker, asks, key),)

        def approve(state: object) -> Approve:
            del state
            return Approve("ana")

        return Subject(_alone(environment, f"toy:{name}"), begin, counting, approve=approve, fork=Fork)


class CountingModel:
    """A model that counts to three, by what was counted so far."""

    def __init__(self, asks: bool) -> None:
        self._asks = asks

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="counting", model="counting")

    async def close(self) -> None:
        pass

    async def infer(self, request: ModelRequest) -> ModelReply:
        number = 1 + sum(message.is_tool() for message in request.messages)
        if number > 3:
            return say("three")
        return call("count_if_allowed" if self._asks and number == 2 else "count", number=number)


def counting(world: World, *, asks: bool) -> Agent:
    again = ToolRetry(attempts=3, backoff=Backoff.linear(HOUR, max_seconds=HOUR))

    @tool(effect=ToolEffect.IDEMPOTENT, retry=again)
    async def count(number: int) -> str:
        """Count."""
        await world.count(number)
        return "counted"

    @tool(effect=ToolEffect.IDEMPOTENT, approval=True)
    async def count_if_allowed(number: int) -> str:
        """Count, when a person says yes."""
        await world.count(number)
        return "counted"

    return AgentBuilder("counts").with_model(CountingModel(asks)).with_tools(count, count_if_allowed).build()


class TestAgents(ForkingContract):
    def subject(self, environment: Environment, name: str, world: World, *, asks: bool) -> Subject:
        agent = counting(world, asks=asks)
        stream = session_stream(environment, stream_of(SessionId(name)))

        def begin(key: str | None) -> Callable[[Any, bool], Sequence[Any]]:
            start = Start(
                input=Message.user("Count."), agent=agent.snapshot, worker=environment.worker, by="ana", key=key
            )
            return lambda _state, _took_over: (start,)

        def approve(state: object) -> ApproveCall:
            (approval,) = cast("AgentState", state).open_approvals
            return ApproveCall(approval_id=approval.id, by="ana", at=environment.clock.utc())

        return Subject(stream, begin, partial(Runner, agent), approve, forking)


def forking(digest: str) -> ForkRun:
    return ForkRun(by="ana", digest=digest)


def counting_flow(world: World, *, asks: bool) -> BuiltWorkflow:
    @tool(effect=ToolEffect.IDEMPOTENT)
    async def count(number: int) -> str:
        """Count."""
        await world.count(number)
        return "counted"

    hourly, written = RetryPolicy(max_attempts=3, backoff=HOUR), Workflow("counts")
    for number in (1, 2, 3):
        needs_a_yes = asks and number == 2
        args = {"number": number}
        written.tool(f"n{number}", count, args=args, approval=needs_a_yes, retry=hourly, timeout=None)
    return written.chain("n1", "n2", "n3").build()


class TestFlows(ForkingContract):
    def subject(self, environment: Environment, name: str, world: World, *, asks: bool) -> Subject:
        flow = counting_flow(world, asks=asks)
        stream = run_stream(environment, flow_stream(name))

        def begin(key: str | None) -> Callable[[Any, bool], Sequence[Any]]:
            start = StartFlow(flow=brought(flow), worker=environment.worker, options=RunOptions(), by="ana", key=key)
            return lambda _state, _took_over: (start,)

        def approve(state: object) -> ApproveCall:
            (task,) = cast("FlowState", state).tasks
            assert task.approval is not None
            return ApproveCall(approval_id=task.approval.id, by="ana", at=environment.clock.utc())

        return Subject(stream, begin, partial(FlowRunner, flow, WITHOUT), approve, forking)
