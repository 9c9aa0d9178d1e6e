"""The workflows that the crash harness kills, and the end that they must come to.

Each begins with a node that fails once and is tried again, so that a wait is sat out, goes on to what takes effect, and
ends with a node that says what it sees. What its tools did, and what its process was told is stored, stands in a
ledger.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from steptrail.domain.flow.events import FlowEvent, NodeAttemptCompleted, NodeAttemptStarted
from steptrail.domain.flow.ids import effect_id, flow_stream
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.flow.functions import NodeContext
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import FAULT_POINTS, Reach
from steptrail.runtime.kernel.ids import new_id
from steptrail.testing.crash import Fault, Ledger, kill_at
from steptrail.testing.scripted_model import ScriptedModel, call
from steptrail.workflow import Envelope, RetryPolicy, RunOptions, Workflow
from tests.harness.crash_workload import Ending
from tests.harness.store_urls import opened
from tests.runner.kit import HandClock

_OF_AN_AGENT: Final = ("before-inference", "after-inference", "before-tool", "after-tool")
_SOON: Final = RetryPolicy(max_attempts=3, backoff=0.03)
"""One try for the failure, and one that a kill may cost."""
_STAYS: Final = RunOptions(longest_wait=60.0)
_NAMES: Final = {"act": "a"}
"""What a node is called with, where that is not its own name."""


class FlowVariant(NamedTuple):
    """What takes effect in a workflow, and what its tools declare about themselves."""

    shape: str
    effect: ToolEffect = ToolEffect.KEYED
    on_unknown: OnUnknown = OnUnknown.TELL

    def __str__(self) -> str:
        told = [self.on_unknown] if self.effect is ToolEffect.UNSAFE else []
        return ", ".join([self.shape, self.effect, *told])

    @property
    def points(self) -> tuple[str, ...]:
        """The fault points that a run of it comes by."""
        others = {"before-hooks", "after-hooks", *(() if self.shape == "child agent" else _OF_AN_AGENT)}
        return tuple(point for point in FAULT_POINTS if point not in others)


_CLASSES: Final = (
    (ToolEffect.READ, OnUnknown.TELL),
    (ToolEffect.IDEMPOTENT, OnUnknown.TELL),
    (ToolEffect.KEYED, OnUnknown.TELL),
    (ToolEffect.UNSAFE, OnUnknown.PARK),
    (ToolEffect.UNSAFE, OnUnknown.FAIL),
)
FLOW_VARIANTS: Final = (
    *(FlowVariant(shape, *each) for shape in ("1 branch", "4 branches") for each in _CLASSES),
    *(FlowVariant(shape) for shape in ("child agent", "child flow", "map of 3", "open request", "due retry")),
)
"""Every effect class with one branch and with four in flight; and once each what else is under way in a run."""


@dataclass(frozen=True, slots=True)
class FlowWorkload:
    """One run of a workflow on one store, and the ledger of what was done for it."""

    url: str
    session: str
    ledger: Ledger
    variant: FlowVariant

    @classmethod
    def new(cls, url: str, folder: Path, variant: FlowVariant) -> Self:
        """Return a workload that nobody has begun; its ledger is in `folder`."""
        session = new_id("workload")
        return cls(url, session, Ledger(folder / f"{session}.jsonl"), variant)

    def flow(self, turns: "_Turns | None" = None) -> BuiltWorkflow:
        """Return the workflow; every process makes its own, with the turns that are told what it stores."""
        written = Workflow("workload").function("begin", self._begin, output="items", retry=_SOON)
        middle = self._middle(written, turns)
        return written.function("end", _end).edge("begin", *middle).edge(middle, "end").build()

    def told(self, records: Sequence[Recorded[FlowEvent]]) -> None:
        """Note outside of the log what this process was told is stored."""
        self.ledger.write("stored", f"{records[-1].version} {records[-1].event.TYPE}")

    def _begin(self, _: Envelope, context: NodeContext) -> list[str]:
        self._fail_once(context.effect_id)
        return ["a", "b", "c"]

    def _fail_once(self, effect: str) -> None:
        if not any((each.what, each.effect) == ("failed", effect) for each in self.ledger.entries()):
            self.ledger.write("failed", effect)
            raise ConnectionError("no line")

    def _middle(self, written: Workflow, turns: "_Turns | None") -> tuple[str, ...]:
        variant, act = self.variant, self._tool(turns)
        match variant.shape:
            case "1 branch":
                written.tool("act", act, args={"name": "a"}, on_error="continue", output="said")
            case "4 branches":
                names = ("a", "b", "c", "d")
                for name in names:
                    written.tool(name, act, args={"name": name}, on_error="continue", output=f"said_{name}")
                return names
            case "child agent":
                model = ScriptedModel([call("act", name="a"), "All done."])
                agent = AgentBuilder("below").with_model(model).with_tools(act).build()
                written.agent("act", agent, prompt="Run the errand.", output="said")
            case "child flow":
                below = Workflow("below").tool("act", act, args={"name": "a"}).build()
                written.flow("act", below, output="said")
            case "map of 3":
                settings: dict[str, Any] = {"tool": act, "args": {"name": "{{ item }}"}, "output": "said"}
                written.map("act", over="items", concurrency=2, **settings)
            case "open request":
                written.human("ask", prompt="Go on?", output="answer")
                written.tool("act", act, args={"name": "a"}, output="said").edge("ask", "act")
                written.edge("act", "end")
                return ("ask",)
            case _:
                written.tool("act", act, args={"name": "a"}, output="said", retry=_SOON)
        return ("act",)

    def _tool(self, turns: "_Turns | None") -> Any:
        ledger, variant = self.ledger, self.variant

        @tool(effect=variant.effect, on_unknown=variant.on_unknown)
        async def act(name: str, context: ToolContext) -> str:
            """Run the errand with this name."""
            ledger.write("begun", context.effect_id)
            if turns is not None:
                await turns.meet(context.effect_id)
            if variant.shape == "due retry":
                self._fail_once(context.effect_id)
            ledger.write("done", context.effect_id)
            return _said(name)

        return act


class _Turns:
    """Has tries that run side by side end one after the other, so that every run comes by the same points.

    A try takes effect when those beside it have begun, and the end of the one before it is stored: ends that come at
    once would share a commit, or not.
    """

    def __init__(self) -> None:
        self._order: list[str] = []
        self._begun, self._ended = set[str](), set[str]()
        self._news = asyncio.Event()

    async def meet(self, effect: str) -> None:
        """Wait, in a try that has begun, until it is its turn. One in a stream below has none beside it."""
        self._begun.add(effect)
        self._news.set()
        while effect in self._order and not self._is_next(self._order.index(effect)):
            self._news.clear()
            await self._news.wait()

    def told(self, records: Sequence[Recorded[FlowEvent]]) -> None:
        """Learn what is stored."""
        for event in [record.event for record in records]:
            if isinstance(event, NodeAttemptStarted) and event.node != "begin":
                self._order.append(event.effect_id)
            elif isinstance(event, NodeAttemptCompleted):
                end = effect_id("", event.node, event.visit, event.item)
                self._ended.update(each for each in self._order if each.endswith(end))
        self._news.set()

    def _is_next(self, place: int) -> bool:
        return self._begun >= set(self._order) and self._ended >= set(self._order[:place])


def go_flow(workload: FlowWorkload, fault: Fault | None = None) -> Ending:
    """Run the workload, or go on with it, to its end; die at `fault` if it comes to that. For a process of its own."""
    return asyncio.run(perform_flow(workload, kill_at(fault)))


async def perform_flow(workload: FlowWorkload, reach: Reach) -> Ending:
    """Run the workload, or go on with it, to its end."""
    store, name = opened(workload.url), workload.session
    is_first = await store.version(flow_stream(name)) == 0
    # Who goes on with a run may find some of the tries at their end, and nobody to wait for. Who begins it has a clock
    # that stands still but for waits: by that of a busy computer a short one may be over before it begins.
    first, turns = (HandClock(datetime.now(UTC)), _Turns()) if is_first else (None, None)
    async with Steptrail(Environment(store=store, clock=first or SystemClock(), reach=reach)) as trail:
        flow = workload.flow(turns)

        def told(records: Sequence[Recorded[FlowEvent]]) -> None:
            workload.told(records)
            if first is not None and turns is not None:
                first.sit_out(records)
                turns.told(records)

        # The key makes the same command safe to repeat also after its end.
        result = await trail.run(flow, session=name, key=name, options=_STAYS, on_commit=told)
        handle = trail.flow(name, on_commit=told)
        while await _answered(workload, handle, result):
            result = await handle.resume(flow)
    reason = result.stop_reason.value if result.stop_reason is not None else None
    return Ending(result.status.value, reason, None if result.output is None else str(result.output))


async def _answered(workload: FlowWorkload, handle: Flow, result: FlowResult) -> bool:
    """Do what the person does whom the run waits for: say yes, or look at the other side and say what it knows."""
    asked = [task for task in result.state.tasks if task.phase in {TaskPhase.PARKED, TaskPhase.ASKED}]
    done = {entry.effect for entry in workload.ledger.entries() if entry.what == "done"}
    for task in asked:
        if task.phase is TaskPhase.ASKED:
            await handle.answer(task.node, approved=True, by="ana")
        elif task.effect_id in done:
            await handle.settle(task.effect_id, "completed", by="ana", output=_said(_NAMES.get(task.node, task.node)))
        else:
            await handle.settle(task.effect_id, "rerun", by="ana")
    return bool(asked)


def _end(_: Envelope) -> str:
    return "All done."


def _said(name: str) -> str:
    return f"errand {name} is done"
