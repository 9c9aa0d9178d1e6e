"""An agent that is another one by now is reported at the first difference, and touches nothing."""

from dataclasses import replace
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, ErrorPolicy, StopReason, ToolEffect, tool
from steptrail.domain.agent.events import ExecutionFinished
from steptrail.errors import ConfigurationError
from steptrail.live import ReplyDelta
from steptrail.testing import (
    Recording,
    ReplayMismatch,
    ReplayModel,
    Reply,
    ScriptedModel,
    call,
    calls,
    replay,
    replay_tools,
    replayed,
)
from tests.integration.replay.kit import SCRIPT, TOUCHED, mismatch_of, priced, recording_of, shop, stock
from tests.runner.kit import trail_of


@tool(name="stock", effect=ToolEffect.READ)
def other_stock(item: str, shelf: int = 1) -> int:
    """Count what is left of an item."""
    raise AssertionError(f"the real tool was called with {item} and {shelf}")


async def test_given_the_same_agent_then_nothing_real_is_touched() -> None:
    recording = await recording_of(shop())
    again = await replay(shop("the script is not asked").build(), recording)
    assert (again.result.output, TOUCHED) == ("3 and none.", [])
    assert [(row.tool, row.ending) for row in again.calls] == [("stock", "completed")] * 2


async def test_given_another_prompt_then_the_report_names_the_message_and_shows_both() -> None:
    said = await mismatch_of(shop().with_system_prompt("Be verbose."), await recording_of(shop()))
    assert said.startswith("model call 1 (step 1) of session 's' is not what was recorded.")
    assert said.splitlines()[0].endswith("First difference: message 1 (system), part 1, text")
    assert said.splitlines()[1:] == ["  recorded  'Be brief.'", "  now       'Be verbose.'"]


def plain(*script: Reply) -> AgentBuilder:
    """Return an agent without tools."""
    return AgentBuilder("shop").with_model(ScriptedModel(script)).with_system_prompt("Be brief.")


async def test_given_another_parameter_then_the_report_names_the_tool_and_the_parameter() -> None:
    said = await mismatch_of(plain().with_tools(other_stock, priced), await recording_of(shop()))
    assert "First difference: tool 'stock', parameters.properties.shelf" in said
    assert "recorded  nothing" in said


async def test_given_tools_in_another_order_then_the_report_says_so() -> None:
    said = await mismatch_of(plain().with_tools(priced, stock), await recording_of(shop()))
    assert "First difference: the tools and their order" in said
    assert '  recorded  ["stock","priced"]\n  now       ["priced","stock"]' in said


async def test_given_structural_matching_then_other_texts_are_the_same_request() -> None:
    recording = await recording_of(shop())
    again = await replay(shop().with_system_prompt("Be verbose.").build(), recording, match="structural")
    assert again.result.output == "3 and none."


async def test_given_structural_matching_then_a_message_more_is_still_a_difference() -> None:
    recording = await recording_of(AgentBuilder("shop").with_model(ScriptedModel(SCRIPT)).with_tools(stock, priced))
    said = await mismatch_of(shop(), recording, match="structural")
    assert "First difference: message 1 (user), role" in said


async def test_given_a_difference_then_no_error_policy_tries_again_and_the_run_has_not_ended() -> None:
    recording = await recording_of(shop())
    agent = replayed(shop().with_system_prompt("Other").with_error_policy(ErrorPolicy.retry_all(5)).build(), recording)
    async with trail_of() as trail:
        with pytest.raises(ReplayMismatch):
            await trail.run(agent, "What is left?", session="again")
        types = [record.event.TYPE for record in await trail.session("again").events()]
    assert types[-1] == "inference.started.v1"
    assert types.count("inference.started.v1") == 1


async def test_given_a_run_that_goes_on_where_the_recorded_one_stopped_then_that_is_said() -> None:
    recording = await recording_of(shop().with_max_steps(2))
    ended = recording.events[-1]
    assert isinstance(ended, ExecutionFinished)
    assert ended.stop_reason is StopReason.STEPS_LIMIT
    said = await mismatch_of(shop(), recording)
    assert "has 2 model calls, and call 3 came: the run went on where the recorded one stopped" in said


@tool(name="stock", effect=ToolEffect.READ, approval=True)
def guarded_stock(item: str) -> int:
    """Count what is left of an item."""
    raise AssertionError(f"the real tool was called with {item}")


async def test_given_an_answer_that_nobody_asks_for_any_more_then_the_report_names_its_event() -> None:
    async with trail_of() as trail:
        agent = plain(call("stock", item="tea"), "3.").with_tools(guarded_stock).build()
        await trail.run(agent, "go", session="s")
        await trail.session("s").deny("s:1:1:0", by="ana")
        await trail.session("s").resume(agent)
        recording = Recording("s", await trail.session("s").history())
    said = await mismatch_of(plain().with_tools(guarded_stock).with_max_steps(0), recording)
    assert "(approval.denied.v1) does not come about again: cannot deny a call of session 's'" in said


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (call("priced", item="tea"), "It was never called there; the tools that were are: stock"),
        (call("stock", item="cocoa"), "argument item\n  recorded  'tea'\n  now       'cocoa'"),
        (calls(("stock", {"item": "tea"}), ("stock", {"item": "tea"})), "It was called 1 time with these arguments"),
    ],
)
async def test_given_a_call_that_was_not_recorded_then_the_report_says_why(asked: Reply, why: str) -> None:
    recording = await recording_of(shop())
    agent = shop(asked, *SCRIPT).build()
    replaying = replace(agent, tools=replay_tools(agent, recording))
    with pytest.raises(ReplayMismatch) as caught:
        async with trail_of() as trail:
            await trail.run(replaying, "What is left?")
    assert why in str(caught.value)
    assert TOUCHED == []


async def test_given_the_model_alone_then_real_tools_are_called_and_the_replies_are_the_recorded_ones() -> None:
    agent = shop("never said").build()
    recording = await recording_of(shop())
    replaying = replace(agent, model=ReplayModel(recording))
    async with trail_of() as trail, trail.stream(replaying, "What is left?") as stream:
        shown = [update.text async for update in stream if isinstance(update, ReplyDelta) and update.text]
        assert ((await stream.result()).output, shown) == ("3 and none.", ["3 and none."])
    assert TOUCHED == ["tea", "coffee"]
    TOUCHED.clear()


async def test_what_is_no_agent_no_recording_and_no_way_to_match_is_refused() -> None:
    recording = await recording_of(shop().build())
    with pytest.raises(ConfigurationError, match="what runs is an Agent, not AgentBuilder"):
        await replay(cast(Any, shop()), recording)
    with pytest.raises(ConfigurationError, match="what is replayed is of the class Recording, not str"):
        await replay(shop().build(), cast(Any, recording.session))
    with pytest.raises(ConfigurationError, match="`match` of a replay is 'strict' or 'structural', not 'structual'"):
        await replay(shop().build(), recording, match=cast(Any, "structual"))
