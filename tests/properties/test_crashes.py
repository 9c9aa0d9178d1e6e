"""A crash at any commit point and then a resume gives the events of no crash, but for what `normalise` names."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

import pytest
from hypothesis import given, settings, strategies as st

from steptrail import (
    Agent,
    AgentBuilder,
    Compaction,
    ErrorPolicy,
    HookType,
    Message,
    StopReason,
    ToolContext,
    ToolEffect,
    external_tool,
    tool,
)
from steptrail.domain.agent.events import ExecutionResumed, ToolCallDeferred
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.hooks.state import HookState
from steptrail.domain.json_value import JsonValue
from steptrail.hooks import CallableHook, ToolBlockingHook
from steptrail.messages import File
from steptrail.models import ModelReply, Usage
from steptrail.runtime.agent.instructions import Instructions
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.testing.normalise import normalise
from steptrail.tools import RunnableTool, ToolReply
from tests.properties.crashing import COMMIT_POINTS, Ended, Ledger, run_with_a_crash

IS_NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


@tool(effect=ToolEffect.READ)
def read(n: int) -> int:
    return n * 2


@tool(effect=ToolEffect.IDEMPOTENT)
def put(n: int) -> ToolReply:
    return ToolReply({"stored": n}, File.from_bytes(f"stored {n}".encode()))


@tool(effect=ToolEffect.KEYED)
def pay(n: int, context: ToolContext) -> str:
    return f"paid {n} as {context.effect_id}"


@tool(effect=ToolEffect.READ)
def fail(n: int) -> int:
    raise RuntimeError(f"no {n} today")


know = external_tool("know", "Know the way.", {"type": "object", "properties": {"n": {}}})


def agent_with(script: Sequence[Reply], policy: ErrorPolicy, *, hooks: bool) -> Agent:
    builder = (
        AgentBuilder("crashing")
        .with_model(ScriptedModel(script))
        .with_tools(read, put, pay, fail, know)
        .with_error_policy(policy)
        .with_max_steps(6)
    )
    if hooks:
        for hook_type in (HookType.EXECUTION_START, HookType.BEFORE_STEP, HookType.AFTER_STEP, HookType.ON_ERROR):
            builder.with_hook(hook_type, CallableHook(counting, f"counting.{hook_type}"))
        builder.with_hook(HookType.BEFORE_INFERENCE, CallableHook(narrowing, "narrowing"))
        builder.with_hook(HookType.AFTER_INFERENCE, CallableHook(counting, "counting.after_inference"))
        builder.with_hook(HookType.PRE_TOOL_USE, ToolBlockingHook(["put"], "not now"), priority=10)
        builder.with_hook(HookType.PRE_TOOL_USE, CallableHook(doubling, "doubling"))
        builder.with_hook(HookType.POST_TOOL_USE, CallableHook(counting, "counting.post_tool_use"))
        builder.with_hook(HookType.STOP, CallableHook(once_more, "once_more"))
        builder.with_hook(HookType.EXECUTION_END, CallableHook(counting, "counting.execution_end"))
        builder.with_instructions(greeting).with_instructions(halfway, every="step", at="tail")
    return builder.build()


def greeting(state: AgentState) -> str:
    return f"You are asked: {state.messages[-1].text}"


async def halfway(state: AgentState) -> str | None:
    return "Come to an end." if state.step_count % 4 > 1 else None


def counting(state: HookState) -> HookState:
    count = state.metadata.get(state.hook_type.value, 0)
    return state.with_metadata(state.hook_type.value, count + 1 if isinstance(count, int) else 1)


def narrowing(state: HookState) -> HookState:
    return state.with_request(tools=("read", "pay")) if state.step_count % 2 else state


def doubling(state: HookState) -> HookState:
    current = state.current_execution.tool_call
    if current is None or current.name != "read" or current.arguments is None:
        return state
    n = current.arguments.get("n")
    return state.with_tool_arguments({"n": n * 2}) if isinstance(n, int) else state


def once_more(state: HookState) -> HookState:
    if "asked_once_more" in state.metadata:
        return state
    vote = ContinuationEvaluation.from_decision("once_more", ContinuationDecision.REQUEST)
    return state.with_metadata("asked_once_more", True).with_evaluation(vote)


async def check_every_commit_point(make: Callable[[], Agent]) -> Ended:
    """Compare the run that was not crashed with every run that was; return the former."""
    whole = await run_with_a_crash(make, COMMIT_POINTS[0], 0)
    assert not whole.crashed
    for point in COMMIT_POINTS:
        for number in range(1, whole.reached + 1):
            crashed = await run_with_a_crash(make, point, number)
            where = f"{point} {number} of {whole.reached}"
            assert crashed.crashed, where
            assert normalise(crashed.events) == normalise(whole.events), where
            assert crashed.result.output == whole.result.output, where
            assert list(crashed.result.state.messages) == list(whole.result.state.messages), where
            assert crashed.result.state.metadata == whole.result.state.metadata, where
    return whole


SEVERAL = calls(("read", {"n": 1}), ("pay", {"n": 2}), ("fail", {"n": 3}), ("put", {"n": 4}), ("nobody", {}))
OFTEN = pytest.mark.slow("crashes some dozen times")
WRONG = calls(("read", {"n": "x"}), ("know", {}), ("pay", {"n": 5}))


@pytest.mark.parametrize("hooks", [False, pytest.param(True, marks=pytest.mark.slow("a hundred crashes each"))])
@pytest.mark.parametrize(
    ("script", "policy"),
    [
        (["hello", "again"], ErrorPolicy.stop_on_any_error()),
        pytest.param([SEVERAL, WRONG, "done", "really"], ErrorPolicy.ignore_tool_errors(), marks=OFTEN),
        ([SEVERAL, "never reached"], ErrorPolicy.stop_on_any_error()),
        ([RuntimeError("no line"), "never reached"], ErrorPolicy.stop_on_any_error()),
        pytest.param(
            [call("fail", n=1), call("fail", n=2), call("read", n=3), "done", "so"],
            ErrorPolicy.retry_tool_errors(3),
            marks=OFTEN,
        ),
        ([call("fail", n=1), call("fail", n=2), call("fail", n=3)], ErrorPolicy.retry_tool_errors(2)),
        pytest.param(
            [RuntimeError("no line"), call("pay", n=1), OSError("cut"), "done", "so"],
            ErrorPolicy.retry_all(),
            marks=OFTEN,
        ),
        pytest.param([call("read", n=n) for n in range(9)], ErrorPolicy.stop_on_any_error(), marks=OFTEN),
    ],
)
async def test_a_crash_at_any_commit_point_changes_nothing_but_times(
    script: Sequence[Reply], policy: ErrorPolicy, hooks: bool
) -> None:
    whole = await check_every_commit_point(lambda: agent_with(script, policy, hooks=hooks))
    assert whole.result.stop_reason is not None


def request(tool: str, n: JsonValue) -> tuple[str, dict[str, JsonValue]]:
    return tool, {"n": n}


requested = st.builds(
    request, st.sampled_from(["read", "put", "pay", "fail", "know", "nobody"]), st.integers(0, 3) | st.just("x")
)
replies: st.SearchStrategy[Reply] = st.one_of(
    st.lists(requested, min_size=1, max_size=3).map(lambda wanted: calls(*wanted)),
    st.sampled_from([say("done"), RuntimeError("no line"), TimeoutError("too late")]),
)


@settings(max_examples=2000 if IS_NIGHT else 8)
@given(
    st.lists(replies, min_size=1, max_size=4),
    st.sampled_from([ErrorPolicy.ignore_tool_errors(), ErrorPolicy.retry_all(2), ErrorPolicy.stop_on_any_error()]),
    st.booleans(),
)
@pytest.mark.slow("crashes some hundred runs")
async def test_a_crash_in_any_run_changes_nothing_but_times(
    script: list[Reply], policy: ErrorPolicy, hooks: bool
) -> None:
    padded = [*script, *[say("the end")] * 6]
    await check_every_commit_point(lambda: agent_with(padded, policy, hooks=hooks))


class TooLong(Exception):
    """The provider says that the request is too long."""

    code = "context_length_exceeded"


TOO_LONG = TooLong("too long")


def summary(messages: Sequence[Message]) -> ModelReply:
    return say(f"{len(messages)}", usage=Usage(input=3))


COMPACTS = Compaction(window=10, keep_steps=1, summarizer=summary, clear_results_above=0)
growing: list[Reply] = [call("read", n=1), call("know", n=1), TOO_LONG, calls(("read", {"n": 2}), ("put", {"n": 3}))]
failing = st.sampled_from([TimeoutError("too late"), OSError("cut"), TimeoutError("again"), call("read", n=1)])


@settings(max_examples=1000 if IS_NIGHT else 2)
@given(st.lists(failing, min_size=1, max_size=5), st.integers(1, 2), st.booleans())
@pytest.mark.slow("crashes some hundred runs")
async def test_a_crash_in_a_run_with_two_models_changes_nothing_but_times(
    script: list[Reply], after: int, hooks: bool
) -> None:
    padded = [*script, *[say("the end")] * 6]

    def make() -> Agent:
        agent = agent_with(padded, ErrorPolicy.stop_on_any_error(), hooks=hooks)
        return replace(agent, fallback=(ScriptedModel(padded, name="second"),), switches_after=after)

    await check_every_commit_point(make)


@settings(max_examples=1000 if IS_NIGHT else 3)
@given(st.lists(st.sampled_from(growing), max_size=4))
@pytest.mark.acceptance("10.4-3")
@pytest.mark.slow("crashes some hundred runs")
async def test_a_crash_in_a_run_that_compacts_changes_nothing_but_times(script: list[Reply]) -> None:
    grown = [call("read", n=1), calls(("put", {"n": 2}), ("read", {"n": 3})), *script, *[say("the end")] * 6]

    def make() -> Agent:
        agent = agent_with(grown, ErrorPolicy.stop_on_any_error(), hooks=False)
        return replace(agent, compaction=COMPACTS)

    await check_every_commit_point(make)


@tool(name="know", effect=ToolEffect.UNSAFE)
def know_here(n: int = 0) -> str:
    """Know the way in this process."""
    return f"the way to {n}"


knowing = st.builds(request, st.sampled_from(["know", "know", "read", "put"]), st.integers(0, 3))


@st.composite
def settled_otherwise(draw: st.DrawFn) -> Callable[[Agent], Agent]:
    """Draw other settings for an agent: who knows the way, whether it compacts, and whether it has instructions."""
    knows: Sequence[RunnableTool] = draw(st.sampled_from([[know], [know_here], []]))
    compaction = draw(st.sampled_from([None, COMPACTS]))
    keeps_instructions = draw(st.booleans())

    def settled(agent: Agent) -> Agent:
        tools = {name: each for name, each in agent.tools.items() if name != "know"} | {t.spec.name: t for t in knows}
        instructions = agent.instructions if keeps_instructions else Instructions()
        return replace(agent, tools=tools, compaction=compaction, instructions=instructions)

    return settled


@settings(max_examples=1000 if IS_NIGHT else 3)
@given(
    st.lists(st.lists(knowing, min_size=1, max_size=3).map(lambda wanted: calls(*wanted)), min_size=1, max_size=2),
    settled_otherwise(),
    settled_otherwise(),
    st.booleans(),
)
@pytest.mark.slow("crashes some hundred runs")
async def test_after_a_crash_an_agent_with_other_settings_goes_on_and_asks_nobody_twice(
    script: list[Reply], first: Callable[[Agent], Agent], later: Callable[[Agent], Agent], hooks: bool
) -> None:
    padded = [*script, *[say("the end")] * 6]

    def make() -> Agent:
        return next(settled)(agent_with(padded, ErrorPolicy.ignore_tool_errors(), hooks=hooks))

    settled: Iterator[Callable[[Agent], Agent]] = repeat(first)
    reached = (await run_with_a_crash(make, COMMIT_POINTS[0], 0)).reached
    for point in COMMIT_POINTS:
        for number in range(1, reached + 1):
            settled = chain([first], repeat(later))
            crashed = await run_with_a_crash(make, point, number)
            assert crashed.result.output == "the end", (point, number)
            asked = [event.effect_id for event in crashed.events if isinstance(event, ToolCallDeferred)]
            assert len(asked) == len(set(asked)), (point, number)


async def test_a_crash_of_a_run_that_may_take_no_step_changes_nothing_but_times() -> None:
    def make() -> Agent:
        return AgentBuilder("idle").with_model(ScriptedModel([])).with_max_steps(0).build()

    whole = await check_every_commit_point(make)
    assert (whole.result.stop_reason, whole.result.state.step_count) == (StopReason.STEPS_LIMIT, 0)


@pytest.mark.parametrize("point", COMMIT_POINTS)
async def test_an_unsafe_tool_runs_at_most_once_whatever_commit_the_crash_is_at(point: str) -> None:
    script: list[Reply] = [calls(("send", {"n": 1}), ("send", {"n": 2})), call("send", n=3), "sent"]

    def make(ledger: Ledger) -> Agent:
        @tool(effect=ToolEffect.UNSAFE)
        def send(n: int) -> str:
            ledger.note(f"send {n}")
            return "sent"

        return AgentBuilder("sender").with_model(ScriptedModel(script)).with_tools(send).build()

    whole = await run_with_a_crash(lambda: make(Ledger()), point, 0)
    lost = 0
    for number in range(1, whole.reached + 1):
        ledger = Ledger()
        crashed = await run_with_a_crash(lambda: make(ledger), point, number)  # noqa: B023 - used at once
        assert max(ledger.ran.values()) == 1, number
        unknown = [each for step in crashed.result.state.steps for each in step.tool_executions if each.text is None]
        lost += len(unknown)
        assert sum(ledger.ran.values()) + len(unknown) >= 3, number
        assert crashed.result.output == "sent"
    assert lost == 3


async def test_normalise_leaves_a_run_that_was_never_crashed_its_events() -> None:
    whole = await run_with_a_crash(
        lambda: agent_with(["hello"], ErrorPolicy.stop_on_any_error(), hooks=False), COMMIT_POINTS[0], 0
    )
    assert [event.TYPE for event in normalise(whole.events)] == [event.TYPE for event in whole.events]
    assert normalise(normalise(whole.events)) == normalise(whole.events)


async def events(script: Sequence[Reply]) -> tuple[object, ...]:
    agent = agent_with(script, ErrorPolicy.ignore_tool_errors(), hooks=False)
    return normalise((await run_with_a_crash(lambda: agent, COMMIT_POINTS[0], 0)).events)


async def test_normalise_tells_runs_apart_that_did_different_things() -> None:
    assert await events([call("read", n=1), "a"]) != await events([call("read", n=2), "a"])
    assert await events([call("read", n=1), "a"]) != await events([call("read", n=1), "b"])


async def test_a_crash_leaves_the_marks_that_normalise_takes_away() -> None:
    def make() -> Agent:
        return agent_with([call("read", n=1), "done"], ErrorPolicy.stop_on_any_error(), hooks=False)

    crashed = await run_with_a_crash(make, "after-append", 3)
    assert any(isinstance(event, ExecutionResumed) for event in crashed.events)
    assert not any(isinstance(event, ExecutionResumed) for event in normalise(crashed.events))
