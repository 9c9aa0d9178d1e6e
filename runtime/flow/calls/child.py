"""A try of a node that runs an agent or another workflow, in a stream of its own. The one module that knows agents."""

from functools import partial
from typing import Any, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.files import files_named
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import filled, said
from steptrail.domain.flow.nodes import AgentNode, FlowNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.agent import AnyAgent, is_agent
from steptrail.runtime.agent.children import ChildSession, why_no_answer
from steptrail.runtime.agent.given import a_context
from steptrail.runtime.flow.calls.port import Failed, Outcome, Succeeded, Suspended, TimedOut, Try, not_brought
from steptrail.runtime.flow.children import ChildFlow, why_no_output
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.child import ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.json_form import looked_through

MAX_DEPTH = 3
"""How many levels of streams there may be below the first."""


class AgentCall:
    """Runs an agent in a session of its own, and hands its answer on."""

    def __init__(self, node: AgentNode, code: object, seen: Seen) -> None:
        if not is_agent(code):
            raise not_brought(f"the agent {node.agent!r}", code)
        self._agent: AnyAgent = code
        (text, files), self._context = said(node.prompt, seen), filled(node.context, seen)
        self._said = Message.user(text, *files)
        self._output = node.output
        self.effect, self.usual = ToolEffect.IDEMPOTENT, FailureClass.CHILD
        self.given: JsonValue = [text, self._context, *(part.digest for part in files)]
        self.timeout: float | None = None
        self.patience: float | None = None

    async def run(self, attempt: Try) -> Outcome:
        """Have the agent answer, or go on with that; return the answer with its whole bill."""
        child = ChildSession(_place(attempt))

        def context() -> JsonValue:
            told = self._context if self._context is not None else attempt.context.context
            try:
                return None if self._agent.context is None else a_context(self._agent, told)
            except ConfigurationError as error:
                raise NodeFault(FailureClass.CONFIG, str(error)) from None

        end = await child.run(self._agent, self._said, within=attempt.timeout, context=context)
        usage, stream = end.usage, f"agent:{child.id}"
        if (state := end.ended) is None:
            return _unended(self._agent.name, stream, end)
        if not state.answered:
            return _no_answer(self._agent.name, stream, state.stop_reason, why_no_answer(state), usage)
        output = state.output_json if state.answers_in_a_type else cast("JsonValue", state.output)
        return Succeeded(output=output, sets=_usage_of(self._output, usage), usage=usage)


class FlowCall:
    """Runs another workflow in a stream of its own, and hands its output on."""

    def __init__(self, node: FlowNode, code: object, seen: Seen, means: FlowMeans) -> None:
        if not isinstance(code, BuiltWorkflow):
            raise not_brought(f"the workflow {node.flow!r}", code)
        self._flow, self._means, self._output = code, means, node.output
        self.effect, self.usual = ToolEffect.IDEMPOTENT, FailureClass.CHILD
        self.given: JsonValue = filled(node.input, seen)
        self._files = tuple(files_named(self.given, seen.files))
        self.timeout: float | None = None
        self.patience: float | None = None

    async def run(self, attempt: Try) -> Outcome:
        """Run the workflow, or go on with it; return its output with its whole bill."""
        child = ChildFlow(_place(attempt), self._means)
        told = attempt.context.context
        end = await child.run(self._flow, self.given, files=self._files, within=attempt.timeout, context=told)
        usage, stream = end.usage, f"flow:{child.id}"
        if (state := end.ended) is None:
            return _unended(self._flow.name, stream, end)
        if state.status is not ExecutionStatus.COMPLETED:
            return _no_answer(self._flow.name, stream, state.stop_reason, why_no_output(state), usage)
        output = state.output
        made = partial(Succeeded, output=output, files=child.files, sets=_usage_of(self._output, usage), usage=usage)
        return await looked_through(made, output)


def _place(attempt: Try) -> ChildPlace:
    if attempt.child is None:
        raise NodeFault(FailureClass.CONFIG, "there is no place for a stream below this one")
    if attempt.child.parent.depth > MAX_DEPTH:
        raise NodeFault(FailureClass.CONFIG, f"agents and workflows may be nested {MAX_DEPTH} deep, and not deeper")
    return attempt.child


def _usage_of(output: str | None, usage: BilledUsage | None) -> dict[str, JsonValue]:
    return {} if output is None or usage is None else {f"{output}_usage": cast("JsonValue", usage.to_dict())}


def _unended(name: str, stream: str, end: ChildEnd[Any]) -> Outcome:
    """Return the outcome of a try whose stream has come to no end of its own: its time was up, or the stream rests."""
    if not end.is_late:
        return Suspended(stream=stream, reason=end.why_it_rests, until=end.until, usage=end.usage)
    message = f"{name!r} did not end within its time"
    late = ErrorInfo(type=ErrorType.TIMEOUT, error_class="steptrail:ChildTimeout", message=message)
    return TimedOut(error=late, usage=end.usage)


def _no_answer(name: str, stream: str, reason: StopReason | None, why: str, usage: BilledUsage | None) -> Failed:
    message = f"{name!r} came to no answer {why}; its run is {stream}"
    error = ErrorInfo(type=ErrorType.UNKNOWN, error_class="steptrail:ChildFailed", message=message)
    details: dict[str, JsonValue] = {"stop_reason": reason and reason.value, "stream": stream}
    return Failed(failure=FailureClass.CHILD, error=error, details=details, usage=usage)
