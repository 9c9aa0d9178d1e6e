"""The run that the crash harness kills: an agent that comes by every fault point, and the end that it must come to.

Its model fails once, so that a wait is sat out, then asks for two tools of one effect class, which run one after the
other or side by side, and for one that is answered outside. Then what was said before is summed up, and it answers. It
has a hook of every type and instructions for each step, and files come with its input and from its tools. What its
tools did, and what its process was told is stored, stands in a ledger.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.events import AgentEvent, ToolExecutionCompleted
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.hooks.hook import CallableHook
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.infrastructure.tools.external import external_tool
from steptrail.infrastructure.tools.reply import ToolReply
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.compaction import Compaction
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import FAULT_POINTS, Reach
from steptrail.runtime.kernel.files import File
from steptrail.runtime.kernel.ids import new_id
from steptrail.testing.crash import Fault, Ledger, kill_at
from steptrail.testing.scripted_model import ScriptedModel, calls
from tests.harness.store_urls import opened
from tests.runner.kit import HandClock


class Variant(NamedTuple):
    """What the tools declare about themselves."""

    effect: ToolEffect
    on_unknown: OnUnknown = OnUnknown.TELL
    concurrent: bool = False

    def __str__(self) -> str:
        told = [self.on_unknown] if self.effect is ToolEffect.UNSAFE else []
        return ", ".join([self.effect, *told, *(["side by side"] if self.concurrent else [])])

    @property
    def points(self) -> tuple[str, ...]:
        """The fault points that a run of it comes by."""
        return tuple(point for point in FAULT_POINTS if not point.endswith("-node"))


_CLASSES: Final = (
    Variant(ToolEffect.READ),
    Variant(ToolEffect.IDEMPOTENT),
    Variant(ToolEffect.KEYED),
    *(Variant(ToolEffect.UNSAFE, on_unknown) for on_unknown in OnUnknown),
)
VARIANTS: Final = (*_CLASSES, *(each._replace(concurrent=True) for each in _CLASSES))
"""Every effect class; for `unsafe`, which is never repeated, with everything that can be said of an unknown outcome.

Each with the two calls one after the other, and side by side.
"""


_BEFORE: Final = (Message.user("I have been here before. " * 9), Message.assistant("Welcome back. " * 9))
"""What was said before the run, long enough to be summed up."""


class Ending(NamedTuple):
    """How a run ended."""

    status: str
    stop_reason: str | None
    output: str | None


@dataclass(frozen=True, slots=True)
class Workload:
    """One session on one store, and the ledger of what was done for it."""

    url: str
    session: str
    ledger: Ledger
    variant: Variant

    @classmethod
    def new(cls, url: str, folder: Path, variant: Variant) -> Self:
        """Return a workload that nobody has begun; its ledger is in `folder`."""
        session = new_id("workload")
        return cls(url, session, Ledger(folder / f"{session}.jsonl"), variant)

    def agent(self, pair: "_Pair | None" = None) -> Agent:
        """Return the agent; every process makes its own, with the pair that is told what it stores."""
        ledger, variant = self.ledger, self.variant
        together = pair or _Pair()

        @tool(effect=variant.effect, on_unknown=variant.on_unknown, concurrent=variant.concurrent)
        async def act(number: int, context: ToolContext) -> str | ToolReply:
            """Run the errand with this number."""
            ledger.write("begun", context.effect_id)
            await together.meet(context)
            ledger.write("done", context.effect_id)
            # A person who says what an errand came to has no file of it.
            is_settled = variant.on_unknown is OnUnknown.PARK
            return _answer(number) if is_settled else ToolReply(_answer(number), self.file(number))

        ask = external_tool("ask", "Ask whether the shop is open.", {"type": "object", "properties": {}})
        asked = calls(("act", {"number": 1}), ("act", {"number": 2}), ("ask", {}))
        policy = ErrorPolicy.ignore_tool_errors().with_model_error_handling(ErrorHandlingDecision.RETRY)
        builder = (
            AgentBuilder("workload")
            .with_model(ScriptedModel([RuntimeError("no line"), asked, "All done."]))
            .with_tools(act, ask)
            .with_compaction(Compaction(window=10, keep_steps=1, summarizer=ScriptedModel(["All was said before."])))
            .with_instructions(_place, every="step", at="tail")
            .with_error_policy(policy.with_max_retries(2).with_backoff(Backoff.linear(0.03)))
        )
        # However often it is killed, it is to come to its end.
        builder.with_limits(Limits(max_unproductive_segments=1000))
        for hook_type in HookType:
            builder.with_hook(hook_type, CallableHook(_mark, name="mark"))
        return builder.build()

    def file(self, number: int) -> File:
        """Return the file of the errand with this number, or that of the input for 0. Each session has its own."""
        return File.from_bytes(f"{self.session} {number}".encode())

    def nameless(self, text: str) -> str:
        """Return a text without what is another one in each session: its name, and the digests of its files."""
        for number in range(3):
            text = text.replace(self.file(number).digest, f"file {number}")
        return text.replace(self.session, "")

    def told(self, records: Sequence[Recorded[AgentEvent]]) -> None:
        """Note outside of the log what this process was told is stored."""
        self.ledger.write("stored", f"{records[-1].version} {records[-1].event.TYPE}")


class _Pair:
    """The two calls in one process. Side by side, each waits for the other, and so every run comes by the same points.

    Neither takes effect before both have begun, and the second does so when the end of the first is stored: ends that
    come at once would share a commit, or not.
    """

    def __init__(self) -> None:
        self._begun = 0
        self._both, self._first_has_ended = asyncio.Event(), asyncio.Event()

    async def meet(self, context: ToolContext) -> None:
        """Wait, in a call that has begun, until it is its turn."""
        calls = context.state.tool_executions if context.state is not None else ()
        running = [call.position for call in calls if call.status is CallStatus.RUNNING]
        if len(running) < 2:
            return
        self._begun += 1
        if self._begun == 2:
            self._both.set()
        await self._both.wait()
        if context.call_id != calls[running[0]].call.id:
            await self._first_has_ended.wait()

    def told(self, records: Sequence[Recorded[AgentEvent]]) -> None:
        """Learn what is stored."""
        if any(isinstance(record.event, ToolExecutionCompleted) for record in records):
            self._first_has_ended.set()


def go(workload: Workload, fault: Fault | None = None) -> Ending:
    """Run the workload, or go on with it, to its end; die at `fault` if it comes to that. For a process of its own."""
    return asyncio.run(perform(workload, kill_at(fault)))


async def perform(workload: Workload, reach: Reach) -> Ending:
    """Run the workload, or go on with it, to its end."""
    store, name = opened(workload.url), workload.session
    # By the clocks of a busy computer a short wait may be over before it begins, and then the run does not come by it.
    first = None if await store.version(stream_of(SessionId(name))) else HandClock(datetime.now(UTC))
    async with Steptrail(Environment(store=store, clock=first or SystemClock(), reach=reach)) as trail:
        pair = _Pair()
        agent = workload.agent(pair)
        said = Message.user("Run the errands.", workload.file(0))

        def told(records: Sequence[Recorded[AgentEvent]]) -> None:
            workload.told(records)
            pair.told(records)
            if first is not None:
                first.sit_out([record for record in records if getattr(record.event, "kind", "") != "external"])

        # The key makes the same command safe to repeat also after its end.
        result = await trail.run(agent, said, session=name, key=name, history=_BEFORE, on_commit=told)
        session = trail.session(name, on_commit=told)
        while await _settled(workload, session, result):
            result = await session.resume(agent)
    reason = result.stop_reason.value if result.stop_reason is not None else None
    return Ending(result.status.value, reason, result.output)


async def _settled(workload: Workload, session: Session, result: RunResult) -> bool:
    """Do what the person does who is asked: look at the other side for a call that is parked, and say what it knows."""
    parked = [call for call in result.state.tool_executions if call.phase is CallPhase.PARKED]
    done = {entry.effect for entry in workload.ledger.entries() if entry.what == "done"}
    for call in parked[:1]:  # of several the run asks about one after the other
        effect, number = call.effect_id or "", call.position + 1
        if effect in done:
            await session.settle(effect, "completed", by="ana", result=_answer(number))
        else:
            await session.settle(effect, "rerun", by="ana")
    if parked:
        return True
    for asked in result.state.open_calls:
        await session.answer(asked.id, "it is open", by="ana", key=asked.id)
        workload.ledger.write("answered", asked.id)
    return bool(result.state.open_calls)


def _answer(number: int) -> str:
    return f"errand {number} is done"


def _place(state: AgentState) -> str:
    return f"This is step {state.step_count + 1}."


def _mark(state: HookState) -> HookState:
    return state.with_metadata(state.hook_type.value, state.current_execution.step_number)
