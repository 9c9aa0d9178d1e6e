"""Workflows as tools of agents: a call runs the workflow in a stream of its own, and its output comes back."""

from collections.abc import Mapping
from functools import partial
from typing import Unpack, cast

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from steptrail.domain.flow.events import NodeFailed
from steptrail.domain.flow.files import in_words
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import BilledUsage
from steptrail.infrastructure.flow.means import flow_means
from steptrail.infrastructure.tools.child_tools import (
    MOST_CHARACTERS,
    ChildOptions,
    ChildTool,
    NoChild,
    error_of,
    tool_name,
)
from steptrail.infrastructure.tools.schema import schema_of_model
from steptrail.projections.flow_explanation import verdict_of
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolFailed, ToolOutcome, ToolSucceeded
from steptrail.runtime.flow.children import ChildFlow
from steptrail.runtime.flow.control import a_flow
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.json_form import to_json_value


class _NoParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Input:
    """Makes the input of a workflow of a model's arguments."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> dict[str, object]:
        """Return the fields of the input. Raises `pydantic.ValidationError`, and what a validator raises."""
        values = self._model.model_validate_json(to_json(arguments))
        return values.model_dump(mode="json", by_alias=True)


class FlowTool(ChildTool):
    """A workflow as a tool: the arguments of a call are the input of a run, and its output is the result.

    `name` and `description` are what the calling model sees; they default to those of the workflow. `parameters` is a
    pydantic model of the arguments; without one the tool has none, and the input is `{}`. The run is told what the
    calling run was told. `timeout` is in seconds and bounds the run beside its own options and what is left of the
    caller's time. Calls run beside each other unless `concurrent` is false. `max_depth` is how many levels below the
    first stream the run may stand. Raises `ConfigurationError` for what makes no tool.
    """

    def __init__(
        self,
        flow: BuiltWorkflow,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: type[BaseModel] | None = None,
        **options: Unpack[ChildOptions],
    ) -> None:
        self._flow, model = a_flow(flow), parameters or _NoParameters
        self.digest = flow.digest  # it tells versions of an agent, or of the workflow above, apart
        chosen = name or tool_name(flow.name)
        super().__init__(
            "flow",
            "workflow",
            _Input(model),
            name=chosen,
            description=description or flow.definition.description or f"Run the workflow {flow.name!r}.",
            schema=schema_of_model(model, f"workflow {chosen!r}"),
            **options,
        )

    async def _answered(
        self, given: dict[str, object], context: ToolContext, timeout: float | None, capture: Capture
    ) -> ToolOutcome:
        name = self.spec.name
        try:
            told = None if context.data is None else to_json_value(context.data, "context")
        except Exception as error:  # whatever is told has a form of its own
            raise NoChild(capture(error)) from None
        child = ChildFlow(self._place(context, name), flow_means())
        context.progress(f"workflow {name} runs as flow:{child.id}")
        end = await child.run(self._flow, cast("JsonValue", given), within=timeout, context=told)
        return self._outcome(name, child.id, end, partial(_answer, name, child, end.usage))


def _answer(name: str, child: ChildFlow, usage: BilledUsage | None, state: FlowState) -> ToolOutcome:
    if state.status is ExecutionStatus.COMPLETED:
        said = in_words(state.output, state.files)
        return ToolSucceeded(said, most_shown=MOST_CHARACTERS, usage=usage, files=child.files)
    return ToolFailed(error_of("WorkflowFailed", _why(name, child.id, state)), usage=usage)


def _why(name: str, child_id: str, state: FlowState) -> str:
    ended_by = state.run.ended_by if state.run is not None else None
    said = ""
    if isinstance(ended_by, NodeFailed):
        words, error = ended_by.error.message, ended_by.error.error
        said = f": {words if error is None else words.replace(error.message, error.without_arguments)}"
    return f"workflow {name!r} came to no result: {verdict_of(state)}{said}; its run is flow:{child_id}"
