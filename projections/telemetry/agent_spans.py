"""The spans of an agent: a segment, in it its steps, in a step the model calls and the tries of tool calls."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelReply
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.prices import PriceTable
from steptrail.domain.usage import ModelUsage
from steptrail.projections.telemetry.content import AgentContent
from steptrail.projections.telemetry.names import PROVIDERS, Name, Operation, Own
from steptrail.projections.telemetry.open_spans import OpenSpans
from steptrail.projections.telemetry.span import Attribute, SpanKind

_STEP, _CHAT = "step", "chat"


class AgentSpans:
    """Begins and ends the spans of one session. Unless asked for content it remembers nothing that was said."""

    def __init__(self, stream: str, spans: OpenSpans) -> None:
        self._stream, self._spans, content = stream, spans, spans.content
        self.told = AgentContent(id_of(stream), content) if content is not None else None
        self._snapshot: AgentSnapshot | None = None
        self._prices: PriceTable | None = None
        self._model = ""
        self._agent, self._provider = "", ""
        self._step = 0
        self._calls: dict[str, str] = {}
        """Effect id and attempt of a try -> the key of its span."""
        self._failures: dict[int, str] = {}
        """Position of a call -> the type of its last error."""

    @property
    def name(self) -> str:
        """The name of the spans of its segments."""
        return f"{Operation.INVOKE_AGENT} {self._agent}"

    @property
    def about(self) -> dict[str, Attribute]:
        """The attributes of every segment."""
        return {Name.OPERATION: Operation.INVOKE_AGENT.value, Name.AGENT_NAME: self._agent}

    def apply(self, event: Event, version: int, at: int) -> None:
        """Apply an event."""
        self._apply(event, version, at)
        if self.told is not None and isinstance(event, stored.AgentEvent):
            self.told.apply(event, version, at)

    def _apply(self, event: Event, version: int, at: int) -> None:
        spans = self._spans
        match event:
            case stored.SessionStarted(name=name):
                self._agent = name
            case stored.SessionForked(name=name, executions=executions):
                self._agent = name
                if event.agent is not None:
                    self._describe(event.agent)
                    self._prices = event.agent.limits.prices
                spans.begin_execution(f"{id_of(self._stream)}:{executions}")
            case stored.ExecutionStarted():
                self._describe(event.agent)
                self._prices = event.agent.limits.prices
                self._step = 0
                spans.begin_execution(event.execution_id, goes_on=event.retry_of is not None)
                if event.worker is not None:
                    spans.begin_segment(self.name, version, at, self._segment(event.segment), event.context)
            case stored.ExecutionResumed():
                if event.agent is not None:
                    self._describe(event.agent.switched(event.switched))
                if event.limits is not None:
                    self._prices = event.limits.prices
                spans.begin_segment(self.name, version, at, self._segment(event.segment), event.context)
                spans.go_on_waiting(version, at)
            case stored.ContinuationEvaluated():
                about: dict[str, Attribute] = {
                    Own.DECISION: event.decision.value,
                    Own.SHOULD_CONTINUE: event.should_continue,
                    Own.RESOLVED_BY: event.resolved_by,
                    Own.PHASE: event.phase.value,
                    Own.STEP: event.step,
                }
                if not event.should_continue:
                    about[Own.STOP_REASON] = event.stop_reason.value
                    spans.end_wait(at, "stop")  # the guards have ended the run in the middle of it
                spans.event(Own.DECISION, at, about)
            case stored.RetryScheduled():
                spans.event(Own.RETRY, at, {Name.ERROR_TYPE: event.error_type.value, Own.FAILURES: event.failures})
            case stored.ModelSwitched():
                if self._snapshot is not None:
                    self._describe(self._snapshot.switched())
                spans.event(Own.MODEL_SWITCHED, at, {Name.REQUEST_MODEL: event.to_model, Own.FAILURES: event.failures})
            case stored.ConversationCompacted():
                compacted: dict[str, Attribute] = {Own.STEP: event.through_step, Own.TOKENS_BEFORE: event.tokens_before}
                if event.by is not None:
                    compacted[Own.BY] = event.by
                spans.event(Own.COMPACTED, at, compacted)
            case stored.StepStarted(number=number):
                self._step = number
                spans.begin_part(_STEP, f"step {number}", version, at, {Own.STEP: number})
            case stored.StepCompleted():
                spans.end_part(_STEP, at, {Own.ERRORS: event.errors})
                self._calls.clear()
                self._failures.clear()
                if event.cost is not None:
                    spans.note_segment({Own.COST: float(event.cost.usd)})
            case (
                stored.InferenceStarted()
                | stored.InferenceCompleted()
                | stored.InferenceFailed()
                | stored.InferenceInterrupted()
            ):
                self._inference(event, version, at)
            case _:
                self._call(event, version, at)

    def _inference(self, event: stored.InferenceEvent, version: int, at: int) -> None:
        spans = self._spans
        match event:
            case stored.InferenceStarted():
                self._step, self._model = event.step, event.model
                about: dict[str, Attribute] = {
                    Name.OPERATION: Operation.CHAT.value,
                    Name.REQUEST_MODEL: event.model,
                    Own.STEP: event.step,
                    Own.ATTEMPT: event.attempt,
                }
                if self._provider:
                    about[Name.PROVIDER] = self._provider
                if self.told is not None:
                    about |= self.told.request()
                name = f"{Operation.CHAT} {event.model}"
                spans.begin_try(_CHAT, name, version, at, about, part=_STEP, kind=SpanKind.CLIENT)
            case stored.InferenceCompleted():
                told = spans.content.reply(event.reply) if spans.content is not None else {}
                cost = self._cost(event.reply)
                spans.end_try(_CHAT, at, {Own.STATUS: "completed", **_of_reply(event.reply), **cost, **told})
            case stored.InferenceFailed():
                spans.fail_try(_CHAT, at, event.error)
            case stored.InferenceInterrupted():
                spans.end_try(_CHAT, at, {Own.STATUS: "interrupted", Own.STOP_REASON: event.reason})

    def _call(self, event: Event, version: int, at: int) -> None:
        spans = self._spans
        match event:
            case stored.ToolExecutionStarted() | stored.ToolCallDeferred():
                key, attempt = f"call {event.position}", getattr(event, "attempt", 1)
                self._calls[f"{event.effect_id} {attempt}"] = key
                about: dict[str, Attribute] = {
                    Name.OPERATION: Operation.EXECUTE_TOOL.value,
                    Name.TOOL_NAME: event.tool,
                    Name.TOOL_CALL_ID: event.call_id,
                    Own.EFFECT_ID: event.effect_id,
                    Own.STEP: self._step,
                    Own.ATTEMPT: attempt,
                }
                if isinstance(event, stored.ToolExecutionStarted):
                    about[Own.EFFECT] = event.effect.value
                if self.told is not None:
                    about |= self.told.arguments(event.position)
                effect = event.effect_id if attempt == 1 else None
                name = f"{Operation.EXECUTE_TOOL} {event.tool}"
                spans.begin_try(key, name, version, at, about, part=_STEP, effect=effect)
            case stored.ToolExecutionCompleted(position=position):
                spans.end_try(
                    f"call {position}", at, {Own.STATUS: "completed", **spans.told(Name.TOOL_RESULT, event.result)}
                )
            case stored.ToolExecutionFailed(position=position, error=error):
                self._failures[position] = error.type.value
                spans.fail_try(f"call {position}", at, error)
            case stored.ToolExecutionInterrupted(position=position):
                reason: dict[str, Attribute] = {Own.STATUS: "interrupted", Own.STOP_REASON: event.reason}
                if event.then is Then.FAIL:
                    reason[Name.ERROR_TYPE] = event.reason
                spans.end_try(f"call {position}", at, reason, is_error=event.then is Then.FAIL)
            case stored.ToolExecutionSuspended(position=position):
                spans.end_try(f"call {position}", at, {Own.STATUS: "suspended"})
            case stored.ToolExecutionSettledLate():
                key = self._calls.get(f"{event.effect_id} {event.attempt}", "")
                if event.error is not None:
                    spans.fail_try(key, at, event.error)
                else:
                    spans.end_try(key, at, {Own.STATUS: "completed", **spans.told(Name.TOOL_RESULT, event.result)})
            case stored.ToolRetryScheduled():
                kind = self._failures.get(event.position, ErrorType.UNKNOWN.value)
                spans.event(Own.RETRY, at, {Name.ERROR_TYPE: kind, Own.FAILURES: event.failures})
            case _:
                pass

    def _cost(self, reply: ModelReply) -> dict[str, Attribute]:
        """Return what the call cost, which is empty without a price."""
        if self._prices is None:
            return {}
        cost = self._prices.cost([ModelUsage.of_reply(self._model, reply.response_model, reply.usage)])
        return {} if cost.unpriced or cost.unmetered else {Own.COST: float(cost.usd)}

    def _describe(self, agent: AgentSnapshot) -> None:
        self._snapshot = agent
        self._agent, self._provider = agent.name, PROVIDERS.get(agent.model.driver, agent.model.driver)

    def _segment(self, number: int) -> dict[str, Attribute]:
        return {**self.about, Own.SEGMENT: number}


def _of_reply(reply: ModelReply) -> dict[str, Attribute]:
    usage = reply.usage
    about: dict[str, Attribute] = {
        Name.FINISH_REASONS: (reply.finish_reason.value,),
        Name.INPUT_TOKENS: usage.all_input,
        Name.OUTPUT_TOKENS: usage.all_output,
    }
    kinds = (
        (Name.CACHE_READ_TOKENS, usage.cache_read),
        (Name.CACHE_WRITE_TOKENS, usage.cache_write),
        (Name.REASONING_TOKENS, usage.reasoning),
    )
    about.update({name: tokens for name, tokens in kinds if tokens})
    if reply.response_model is not None:
        about[Name.RESPONSE_MODEL] = reply.response_model
    if reply.response_id is not None:
        about[Name.RESPONSE_ID] = reply.response_id
    return about
