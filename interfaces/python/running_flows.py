"""Runs and starts workflows for a trail. Imported when the first workflow is run."""

from collections.abc import Mapping, Sequence

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.commands import StartFlow
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.ids import checked_flow_id
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.parent import ParentRef
from steptrail.infrastructure.flow.means import flow_means
from steptrail.interfaces.python.flow import Flow
from steptrail.runtime.flow.control import FlowControl, a_flow, brought
from steptrail.runtime.flow.owner import OnFlowCommit
from steptrail.runtime.flow.result import FlowResult
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.json_form import to_json_value
from steptrail.runtime.kernel.key_session import unnamed_session

__all__ = ["run_flow", "start_flow"]


def _start(
    flow: BuiltWorkflow,
    given: object,
    worker: str | None,
    *,
    options: RunOptions | None,
    vars: Mapping[str, object] | None,  # noqa: A002 - the public name
    messages: Sequence[Message],
    artifacts: Sequence[Artifact],
    context: object,
    metadata: dict[str, JsonValue] | None,
    parent: ParentRef | None,
    new: bool,
    by: str,
    key: str | None,
) -> StartFlow:
    if options is not None and not isinstance(options, RunOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the options of a run are RunOptions, not {type(options).__name__}")
    return StartFlow(
        flow=brought(a_flow(flow)),
        worker=worker,
        options=options or flow.definition.options,
        input=to_json_value(given, "input"),
        vars={name: to_json_value(value, f"vars.{name}") for name, value in (vars or {}).items()},
        messages=tuple(messages),
        artifacts=tuple(artifacts),
        context=to_json_value(context, "context"),
        metadata=metadata or {},
        parent=parent,
        new=new,
        by=by,
        key=key,
    )


async def run_flow(
    environment: Environment,
    flow: BuiltWorkflow,
    given: object = None,
    *,
    session: str | None = None,
    key: str | None = None,
    options: RunOptions | None = None,
    vars: Mapping[str, object] | None = None,  # noqa: A002 - the public name
    messages: Sequence[Message] = (),
    artifacts: Sequence[Artifact] = (),
    context: object = None,
    metadata: dict[str, JsonValue] | None = None,
    parent: ParentRef | None = None,
    new: bool = False,
    by: str = "user",
    on_commit: OnFlowCommit | None = None,
) -> FlowResult:
    """Run a workflow; see `Steptrail.run`."""
    flow_id = checked_flow_id(session or unnamed_session(key))
    start = _start(
        flow,
        given,
        environment.worker,
        options=options,
        vars=vars,
        messages=messages,
        artifacts=artifacts,
        context=context,
        metadata=metadata,
        parent=parent,
        new=new,
        by=by,
        key=key,
    )
    return await FlowControl(environment, flow_id, flow_means(), on_commit).run(flow, start)


async def start_flow(
    environment: Environment,
    flow: BuiltWorkflow,
    given: object = None,
    *,
    session: str | None = None,
    key: str | None = None,
    options: RunOptions | None = None,
    vars: Mapping[str, object] | None = None,  # noqa: A002 - the public name
    messages: Sequence[Message] = (),
    artifacts: Sequence[Artifact] = (),
    context: object = None,
    metadata: dict[str, JsonValue] | None = None,
    new: bool = False,
    by: str = "user",
    on_commit: OnFlowCommit | None = None,
) -> Flow:
    """Store that a workflow is to be run; see `Steptrail.start`."""
    flow_id = checked_flow_id(session or unnamed_session(key))
    start = _start(
        flow,
        given,
        None,
        options=options,
        vars=vars,
        messages=messages,
        artifacts=artifacts,
        context=context,
        metadata=metadata,
        parent=None,
        new=new,
        by=by,
        key=key,
    )
    await FlowControl(environment, flow_id, flow_means(), on_commit).start(start)
    return Flow(environment, flow_id)
