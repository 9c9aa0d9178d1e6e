"""Runs and starts workflows for a trail. Imported when the first workflow is run."""

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.commands import StartFlow
from steptrail.domain.flow.ids import checked_flow_id
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.kernel.given import a_kind_of, a_row
from steptrail.infrastructure.flow.means import flow_means
from steptrail.interfaces.python.asked import Asked
from steptrail.interfaces.python.flow import Flow
from steptrail.runtime.flow.control import FlowControl, a_flow, brought
from steptrail.runtime.flow.kind import OnFlowCommit
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.values import GivenValues
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ids import session_or_unnamed
from steptrail.runtime.kernel.json_form import to_json_value
from steptrail.runtime.kernel.live_updates import OnUpdate


async def run_flow(
    environment: Environment,
    flow: BuiltWorkflow,
    asked: Asked,
    on_commit: OnFlowCommit | None,
    on_update: OnUpdate | None,
) -> FlowResult:
    """Run a workflow; see `Steptrail.run`."""
    flow_id = _flow_id(asked)
    start = _start(flow, asked, environment.worker)
    return await FlowControl(environment, flow_id, flow_means(), on_commit, on_update).run(flow, start)


async def start_flow(
    environment: Environment, flow: BuiltWorkflow, asked: Asked, on_commit: OnFlowCommit | None
) -> Flow:
    """Store that a workflow is to be run; see `Steptrail.start`."""
    flow_id = _flow_id(asked)
    await FlowControl(environment, flow_id, flow_means(), on_commit).start(_start(flow, asked, None))
    return Flow(environment, flow_id)


def _flow_id(asked: Asked) -> str:
    for name in ("history", "external_tools", "cause"):
        if getattr(asked, name):
            raise ConfigurationError(f"a workflow is run without `{name}`: that is for agents")
    return checked_flow_id(session_or_unnamed(asked.session, asked.key))


def _start(flow: BuiltWorkflow, asked: Asked, worker: str | None) -> StartFlow:
    if asked.options is not None:
        a_kind_of(RunOptions, asked.options, "`options` of a run")
    given = GivenValues()
    return StartFlow(
        flow=brought(a_flow(flow)),
        worker=worker,
        options=asked.options or flow.definition.options,
        input=given.value(asked.input, "input"),
        vars=given.values(asked.vars, "vars"),
        files=given.files,
        messages=a_row(asked.messages, "messages"),
        artifacts=a_row(asked.artifacts, "artifacts"),
        context=to_json_value(asked.context, "context"),
        metadata=asked.metadata or {},
        parent=asked.parent,
        new=asked.new,
        by=asked.by,
        key=asked.key,
    )
