"""A run that failed names the error itself: its class, its words and the place in the user's code."""

import re

import pytest

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, HookType, RunResult, Steptrail, tool
from steptrail.continuation import CallableCriterion
from steptrail.errors import ExecutionFailed
from steptrail.hooks import CallableHook
from steptrail.testing import Reply, ScriptedModel, call

MISSING: dict[str, str] = {}


@tool
def look() -> str:
    """Look something up."""
    return MISSING["missing"]


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
