"""The tools of a front end: external tools of the runs that it begins, and its results as their answers.

A client that gets to the end of a run and finds calls without a result runs those that are its own, and posts the
results as messages. So a result is found by the id under which its call was shown.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import structs
from pydantic_core import from_json

from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ExternalRule
from steptrail.infrastructure.tools.external import ExternalTool, external_tool
from steptrail.interfaces.http.agui.config import AguiConfig
from steptrail.interfaces.http.agui.conversation import wire_messages
from steptrail.interfaces.http.agui.ending import page_calls
from steptrail.interfaces.python.fitting_results import misfits
from steptrail.runtime.agent.agent import AnyAgent

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput, Tool, ToolMessage

_LEFT = "The user said something new instead of an answer to this call."


class FrontResult(NamedTuple):
    """The answer of a front end to an external call, in the words of `Session.answer`."""

    effect_id: str
    result: JsonValue = None
    error: str | None = None
    instead: str | None = None
    reason: str | None = None


def tools_of(given: "RunAgentInput", agent: AnyAgent, config: AguiConfig) -> list[ExternalTool]:
    """Return the tools of the front end, but those that the agent has for it.

    Raises `ConfigurationError` for one that no model can be told of.
    """
    known = config.front_end_tools & agent.tools.keys()
    return [_tool(tool, config) for tool in given.tools or () if tool.name not in known]


def _tool(tool: "Tool", config: AguiConfig) -> ExternalTool:
    parameters: object = tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise ConfigurationError(f"the parameters of the tool {tool.name!r} are no JSON schema of an object")
    schema = cast("dict[str, JsonValue]", parameters)
    made = external_tool(tool.name, tool.description, schema, expires=config.tools_expire)
    rule = ExternalRule(expires=config.tools_expire, of_page=True)
    return replace(made, spec=structs.replace(made.spec, external=rule))


def results_in(given: "RunAgentInput", state: AgentState, config: AguiConfig, now: int) -> list[FrontResult]:
    """Return what the messages of a client say of the calls that are its own and wait at `now`, in their order.

    What it says of others, which another system is asked for, counts for nothing: a client may say anything.
    """
    waiting = _waiting(state, config, now)
    if not waiting:
        return []
    said = {message.tool_call_id: message for message in given.messages if message.role == "tool"}
    _, told = wire_messages(state, AguiConfig())
    pairs = ((call, said.get(told.call_id(call.position))) for call in waiting)
    return [_result(state, call, message) for call, message in pairs if message is not None]


def left_by_the_user(
    state: AgentState, results: list[FrontResult], config: AguiConfig, now: int
) -> Iterator[FrontResult]:
    """Yield answers to the calls of the front end that a new message came in place of."""
    answered = {result.effect_id for result in results}
    for call in _waiting(state, config, now):
        if call.effect_id not in answered:
            yield FrontResult(call.effect_id or "", instead=_LEFT, reason="a new message came")


def _waiting(state: AgentState, config: AguiConfig, now: int) -> list[ToolExecution]:
    calls = page_calls(state, config)
    return [call for call in calls if (asked := call.open_deferral) is not None and now < asked.expires_at]


def _result(state: AgentState, call: ToolExecution, message: "ToolMessage") -> FrontResult:
    content = message.content
    text = content if isinstance(content, str) else "".join(part.text for part in content if part.type == "text")
    effect = call.effect_id or ""
    if message.error is not None:
        return FrontResult(effect, error=message.error or text or "the front end says that it failed")
    schema = state.agent.result_schema(call.name) if state.agent is not None else None
    result: JsonValue = text
    if schema is not None:
        with suppress(ValueError):
            result = from_json(text, allow_inf_nan=False)
            if misfits(schema, result) and not misfits(schema, text):
                result = text  # it looks like another value, and is the text that its type wants
    return FrontResult(effect, result)
