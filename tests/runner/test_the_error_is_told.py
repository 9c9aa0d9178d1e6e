"""A run that failed names the error itself: its class, its words and the place in the user's code."""

import re

import pytest

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, HookType, RunResult, Steptrail, tool
from steptrail.continuation import CallableCriterion
from steptrail.errors import Backoff, ExecutionFailed
from steptrail.hooks import CallableHook
from steptrail.lifecycle import AgentExecutionFailed, lifecycle_events
from steptrail.runtime.agent.children import why_no_answer
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.ui import ui_conversation
from tests.runner.kit import HandClock, agent_of, run

MISSING: dict[str, str] = {}


@tool
def look() -> str:
    """Look something up."""
    return MISSING["missing"]


@tool
def lose() -> str:
    """Lose something."""
    raise LookupError("lost")


def ran(builder: AgentBuilder) -> RunResult:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        return trail.run(builder.build(), "go", session="s")


def agent(*replies: Reply) -> AgentBuilder:
    return AgentBuilder("a").with_model(ScriptedModel(list(replies) or [call("look")])).with_tools(look)


def test_a_tools_error_has_class_words_and_place() -> None:
    result = ran(agent())
    assert result.error is not None
    assert result.error.said == "KeyError: 'missing'"
    assert result.error.place is not None
    assert re.fullmatch(r"tests/runner/test_the_error_is_told\.py:\d+ in look", result.error.place)
    assert f"KeyError: 'missing' ({result.error.place})" in repr(result)
    with pytest.raises(ExecutionFailed, match=r"KeyError: .missing. \(tests/runner/.*:.. in look"):
        result.raise_for_stop()


def test_a_models_error_is_told_too() -> None:
    def bad(request: object) -> str:
        raise ConnectionError("the model is away")

    result = ran(agent(bad))
    assert result.error is not None
    assert result.error.said == "ConnectionError: the model is away"
    assert result.error.place is not None
    assert result.error.place.endswith("in bad")


def test_a_hook_that_raised_is_the_error() -> None:
    def guard(state: object) -> object:
        raise PermissionError("not on my watch")

    result = ran(agent("done").with_hook(HookType.BEFORE_STEP, CallableHook(guard)))  # type: ignore[arg-type]
    assert result.error is not None
    assert result.error.said == "PermissionError: not on my watch"
    assert (result.error.place or "").endswith("in guard")


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_criterion_that_raised_is_the_error(is_nested: bool) -> None:
    def judge(state: object) -> bool:
        raise ArithmeticError("no such sum")

    judging = CallableCriterion(judge)
    result = ran(agent("done").with_criteria(ContinuationCriteria(judging) if is_nested else judging))
    assert result.error is not None
    assert (result.error.said, (result.error.place or "").endswith("in judge")) == (
        "ArithmeticError: no such sum",
        True,
    )


def test_a_run_that_went_well_has_no_error_also_when_something_failed_on_the_way() -> None:
    result = ran(agent(call("look"), "done").with_error_policy(ErrorPolicy.ignore_tool_errors()))
    assert (result.status, result.error) == ("completed", None)
    assert "Error" not in repr(result)


async def test_a_run_that_was_cut_as_it_tried_again_names_the_error_that_it_failed_of() -> None:
    clock = HandClock()

    def late(_: object) -> str:
        clock.advance(60)
        raise TimeoutError

    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(1.0))
    builder = agent_of([ConnectionError("the model is away"), late]).with_error_policy(policy).with_timeout(30)
    done = await run(builder.build(), clock=clock)
    assert (done.ending, done.result.state.step_count) == (("failed", "time_limit"), 2)
    assert done.result.error is not None
    assert done.why.error is not None
    assert done.result.error.said == done.why.error.error.said == "ConnectionError: the model is away"
    assert why_no_answer(done.result.state).endswith("s/30.00s) (the model is away)")


@pytest.mark.parametrize("is_by_hook", [False, True])
def test_listeners_and_front_ends_are_told_the_error_that_decided(*, is_by_hook: bool) -> None:
    def guard(_: object) -> object:
        raise PermissionError("not on my watch")

    builder = agent(calls(("look", {}), ("lose", {}))).with_tools(lose)
    if is_by_hook:
        builder.with_error_policy(ErrorPolicy.ignore_tool_errors())
        builder.with_hook(HookType.AFTER_STEP, CallableHook(guard))  # type: ignore[arg-type]
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(builder.build(), "go", session="s")
        told = lifecycle_events("s", trail.session("s").history())
    (ended,) = [event for event in told if isinstance(event, AgentExecutionFailed)]
    assert result.error is not None
    assert result.error.message == ("not on my watch" if is_by_hook else "'missing'")
    assert (ended.error, ended.error_type) == (result.error.message, result.error.type)
    assert ui_conversation(result.state).error_message == result.error.message


async def test_a_paused_run_says_who_paused_it_and_why() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:

        @tool
        async def ask() -> str:
            """Have somebody pause the run."""
            await trail.session("s").pause(by="me", reason="lunch")
            return "asked"

        builder = AgentBuilder("a").with_model(ScriptedModel([call("ask"), "done"])).with_tools(ask)
        result = await trail.run(builder.build(), "go", session="s")
    assert result.state.paused is not None
    assert (result.status, result.state.paused.by, result.state.paused.reason) == ("paused", "me", "lunch")
    with pytest.raises(ExecutionFailed, match=r"is paused \(by me: lunch\)$"):
        result.raise_for_stop()
