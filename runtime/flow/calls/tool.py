"""A try of a node with a tool."""

from functools import partial
from typing import cast

from steptrail.domain.copies import own
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.files import form_of
from steptrail.domain.flow.kinds.port import NodeFault, without_code
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import arguments
from steptrail.domain.flow.nodes import ToolNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.agent import tool_port
from steptrail.runtime.agent.capture import ToolCapture
from steptrail.runtime.agent.deadline import shortest
from steptrail.runtime.flow.calls.port import Failed, Outcome, Succeeded, Suspended, TimedOut, Try, not_brought
from steptrail.runtime.flow.failure_class import failure_class
from steptrail.runtime.kernel.json_form import looked_through


class ToolCall:
    """Calls a tool with arguments that were made from what the node sees."""

    def __init__(self, node: ToolNode, code: object, seen: Seen, approved: dict[str, JsonValue] | None = None) -> None:
        spec = getattr(code, "spec", None)
        if not isinstance(spec, ToolSpec):
            raise not_brought(_named(node.tool), code)
        if (spec.name, spec.runs_children) != (node.tool.name, node.tool.runs_children):
            # A person may have allowed that one, and a crash may have cut off that one under the id of this effect. A
            # stream of it may go on below.
            raise without_code(_named(node.tool), _named(spec))
        self._tool = cast("tool_port.RunnableTool", code)
        # What it declares now holds for new tries.
        self.effect = self._tool.spec.effect
        self.usual = FailureClass.TOOL if self._tool.spec.runs_children is None else FailureClass.CHILD
        self.timeout: float | None = self._tool.spec.timeout
        # What a person made of the arguments replaces them as a whole.
        self.given: JsonValue = arguments(node.args, seen, node.required) if approved is None else approved
        self._patience: tool_port.Patience | None = getattr(self._tool, "patience", None)
        self.patience: float | None = getattr(self._patience, "seconds", None)

    def left_behind(self, error: ErrorInfo) -> TimedOut:
        """Return the outcome of a try that was left behind. A rule of the tool says whether it is tried again."""
        said = None if self._patience is None else self._patience.outcome(self.timeout)
        return TimedOut(error=error, may_retry=said is None or self._tool.spec.retry is None or said.may_retry)

    async def run(self, attempt: Try) -> Outcome:
        """Call the tool, and return its outcome."""
        given = attempt.context
        timeout = shortest(self.timeout, attempt.timeout)
        context = tool_port.ToolContext(
            effect_id=given.effect_id,
            session_id=given.flow_id,
            execution_id=given.execution_id,
            step=given.visit,
            call_id=given.effect_id,
            attempt=given.attempt,
            data=_told(self._tool, given.context),
            resources=given.resources,
            deadline_seconds=timeout,
            report=given.report,
            child=attempt.child,
        )
        classify = ToolCapture(attempt.now)
        no_rule = self._tool.spec.retry is None
        given_to_tool = cast("dict[str, JsonValue]", own(self.given))
        returned = await self._tool.run(given_to_tool, None, context, timeout=timeout, capture=classify)
        match tool_port.outcome_of(self._tool, returned):
            case tool_port.ToolSucceeded(result=result, usage=usage, files=files):
                output = _with_files(result, files) if files else result
                return await looked_through(partial(Succeeded, output=output, files=files, usage=usage), result)
            case tool_port.ToolFailed(error=error, may_retry=is_covered, usage=usage):
                failure = failure_class(error, self.usual)
                may_retry = no_rule or is_covered
                return Failed(failure=failure, error=error, usage=usage, raised=classify.raised, may_retry=may_retry)
            case tool_port.ToolTimedOut(error=error, may_retry=is_covered, usage=usage):
                return TimedOut(error=error, usage=usage, may_retry=no_rule or is_covered)
            case tool_port.ToolSuspended(session=session, reason=reason, until=until, usage=usage):
                stream = f"{self._tool.spec.runs_children or 'agent'}:{session}"
                return Suspended(stream=stream, reason=reason, until=until, usage=usage)


def _with_files(result: JsonValue, files: tuple[FilePart, ...]) -> JsonValue:
    """Return the output of a tool that came with files: these alone where its result only stands for them in words."""
    forms: list[JsonValue] = [form_of(part) for part in files]
    if len(files) == 1 and result == files[0].placeholder:
        return forms[0]
    return forms if result == [part.placeholder for part in files] else {"result": result, "files": forms}


def _named(spec: ToolSpec) -> str:
    runs = f", which runs a stream {spec.runs_children}:…" if spec.runs_children is not None else ""
    return f"the tool {spec.name}{runs}"


def _told(tool: object, said: JsonValue) -> object:
    """Return what is said of the run, as a value of the type that the tool names for it; JSON where it names none."""
    kind, _ = tool_port.wanted_by(tool)
    if kind is None:
        return said
    from steptrail.runtime.agent.stored_types import StoredType

    try:
        wanted = StoredType(cast("type[object]", kind), "context")
    except ConfigurationError as error:
        raise NodeFault(FailureClass.CONFIG, str(error)) from None
    try:
        return wanted.of(said)
    except Exception as error:  # the type brings code of its own
        why = f"what is said of this run does not fit {wanted.name}: {wanted.why_not(error)}"
        raise NodeFault(FailureClass.CONFIG, why) from None
