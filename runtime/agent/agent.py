"""An agent: the configuration that a service brings, and what is recorded of it."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import orjson

from steptrail.domain.agent.config import AgentSnapshot, HookSpec, LimitName, Limits
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.criteria import (
    AnswerComplete,
    CostLimit,
    CrashLoopLimit,
    CumulativeExecutionTimeLimit,
    ErrorPolicyCriterion,
    ExecutionTimeLimit,
    FinishReasonCheck,
    InputTokenLimit,
    OutputTokenLimit,
    PendingInput,
    Shadow,
    StepsLimit,
    TokenUsageLimit,
    ToolCallLimit,
    ToolCallPresenceCheck,
    UserStop,
)
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.inference import ToolChoice
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.runtime.agent.hook_stack import HookStack
from steptrail.runtime.agent.tool_port import RunnableTool
from steptrail.runtime.kernel.ports import ModelDriver

__all__ = ["Agent", "base_criteria", "criteria_for"]


def criteria_for(recorded: AgentSnapshot, own: tuple[Criterion, ...]) -> ContinuationCriteria:
    """Return who votes on an execution: the built-in criteria with its recorded settings, then the agent's own."""
    settings, base = zip(*_configured(recorded.limits, recorded.error_policy), strict=True)
    return ContinuationCriteria(*base, *own, settings=settings)


def base_criteria(limits: Limits, policy: ErrorPolicy) -> tuple[Criterion, ...]:
    """Return the criteria of every agent, in the order in which they are asked.

    A person's wish stands before a failure, a failure and an answer that is not whole before a limit.
    """
    return tuple(criterion for _, criterion in _configured(limits, policy))


def _configured(limits: Limits, policy: ErrorPolicy) -> Iterator[tuple[str | None, Criterion]]:
    """Yield the criteria of every agent, each with the setting that it votes by."""
    yield None, UserStop()
    yield "error_policy", ErrorPolicyCriterion.with_policy(policy)
    yield None, AnswerComplete()
    for name, criterion in _limit_criteria(limits):
        yield name, Shadow(criterion) if limits.is_shadow(name) else criterion
    yield None, ToolCallPresenceCheck()
    yield None, PendingInput()


def _limit_criteria(limits: Limits) -> Iterator[tuple[LimitName, Criterion]]:
    """Yield the criterion of each limit that is set, that of crash loops last."""
    if limits.max_steps is not None:
        yield "max_steps", StepsLimit(limits.max_steps)
    if limits.max_tokens is not None:
        yield "max_tokens", TokenUsageLimit(limits.max_tokens)
    if limits.max_input_tokens is not None:
        yield "max_input_tokens", InputTokenLimit(limits.max_input_tokens)
    if limits.max_output_tokens is not None:
        yield "max_output_tokens", OutputTokenLimit(limits.max_output_tokens)
    if limits.max_cost is not None and limits.prices is not None:
        yield "max_cost", CostLimit(limits.max_cost, limits.prices, limits.unpriced)
    if limits.max_tool_calls is not None:
        yield "max_tool_calls", ToolCallLimit(limits.max_tool_calls)
    if limits.timeout is not None:
        yield "timeout", ExecutionTimeLimit(limits.timeout)
    if limits.cumulative_timeout is not None:
        yield "cumulative_timeout", CumulativeExecutionTimeLimit(limits.cumulative_timeout)
    if limits.finish_reasons:
        yield "finish_reasons", FinishReasonCheck(limits.finish_reasons)
    yield "max_unproductive_segments", CrashLoopLimit(limits.max_unproductive_segments)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """What runs: a model, tools, limits, a policy, criteria and hooks. Made by `AgentBuilder`; holds no state."""

    name: str
    model: ModelDriver
    tools: Mapping[str, RunnableTool] = field(default_factory=dict[str, RunnableTool])
    system_prompt: str | None = None
    examples: tuple[Message, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    earlier_tool_traces: bool = True
    limits: Limits = Limits()
    error_policy: ErrorPolicy = ErrorPolicy.stop_on_any_error()
    criteria: tuple[Criterion, ...] = ()
    hooks: HookStack = field(default_factory=HookStack)
    locator: str | None = None

    @cached_property
    def snapshot(self) -> AgentSnapshot:
        """What is recorded with each execution."""
        recorded = AgentSnapshot(
            name=self.name,
            model=self.model.describe(),
            fingerprint="",
            locator=self.locator,
            system_prompt=self.system_prompt,
            examples=self.examples,
            tools=tuple(tool.spec for tool in self.tools.values()),
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            earlier_tool_traces=self.earlier_tool_traces,
            limits=self.limits,
            error_policy=self.error_policy,
            criteria=tuple(criterion_name(criterion) for criterion in self.criteria),
            hooks=tuple(HookSpec(name=h.name, type=h.type, priority=h.priority) for h in self.hooks.registered),
        )
        # Where the agent was found says nothing about what it is.
        content = recorded.model_dump(mode="json", exclude={"fingerprint", "locator"})
        digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return recorded.model_copy(update={"fingerprint": digest[:32]})
