"""Tools of a front end: the model calls them, the page runs them, and what it posts is their result."""

from typing import Any

import pytest
from ag_ui.core import ToolCallStartEvent

from steptrail import Agent, AgentBuilder, external_tool
from steptrail.agui import AguiConfig
from steptrail.testing import Reply, ScriptedModel, call, calls
from tests.agui.pages import asking, at_rest, ending, front, user, yes
from tests.runner.kit import HandClock, trail_of

PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
LOOK: dict[str, Any] = {"name": "look", "description": "Look at the page.", "parameters": PARAMETERS}


def agent(*script: Reply) -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel(script)).build()


def told(call_id: str, content: Any, message_id: str = "r1", **more: Any) -> dict[str, Any]:
    return {"id": message_id, "role": "tool", "toolCallId": call_id, "content": content, **more}


def kinds(events: list[Any]) -> list[str]:
    return [event.type.value for event in events if event.type.value.startswith(("TOOL", "RUN", "MESSAGES"))]


@pytest.mark.parametrize("version", ["1.0", None])
async def test_a_call_of_a_tool_of_the_page_ends_the_run_and_its_result_begins_the_next(version: str | None) -> None:
    async with trail_of() as trail, front(trail, agent(call("look"), "I see tea.")) as page:
        asked = await page.run(user("what is there?"), tools=[LOOK], protocolVersion=version)
        assert kinds(asked) == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
        assert (ending(asked)["outcome"], ending(asked)["result"]["status"]) == ({"type": "success"}, "waiting")
        again = await page.run(tools=[LOOK], protocolVersion=version)
        assert kinds(again) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        result = told("call-1", "a page about tea")
        done = await page.run(result, tools=[LOOK], protocolVersion=version)
        assert "TOOL_CALL_RESULT" not in kinds(done)
        assert ending(done)["result"]["status"] == "completed"
        assert [message.id for message in page.client.messages if message.role == "tool"] == ["r1"]
        state = await trail.session("t").state()
        assert state.steps[0].tool_executions[0].result == "a page about tea"
        assert kinds(await page.run(tools=[LOOK])) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


async def test_a_page_that_says_that_it_failed_fails_the_call_and_a_result_of_another_call_answers_nothing() -> None:
    async with trail_of() as trail, front(trail, agent(call("look"))) as page:
        await page.run(user("what is there?"), tools=[LOOK])
        await page.run(told("call-9", "x", "r9"), tools=[LOOK])
        assert len((await trail.session("t").state()).open_calls) == 1
        failed = await page.run(told("call-1", "", error="no camera"), tools=[LOOK])
        assert ending(failed)["type"] == "RUN_ERROR"
        error = (await trail.session("t").state()).steps[0].tool_executions[0].error
        assert str(error).endswith("no camera")


async def test_a_question_and_two_calls_of_the_page_are_answered_in_one_request() -> None:
    script = [calls(("look", {}), ("pay", {"cents": 1}), ("look", {})), "Done."]
    paying = AgentBuilder("bank").with_model(ScriptedModel(script)).with_tools(*asking().tools.values()).build()
    async with trail_of() as trail, front(trail, paying) as page:
        asked = await page.run(user("go"), tools=[LOOK])
        (question,) = ending(asked)["outcome"]["interrupts"]
        ids = [event.tool_call_id for event in asked if isinstance(event, ToolCallStartEvent)]
        results = [told(ids[0], "first", "r1"), told(ids[2], "second", "r2")]
        done = await page.run(*results, tools=[LOOK], resume=[yes(question["id"])])
        assert ending(done)["outcome"] == {"type": "success"}
        (first, *_) = (await trail.session("t").state()).steps
        assert [call.result for call in first.tool_executions] == ["first", "paid 1", "second"]


async def test_a_new_message_in_place_of_a_result_is_said_and_the_call_has_none() -> None:
    async with trail_of() as trail, front(trail, agent(call("look"), "As you like.")) as page:
        await page.run(user("what is there?"), tools=[LOOK])
        done = await page.run(user("never mind", "m2"), tools=[LOOK])
        assert ending(done)["result"]["status"] == "completed"
        state = await trail.session("t").state()
        assert "The user said something new" in str(state.steps[0].tool_executions[0].result)
        assert [message.text for message in state.messages if message.is_user()] == ["what is there?", "never mind"]
        # Whoever finds the run due finds the message too.
        kinds_of = [record.event.TYPE for record in await trail.session("t").events()]
        assert kinds_of.index("messages.appended.v1") < kinds_of.index("wait.ended.v1")


SCAN = external_tool("scan", "Scan.", {"type": "object"}, result={"type": "object", "required": ["code"]})


def scanner() -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel([call("scan"), "Scanned."])).with_tools(SCAN).build()


@pytest.mark.parametrize("claimed", [[], [{**LOOK, "name": "look"}]])
async def test_a_page_may_not_answer_a_call_that_another_system_is_asked_for(claimed: list[Any]) -> None:
    async with trail_of() as trail, front(trail, scanner()) as page:
        asked = await page.run(user("scan"), tools=claimed)
        assert ending(asked)["outcome"] == {"type": "cancelled"}
        assert "two tools named 'scan'" in await page.refused(
            422, user("x"), thread="u", tools=[{**LOOK, "name": "scan"}]
        )
        await page.run(told("call-1", '{"code": 1}'), tools=[{**LOOK, "name": "scan"}])
        await page.run(user("and hurry", "m2"))
        (left,) = (await trail.session("t").state()).open_calls
        await trail.session("t").answer(left.id, {"code": 7}, by="scanner")
        await at_rest(trail, "t")
        assert (await trail.session("t").state()).steps[0].tool_executions[0].result == {"code": 7}


async def test_a_page_may_not_answer_a_call_of_a_tool_that_the_service_gave_the_run() -> None:
    asking = agent(call("scan"), "Scanned.")
    async with trail_of() as trail, front(trail, asking) as page:
        await trail.run(asking, "scan", session="t", external_tools=[SCAN])
        await page.run(told("call-1", '{"code": 1}'))
        (left,) = (await trail.session("t").state()).open_calls
        assert left.tool == "scan"


async def test_a_tool_of_the_agent_that_is_for_pages_is_answered_by_one_in_its_type() -> None:
    config = AguiConfig(front_end_tools=frozenset({"scan"}))
    tools = [{**LOOK, "name": "scan"}]
    async with trail_of() as trail, front(trail, scanner(), config) as page:
        assert ending(await page.run(user("scan"), tools=tools))["outcome"] == {"type": "success"}
        wrong = [*page.client.said, told("call-1", '{"kode": 1}')]
        assert "does not fit" in await page.refused(409, *wrong, tools=tools)
        assert "does not fit" in await page.refused(409, *page.client.said, told("call-1", "code"), tools=tools)
        done = await page.run(told("call-1", '{"code": 1}'), tools=tools)
        assert ending(done)["result"]["status"] == "completed"
        assert (await trail.session("t").state()).steps[0].tool_executions[0].result == {"code": 1}


@pytest.mark.parametrize("text", ["42", "null", "tea"])
async def test_a_text_is_the_result_where_its_type_is_a_text_though_it_looks_like_another_value(text: str) -> None:
    ask = external_tool("ask", "Ask the user.", {"type": "object"}, result=str)
    asking = AgentBuilder("desk").with_model(ScriptedModel([call("ask"), "I see."])).with_tools(ask).build()
    async with trail_of() as trail, front(trail, asking, AguiConfig(front_end_tools=frozenset({"ask"}))) as page:
        await page.run(user("go"))
        await page.run(told("call-1", text))
        assert (await trail.session("t").state()).steps[0].tool_executions[0].result == text


async def test_a_new_message_in_place_of_a_result_is_said_also_where_the_result_has_a_type() -> None:
    async with trail_of() as trail, front(trail, scanner(), AguiConfig(front_end_tools=frozenset({"scan"}))) as page:
        await page.run(user("scan"))
        done = await page.run(user("never mind", "m2"))
        assert ending(done)["result"]["status"] == "completed"
        state = await trail.session("t").state()
        assert "The user said something new" in str(state.steps[0].tool_executions[0].result)


async def test_a_call_that_the_page_never_answers_expires_and_the_run_goes_on_without_a_request() -> None:
    clock = HandClock()
    config = AguiConfig(tools_expire=60)
    async with trail_of(clock) as trail, front(trail, agent(call("look")), config) as page:
        await page.run(user("what is there?"), tools=[LOOK])
        clock.advance(61)
        await at_rest(trail, "t")
        late = await page.run(told("call-1", "late"), tools=[LOOK])
        assert ending(late)["type"] == "RUN_ERROR"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({**LOOK, "name": "no name"}, "external tool 'no name'"),
        ({**LOOK, "parameters": {"type": "array"}}, "no JSON schema of an object"),
        ({**LOOK, "parameters": "x"}, "no JSON schema of an object"),
        ({**LOOK, "name": "pay"}, "two tools named 'pay'"),
    ],
)
async def test_a_tool_that_no_model_can_be_told_of_is_refused(tool: dict[str, Any], said: str) -> None:
    async with trail_of() as trail, front(trail, asking()) as page:
        assert said in await page.refused(422, user("go"), tools=[tool])
        assert list(await trail.runs()) == []
