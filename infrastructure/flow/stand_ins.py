"""Stand-ins for the code that a workflow uses, so that its text can be checked and drawn without that code."""

from types import SimpleNamespace
from typing import Any, NoReturn

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.inference import ModelInfo, ModelRequest
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.flow.workflow import BuiltWorkflow


def stand_in(kind: str) -> object:
    """Return what can be added in place of the code of a node of this kind. It cannot be run."""
    match kind:
        case "tool":
            return SimpleNamespace(spec=ToolSpec(name="tool", effect=ToolEffect.READ))
        case "llm" | "llm_router":
            return _NoModel()
        case "agent":
            return AgentBuilder("agent").with_model(_NoModel()).with_context(dict[str, Any]).build()
        case "flow":
            return BuiltWorkflow(definition=FlowDefinition(name="flow", nodes=()))
        case _:
            return _no_function


class _NoModel:
    def describe(self) -> ModelInfo:
        return ModelInfo(driver="none", model="model")

    async def infer(self, request: ModelRequest) -> NoReturn:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _no_function(*_: object) -> NoReturn:
    raise NotImplementedError
