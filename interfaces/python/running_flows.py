"""Runs and starts workflows for a trail. Imported when the first workflow is run."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from steptrail.domain.flow.commands import StartFlow
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.ids import checked_flow_id
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of, a_row
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.infrastructure.flow.means import flow_means
from steptrail.interfaces.python.flow import Flow
from steptrail.runtime.flow.control import FlowControl, a_flow, brought
from steptrail.runtime.flow.kind import OnFlowCommit
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ids import session_or_unnamed
from steptrail.runtime.kernel.json_form import to_json_value, to_json_values
from steptrail.runtime.kernel.live_updates import OnUpdate


class _Given(TypedDict):
    """The arguments of `Steptrail.run` and `Steptrail.start` that say what is to be run."""

    options: RunOptions | None
    vars: Mapping[str, object] | None
    messages: Sequence[Message]
    artifacts: Sequence[Artifact]
    context: object
    metadata: dict[str, JsonValue] | None
    parent: ParentRef | None
    new: bool
    by: str
    key: str | None


async def run_flow(
    environment: Environment,
    flow: BuiltWorkflow,
    said: object,
    *,
    session: str | None,
    on_commit: OnFlowCommit | None,
    on_update: OnUpdate | None,
    **given: Unpack[_Given],
) -> FlowResult:
    """Run a workflow; see `Steptrail.run`."""
    flow_id = checked_flow_id(session_or_unnamed(session, given["key"]))
    start = _start(flow, said, environment.worker, given)
    return await FlowControl(environment, flow_id, flow_means(), on_commit, on_update).run(flow, start)


async def start_flow(
    environment: Environment,
    flow: BuiltWorkflow,
    said: object,
    *,
    session: str | None,
    on_commit: OnFlowCommit | None,
    **given: Unpack[_Given],
) -> Flow:
    """Store that a workflow is to be run; see `Steptrail.start`."""
    flow_id = checked_flow_id(session_or_unnamed(session, given["key"]))
    await FlowControl(environment, flow_id, flow_means(), on_commit).start(_start(flow, said, None, given))
    return Flow(environment, flow_id)


def _start(flow: BuiltWorkflow, said: object, worker: str | None, given: _Given) -> StartFlow:
    options = given["options"]
    if options is not None:
        a_kind_of(RunOptions, options, "`options` of a run")
    return StartFlow(
        flow=brought(a_flow(flow)),
        worker=worker,
        options=options or flow.definition.options,
        input=to_json_value(said, "input"),
        vars=to_json_values(given["vars"], "vars"),
        messages=a_row(given["messages"], "messages"),
        artifacts=a_row(given["artifacts"], "artifacts"),
        context=to_json_value(given["context"], "context"),
        metadata=given["metadata"] or {},
        parent=given["parent"],
        new=given["new"],
        by=given["by"],
        key=given["key"],
    )
