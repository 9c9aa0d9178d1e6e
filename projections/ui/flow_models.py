"""The data that a front end renders of a run of a workflow: part of the contract, like the models of a session."""

from typing import Literal

from pydantic import Field, JsonValue

from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.projections.flow_drawing import NodeMark
from steptrail.projections.ui.models import UiModel


class UiFlowNode(UiModel):
    """A node of the workflow, and where it stands. `ran` counts its visits that succeeded, `tries` its tries."""

    id: str
    kind: str
    mark: NodeMark
    ran: int = Field(ge=0)
    tries: int = Field(ge=0)


class UiFlowQuestion(UiModel):
    """A question to a person that is open. `id` is what the answer is given to; for a held step it is the node.

    `type` says more of the kind: `approval`, `choice`, `edit`, `input`, `review`, or `before` and `after` of a step.
    `data` are the variables that the node shows. `digest` is the SHA-256 of what is asked, or of the exact arguments.
    """

    id: str
    kind: Literal["approval", "human", "step", "unknown_outcome"]
    node: str
    type: str | None = None
    prompt: str | None = None
    options: tuple[str, ...] | None = None
    data: dict[str, JsonValue] | None = None
    tool: str | None = None
    args: dict[str, JsonValue] | None = None
    args_summary: str | None = None
    digest: str | None = None
    expires_at: str | None = None
    reason: str | None = None


class UiFlowError(UiModel):
    """A failure after which the run went on: of a visit of a node, or of one item of a map."""

    node: str
    visit: int = Field(ge=1)
    item: int | None = Field(default=None, ge=0)
    failure: str
    message: str


class UiFlowRun(UiModel):
    """All that a front end shows of a run of a workflow, after `version` events.

    `stop_reason` and `output` are there once the last execution has ended, and `error_message` when it has failed. A
    run may be completed and have `errors`. `nodes` are in the order of the graph.
    """

    flow_id: str
    name: str
    status: ExecutionStatus
    version: int = Field(ge=0)
    execution_id: str | None = None
    nodes: tuple[UiFlowNode, ...]
    questions: tuple[UiFlowQuestion, ...]
    errors: tuple[UiFlowError, ...]
    stop_reason: StopReason | None = None
    error_message: str | None = None
    output: JsonValue | None = None
