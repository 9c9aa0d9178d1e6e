"""Whatever hooks, criteria, tools and models do, a run ends with a result, and all that happened is in the log."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    InferenceCompleted,
    InferenceFailed,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionStarted,
)
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.continuation.criteria.predicate import CallableCriterion
from steptrail.domain.hooks.hook import CallableHook
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, ProviderPart, TextPart, ToolCallPart
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.domain.usage import Usage
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome, ToolSucceeded
from steptrail.testing.scripted_model import ScriptedModel, call, say

LONE_SURROGATE = "half a character: \ud800"


def nested(levels: int) -> JsonValue:
    return [nested(levels - 1)] if levels else "the bottom"


TOO_DEEP = nested(210)
"""Can be written as JSON, and is refused by what reads the log."""


class Unspeakable(Exception):
    """An exception whose own words cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def run(agent: Agent) -> tuple[RunResult, list[AgentEvent]]:
    """Run to the end, and check that the log holds what the result says."""

    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Go.", session="s1")
        records = await trail.session("s1").events()
        assert evolve_all(initial("s1"), records) == result.state
        return result, [record.event for record in records]


def of(events: list[AgentEvent], kind: type[AgentEvent]) -> int:
    return sum(isinstance(event, kind) for event in events)


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Look something up."""
    return "42"


def builder() -> AgentBuilder:
    return AgentBuilder("nonsense").with_model(ScriptedModel([call("look"), "done"])).with_tools(look)


# ---------------------------------------------------------------------------------------------------------------- hooks


def raising(state: HookState) -> HookState:
    raise ValueError(f"no {state.hook_type}")


def unspeakable(state: HookState) -> HookState:
    raise Unspeakable


async def cancelling_itself(state: HookState) -> HookState:
    raise asyncio.CancelledError


def returning_junk(state: HookState) -> HookState:
    return "junk"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def with_a_number_that_is_none(state: HookState) -> HookState:
    return state.with_metadata("n", float("nan"))


def with_what_is_nested_too_deep(state: HookState) -> HookState:
    return state.with_metadata("deep", TOO_DEEP)


def with_half_a_character(state: HookState) -> HookState:
    return state.with_metadata("text", LONE_SURROGATE)


def with_half_a_character_as_key(state: HookState) -> HookState:
    return state.with_metadata(LONE_SURROGATE, 1)


def with_an_object(state: HookState) -> HookState:
    return state.with_metadata("object", object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def saying_half_a_character(state: HookState) -> HookState:
    return state.with_messages(Message.user(LONE_SURROGATE))


NONSENSE_HOOKS = [
    raising,
    unspeakable,
    cancelling_itself,
    returning_junk,
    with_a_number_that_is_none,
    with_what_is_nested_too_deep,
    with_half_a_character,
    with_half_a_character_as_key,
    with_an_object,
    saying_half_a_character,
]


@pytest.mark.parametrize("hook", NONSENSE_HOOKS, ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("hook_type", HookType)
async def test_a_hook_can_do_nothing_worse_than_stop_the_run(
    hook_type: HookType, hook: Callable[[HookState], HookState | Awaitable[HookState]]
) -> None:
    failing = CallableHook(hook, name="broken")
    result, events = await run(builder().with_hook(hook_type, failing).with_hook(HookType.STOP, failing).build())
    assert result.status in {"completed", "failed"}
    outcome = result.outcome
    assert outcome is not None
    assert of(events, ToolExecutionCompleted) == of(events, ToolExecutionStarted)
    if hook_type not in {HookType.STOP, HookType.EXECUTION_END, HookType.ON_ERROR}:
        # Before a tool it also blocks the call, and that is an error of the step.
        by = "ErrorPolicyCriterion" if hook_type is HookType.PRE_TOOL_USE else "broken"
        assert (result.status.value, outcome.resolved_by) == ("failed", by)


# ------------------------------------------------------------------------------------------------------------- criteria


async def test_a_criterion_that_raises_stops_the_run_and_loses_nothing() -> None:
    def judge(state: object) -> bool:
        raise Unspeakable

    result, events = await run(builder().with_criteria(CallableCriterion(judge, name="judge")).build())
    assert (result.status.value, result.stop_reason, result.outcome and result.outcome.resolved_by) == (
        "failed",
        "error",
        "judge",
    )
    assert of(events, InferenceCompleted) == 0


async def test_a_criterion_that_raises_after_a_step_keeps_the_step() -> None:
    def judge(state: object) -> bool:
        if getattr(state, "step_count", 0):
            raise ValueError("not after a step")
        return True

    result, events = await run(builder().with_criteria(CallableCriterion(judge, name="judge")).build())
    assert (result.stop_reason, result.state.step_count) == ("error", 1)
    assert (of(events, InferenceCompleted), of(events, ToolExecutionCompleted)) == (1, 1)


# --------------------------------------------------------------------------------------------------------------- models


@dataclass
class Nonsense:
    """A driver that returns, or raises, whatever it was given."""

    answers: list[object]

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="nonsense", model="nonsense")

    async def infer(self, request: ModelRequest) -> ModelReply:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    async def close(self) -> None:
        return


def made_up(**fields: Any) -> ModelReply:
    return ModelReply(**fields, usage=Usage())


NONSENSE_REPLIES: list[object] = [
    None,
    "text",
    {"parts": []},
    ModelReply(parts=(TextPart(text=LONE_SURROGATE),), finish_reason=FinishReason.STOP, usage=Usage()),
    ModelReply(parts=(ProviderPart(provider="p", data=TOO_DEEP),), finish_reason=FinishReason.STOP, usage=Usage()),
    ModelReply(
        parts=(ToolCallPart(id="c", name="look", arguments={"a": TOO_DEEP}),),
        finish_reason=FinishReason.STOP,
        usage=Usage(),
    ),
    made_up(parts=(object(),), finish_reason=FinishReason.STOP),
    made_up(finish_reason="whatever"),
    Unspeakable(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("answer", NONSENSE_REPLIES, ids=lambda answer: type(answer).__name__)
async def test_a_reply_that_is_none_is_a_failure_of_the_model(answer: object) -> None:
    result, events = await run(AgentBuilder("nonsense").with_model(Nonsense([answer])).build())
    assert (result.status.value, result.stop_reason) == ("failed", "error")
    assert of(events, InferenceFailed) == 1


@pytest.mark.parametrize("answer", NONSENSE_REPLIES, ids=lambda answer: type(answer).__name__)
async def test_a_reply_that_is_none_is_asked_for_again_when_the_policy_says_so(answer: object) -> None:
    model = Nonsense([answer, say("done")])
    result, events = await run(
        AgentBuilder("nonsense").with_model(model).with_error_policy(ErrorPolicy.retry_all(3)).build()
    )
    assert (result.status.value, result.output) == ("completed", "done")
    assert (of(events, InferenceFailed), of(events, InferenceCompleted)) == (1, 1)


async def test_a_reply_that_says_nothing_is_an_answer() -> None:
    result, _ = await run(AgentBuilder("nonsense").with_model(ScriptedModel([say("")])).build())
    assert (result.status.value, result.output) == ("completed", "")


# ---------------------------------------------------------------------------------------------------------------- tools


class Custom:
    """A tool of somebody's own making, that keeps to nothing."""

    def __init__(self, outcome: object) -> None:
        self._outcome, self.runs = outcome, 0
        self.spec = ToolSpec(name="custom", effect=ToolEffect.READ)

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        self.runs += 1
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        is_to_be_made = isinstance(self._outcome, partial)
        if is_to_be_made:
            return cast("Callable[[], ToolOutcome]", self._outcome)()
        return self._outcome  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


NONSENSE_OUTCOMES: list[object] = [
    None,
    "text",
    partial(ToolSucceeded, cast("JsonValue", object())),
    partial(ToolSucceeded, float("nan")),
    partial(ToolSucceeded, LONE_SURROGATE),
    partial(ToolSucceeded, {"deep": [LONE_SURROGATE]}),
    partial(ToolSucceeded, TOO_DEEP),
    Unspeakable(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("outcome", NONSENSE_OUTCOMES, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("shown", [16_000, None])
async def test_a_tool_that_returns_garbage_has_failed_and_runs_once(outcome: object, shown: int | None) -> None:
    custom = Custom(outcome)
    made = AgentBuilder("nonsense").with_model(ScriptedModel([call("custom"), "done"])).with_tools(custom)
    limits = made.with_error_policy(ErrorPolicy.ignore_tool_errors()).build().limits
    agent = made.with_limits(structs.replace(limits, max_result_characters=shown)).build()
    result, events = await run(agent)
    assert (result.status.value, result.output, custom.runs) == ("completed", "done", 1)
    assert (of(events, ToolExecutionStarted), of(events, ToolExecutionFailed)) == (1, 1)


def returns_an_object() -> object:
    return object()


def returns_half_a_character() -> str:
    return LONE_SURROGATE


def raises_the_unspeakable() -> str:
    raise Unspeakable


def leaves_the_program() -> str:
    raise SystemExit(3)


def is_cancelled() -> str:
    raise asyncio.CancelledError


async def is_cancelled_in_the_loop() -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    "function",
    [
        returns_an_object,
        returns_half_a_character,
        raises_the_unspeakable,
        leaves_the_program,
        is_cancelled,
        is_cancelled_in_the_loop,
    ],
    ids=lambda function: function.__name__,
)
async def test_a_function_that_misbehaves_as_a_tool_is_a_failed_call(function: Callable[[], object]) -> None:
    misbehaving = tool(name="misbehave")(function)
    model = ScriptedModel([call("misbehave"), "done"])
    made = AgentBuilder("nonsense").with_model(model).with_tools(misbehaving)
    result, events = await run(made.with_error_policy(ErrorPolicy.ignore_tool_errors()).build())
    assert (result.status.value, result.output) == ("completed", "done")
    assert of(events, ToolExecutionFailed) == 1


# ------------------------------------------------------------------------------------------------------------ listeners


async def test_a_listener_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def listen(records: object) -> None:
        raise Unspeakable

    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(builder().build(), "Go.", on_commit=listen)
        assert result.output == "done"
    assert "a listener failed" in caplog.text
