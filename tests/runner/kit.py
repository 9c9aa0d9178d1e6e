"""Runs an agent on a store in memory with clocks that stand still, and keeps what was recorded.

The clocks move only when something says so: a model call or a tool that takes seconds, or a wait that begins.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from steptrail import Agent, AgentBuilder, RunResult, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent, ContinuationEvaluated, EvaluationsRecorded, WaitStarted
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import StopReason
from steptrail.hooks import CallableHook
from steptrail.infrastructure.store.opening import open_store
from steptrail.projections.explanation import AgentExplanation
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.testing import ManualClock, Reply, ScriptedModel, say

NOON = 1_800_000_000_000_000
"""Where the clocks begin: an instant in microseconds of UTC."""

E = TypeVar("E", bound=AgentEvent)


def _newest_text(request: ModelRequest) -> str:
    return request.messages[-1].text


class Echo(ScriptedModel):
    """Says how often it was asked, and what it `heard`: the newest message, unless it hears otherwise."""

    def __init__(self, heard: Callable[[ModelRequest], str] = _newest_text) -> None:
        super().__init__([self._said] * 100)
        self.count, self._heard = 0, heard

    def _said(self, request: ModelRequest) -> str:
        self.count += 1
        return f"{self.count}: {self._heard(request)}"


class HandClock(ManualClock):
    """A clock that is put forward by hand, or to the end of each wait."""

    def sit_out(self, records: Sequence[Recorded[Any]]) -> None:
        """Move on to the end of a wait as soon as it is stored, so that nobody really waits."""
        for record in records:
            if isinstance(record.event, WaitStarted) and record.event.until is not None:
                self.reach(record.event.until)


@dataclass(frozen=True)
class Run:
    """What came of a run: its result, its whole log, and why it stopped."""

    result: RunResult[Any]
    records: Sequence[Recorded[AgentEvent]]
    why: AgentExplanation

    @property
    def events(self) -> list[AgentEvent]:
        return [record.event for record in self.records]

    @property
    def types(self) -> list[str]:
        return [event.TYPE.removesuffix(".v1") for event in self.events]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def one(self, kind: type[E]) -> E:
        (event,) = self.all(kind)
        return event

    @property
    def ending(self) -> tuple[str, str | None]:
        return self.result.status.value, self.result.stop_reason and self.result.stop_reason.value

    @property
    def decisions(self) -> list[tuple[int, str, bool, str]]:
        return [
            (made.step, made.phase, made.should_continue, made.resolved_by) for made in self.all(ContinuationEvaluated)
        ]

    @property
    def shown(self) -> list[str]:
        """The texts of the tool messages, in order: what the model was shown of its calls."""
        parts = [part for message in self.result.state.messages if message.is_tool() for part in message.parts]
        return [part.text for part in parts if part.kind == "tool_result"]


class Crash(BaseException):
    """The process dies here."""


def crash_at(point: str, number: int = 1) -> Reach:
    """Return a reach that dies when `point` is reached for the `number`-th time."""
    seen: list[str] = []

    def reach(name: str) -> None:
        seen.append(name)
        if name == point and seen.count(point) == number:
            raise Crash(point)

    return reach


def dies(number: int, last: int) -> AbstractContextManager[object]:
    """Return the block of a process that dies at place `number` of the `last` that it comes to, and not behind them."""
    return pytest.raises(Crash) if number <= last else nullcontext()


def trail_of(clock: HandClock | None = None, reach: Reach = no_faults) -> Steptrail:
    return Steptrail(Environment(store=open_store("sqlite:///:memory:"), clock=clock or HandClock(), reach=reach))


def again_on(trail: Steptrail, clock: HandClock | None = None, reach: Reach = no_faults) -> Steptrail:
    """Return another process's look at the same store."""
    return Steptrail(Environment(store=trail.store, clock=clock or HandClock(), reach=reach))


async def run(
    agent: Agent[Any], text: str = "go", *, clock: HandClock | None = None, on_commit: OnCommit | None = None
) -> Run:
    hands = clock or HandClock()
    async with trail_of(hands) as trail:
        result = await trail.run(agent, text, session="s", on_commit=on_commit or hands.sit_out)
        session = trail.session("s")
        return Run(result, await session.events(), await session.why())


@tool(effect=ToolEffect.READ)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect=ToolEffect.READ)
def fail(why: str = "out of order") -> str:
    """Fail."""
    raise RuntimeError(why)


def agent_of(script: Sequence[Reply], *hooks: tuple[HookType, CallableHook]) -> AgentBuilder:
    builder = AgentBuilder("calc").with_model(ScriptedModel(script)).with_tools(add, fail)
    for hook_type, each in hooks:
        builder.with_hook(hook_type, each)
    return builder


def hook(name: str, change: Callable[[HookState], HookState | None]) -> CallableHook:
    """Return a hook of that name; a change that returns nothing only looks."""

    def handle(state: HookState) -> HookState:
        changed = change(state)
        return state if changed is None else changed

    return CallableHook(handle, name)


def vote(
    decision: ContinuationDecision, by: str = "tests.hook", stop_reason: StopReason | None = None
) -> ContinuationEvaluation:
    return ContinuationEvaluation.from_decision(by, decision, stop_reason)


def slowly(clock: HandClock, seconds: float, reply: str | ModelReply) -> Callable[[ModelRequest], ModelReply]:
    """Return a reply that takes its time."""

    def answer(request: ModelRequest) -> ModelReply:
        del request
        clock.advance(seconds)
        return say(reply) if isinstance(reply, str) else reply

    return answer


class Gated:
    """A driver that says the next word only when it is let."""

    def __init__(self, *words: str) -> None:
        self._words, self.gate = words, asyncio.Semaphore(0)

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="gated", model="gated")

    async def infer(self, request: ModelRequest) -> ModelReply:
        raise AssertionError(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        assert request.messages
        for word in self._words:
            await self.gate.acquire()
            yield ModelDelta(word)
        await self.gate.acquire()
        yield say("".join(self._words))

    async def close(self) -> None:
        pass


def votes_in(recorded: EvaluationsRecorded) -> list[tuple[str, str]]:
    return [(each.criterion_class, each.decision.value) for each in recorded.votes]
