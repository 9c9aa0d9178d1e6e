from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from steptrail import ErrorPolicy
from steptrail.continuation import (
    ContinuationDecision,
    ContinuationEvaluation,
    CumulativeExecutionTimeLimit,
    ErrorPolicyCriterion,
    ExecutionTimeLimit,
    FinishReasonCheck,
    StateView,
    StepsLimit,
    TokenUsageLimit,
    ToolCallPresenceCheck,
)
from steptrail.domain.agent.events import EvaluationsRecorded, HooksRan, ToolCallBlocked
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.protocols import CanExplainContinuation
from steptrail.hooks import (
    CriterionHook,
    CumulativeExecutionTimeLimitHook,
    ErrorPolicyHook,
    ExecutionTimeLimitHook,
    FinishReasonHook,
    HookStack,
    HookType,
    StepsLimitHook,
    TokenUsageLimitHook,
    ToolBlockingHook,
    ToolCallPresenceHook,
)
from tests.unit.hooks.given import at_boundary, in_calls, process, step_done

PAIRS: Sequence[tuple[str, CriterionHook, CanExplainContinuation]] = [
    ("StepsLimitHook", StepsLimitHook(1), StepsLimit(1)),
    ("TokenUsageLimitHook", TokenUsageLimitHook(15), TokenUsageLimit(15)),
    ("ExecutionTimeLimitHook", ExecutionTimeLimitHook(5.0), ExecutionTimeLimit(5.0)),
    ("CumulativeExecutionTimeLimitHook", CumulativeExecutionTimeLimitHook(5.0), CumulativeExecutionTimeLimit(5.0)),
    ("FinishReasonHook", FinishReasonHook(["tool_calls"]), FinishReasonCheck(["tool_calls"])),
    (
        "ErrorPolicyHook",
        ErrorPolicyHook(ErrorPolicy.retry_all(2)),
        ErrorPolicyCriterion.with_policy(ErrorPolicy.retry_all(2)),
    ),
    ("ToolCallPresenceHook", ToolCallPresenceHook(), ToolCallPresenceCheck()),
]

STATES = {
    "before the first step": at_boundary(),
    "after a step": step_done(in_calls("read", done=1)),
    "a minute later": step_done(in_calls("read", done=1)).at(60_000_000),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize(("name", "hook", "criterion"), PAIRS, ids=[name for name, _, _ in PAIRS])
async def test_a_guard_hook_votes_as_its_criterion_does(
    name: str, hook: CriterionHook, criterion: CanExplainContinuation, state: AgentState
) -> None:
    event, mark = await process(HookStack().with_hook(HookType.BEFORE_STEP, hook), HookType.BEFORE_STEP, state)
    vote = criterion.explain(state)
    assert vote is not None
    assert event == EvaluationsRecorded(phase=DecisionPhase.BOUNDARY, votes=(vote,), hook=name)
    assert isinstance(mark, HooksRan)
    assert mark.hooks == (name,)


@dataclass
class Abstains:
    asked: list[int] = field(default_factory=list[int])

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        self.asked.append(state.step_count)
        return None


async def test_a_criterion_that_abstains_adds_nothing_as_a_hook() -> None:
    criterion = Abstains()
    (mark,) = await process(
        HookStack().with_hook(HookType.STOP, CriterionHook(criterion)), HookType.STOP, at_boundary()
    )
    assert criterion.asked == [0]
    assert isinstance(mark, HooksRan)
    assert mark.hooks == ("CriterionHook",)


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (ToolBlockingHook(["write", "list"]), "Tool 'write' is blocked"),
        (ToolBlockingHook({"write"}, "read only today"), "read only today"),
        (ToolBlockingHook("write"), "Tool 'write' is blocked"),
    ],
)
async def test_the_blocking_hook_blocks_its_tools_and_no_others(hook: ToolBlockingHook, reason: str) -> None:
    stack = HookStack().with_hook(HookType.PRE_TOOL_USE, hook)
    state = in_calls("read", "write")
    assert len(await process(stack, HookType.PRE_TOOL_USE, state, position=0)) == 1
    blocked, _ = await process(stack, HookType.PRE_TOOL_USE, state, position=1)
    assert blocked == ToolCallBlocked(position=1, reason=reason, hook="ToolBlockingHook")


class Closed:
    """A criterion that only decides."""

    def decide(self, state: StateView) -> ContinuationDecision:
        return ContinuationDecision.FORBID


async def test_a_criterion_that_only_decides_is_a_hook_too() -> None:
    stack = HookStack().with_hook(HookType.BEFORE_STEP, CriterionHook(Closed()))
    recorded, _ = await process(stack, HookType.BEFORE_STEP, at_boundary())
    assert isinstance(recorded, EvaluationsRecorded)
    (vote,) = recorded.votes
    assert (vote.decision, vote.reason) == (ContinuationDecision.FORBID, "Closed forbade continuation")
