"""Workflows as tools of agents: a call runs the workflow in a stream of its own, and its output comes back.

Whatever else the run comes to is a failed call, a call that waits with it, or a call that was cut off.
"""

from collections.abc import Mapping
from typing import cast

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.events import NodeFailed
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ApprovalRule
from steptrail.infrastructure.flow.means import flow_means
from steptrail.infrastructure.tools.child_tools import (
    MAX_DEPTH,
    MOST_CHARACTERS,
    child_spec,
    error_of,
    given_to_child,
    place_of,
    tool_name,
)
from steptrail.infrastructure.tools.schema import schema_of_model
from steptrail.projections.flow_explanation import verdict_of
from steptrail.runtime.agent.tool_port import (
    NO_CONTEXT,
    Capture,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolSuspended,
    ToolTimedOut,
)
from steptrail.runtime.flow.children import ChildFlow, ChildFlowEnd
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


class FlowTool:
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
        timeout: float | None = None,
        max_depth: int = MAX_DEPTH,
        max_calls: int | None = None,
        approval: ApprovalRule | bool = False,
        concurrent: bool = True,
    ) -> None:
        self._flow, model = a_flow(flow), parameters or _NoParameters
        chosen = name or tool_name(flow.name)
        self._input, self._max_depth = _Input(model), max_depth
        self.spec = child_spec(
            "flow",
            "workflow",
            name=chosen,
            description=description or flow.definition.description or f"Run the workflow {flow.name!r}.",
            parameters=schema_of_model(model, f"workflow {chosen!r}"),
            timeout=timeout,
            max_calls=max_calls,
            approval=approval,
            concurrent=concurrent,
            max_depth=max_depth,
        )

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit; None when they do."""
        given = given_to_child(self._input, arguments, raw, NO_CONTEXT, capture)
        return given if isinstance(given, ErrorInfo) else None

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        """Run one call; see `RunnableTool`. A call that nobody's run makes has no stream and fails."""
        name = self.spec.name
        given = given_to_child(self._input, arguments, raw, context, capture)
        if isinstance(given, ErrorInfo):
            return ToolFailed(given)
        try:
            told = None if context.data is None else to_json_value(context.data, "context")
        except Exception as error:  # whatever is told has a form of its own
            return ToolFailed(capture(error))
        place = place_of(context, name, "workflow", self._max_depth)
        if isinstance(place, ErrorInfo):
            return ToolFailed(place)
        child = ChildFlow(place, flow_means())
        context.progress(f"workflow {name} runs as flow:{child.id}")
        return _outcome(
            name, child, await child.run(self._flow, cast("JsonValue", given), within=timeout, context=told)
        )


def _outcome(name: str, child: ChildFlow, end: ChildFlowEnd) -> ToolOutcome:
    usage = end.usage
    if end.is_late:
        late = error_of("WorkflowTimeout", f"workflow {name!r} did not end within its time", ErrorType.TIMEOUT)
        return ToolTimedOut(late, cancelled=True, usage=usage)
    if (state := end.ended) is None:
        return ToolSuspended(child.id, end.why_it_rests, end.until, usage)
    if state.status is ExecutionStatus.COMPLETED:
        return ToolSucceeded(state.output, most_shown=MOST_CHARACTERS, usage=usage)
    return ToolFailed(error_of("WorkflowFailed", _why(name, child, state)), usage=usage)


def _why(name: str, child: ChildFlow, state: FlowState) -> str:
    ended_by = state.run.ended_by if state.run is not None else None
    said = ""
    if isinstance(ended_by, NodeFailed):
        words, error = ended_by.error.message, ended_by.error.error
        said = f": {words if error is None else words.replace(error.message, error.without_arguments)}"
    return f"workflow {name!r} came to no result: {verdict_of(state)}{said}; its run is flow:{child.id}"
