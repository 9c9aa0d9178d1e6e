"""The words of these tests: a session as a front end sees it."""

from steptrail.domain.agent.events import AgentEvent, InferenceCompleted
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.messages import Part, TextPart, ToolCallPart
from steptrail.domain.usage import Usage
from steptrail.testing.scenario import AgentScenario
from steptrail.ui import UiConfig, UiConversation, UiMessage, UiMetadata, ui_conversation
from tests.unit.agent.story import asked, ended, returned, running, step

SHOW_NOTHING = UiConfig(include_args_summary=False)


def seen(scenario: AgentScenario, config: UiConfig | None = None) -> UiConversation:
    return ui_conversation(scenario.state, config or UiConfig())


def message(scenario: AgentScenario, message_id: str, config: UiConfig | None = None) -> UiMessage:
    (found,) = [each for each in seen(scenario, config).messages if each.id == message_id]
    return found


def about(scenario: AgentScenario, message_id: str, config: UiConfig | None = None) -> UiMetadata:
    found = message(scenario, message_id, config).metadata
    assert found is not None
    return found


def roles(scenario: AgentScenario) -> list[str]:
    return [each.role for each in seen(scenario).messages]


def replied(*parts: Part) -> InferenceCompleted:
    wants_tools = any(isinstance(part, ToolCallPart) for part in parts)
    reason = FinishReason.TOOL_CALLS if wants_tools else FinishReason.STOP
    return InferenceCompleted(reply=ModelReply(parts=parts, finish_reason=reason, usage=Usage()), duration_seconds=1.0)


def look(text: str = "", **arguments: str) -> InferenceCompleted:
    """The model asks for one look, and says something beside it."""
    call = ToolCallPart(id="c1", name="look", arguments=dict(arguments))
    return replied(*([TextPart(text=text)] if text else []), call)


def looked(text: str = "", result: str = "ok", **arguments: str) -> tuple[AgentEvent, ...]:
    """A whole step of one look."""
    return (*step(), asked(), look(text, **arguments), running(), returned(result=result), ended())
