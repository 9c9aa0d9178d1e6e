"""The words of an agent's life, short enough for scenarios to read as sentences."""

from collections.abc import Sequence

from msgspec import structs

from steptrail.domain.agent.commands import Resume, Start
from steptrail.domain.agent.config import AgentSnapshot, HookSpec
from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerRejected,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
    MessagesAppended,
    PauseRequested,
    SessionStarted,
    StepCompleted,
    StepStarted,
    StopRequested,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.inference import InterruptionReason
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, TextPart, ToolCallPart
from steptrail.domain.output import OutputMode, OutputProblem, OutputSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import CutBy, ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.tools import OnUnknown, ToolEffect, ToolSpec
from steptrail.domain.usage import Usage
from steptrail.domain.version import VERSION


def typed(mode: OutputMode = OutputMode.TOOL, retries: int = 2) -> OutputSpec:
    """Return an output whose answers are objects."""
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return OutputSpec(name="final_result", type_name="Count", json_schema=schema, mode=mode, retries=retries)


TYPED = typed()
HELLO = Message.user("hello")
BOOM = ErrorInfo(type=ErrorType.TOOL, error_class="builtins:RuntimeError", message="boom")
LOST = ErrorInfo(type=ErrorType.MODEL, error_class="builtins:ConnectionError", message="no line")


def agent(
    *tools: ToolSpec,
    hooks: Sequence[HookType] = (),
    limits: Limits | None = None,
    policy: ErrorPolicy | None = None,
    fingerprint: str = "f1",
    prompt: str | None = None,
    output: OutputSpec | None = None,
) -> AgentSnapshot:
    return AgentSnapshot(
        name="triage",
        model=ModelInfo(driver="scripted", model="scripted"),
        fingerprint=fingerprint,
        system_prompt=prompt,
        tools=tools or (a_tool("look"),),
        hooks=tuple(HookSpec(name=f"hook.{each}", type=each) for each in hooks),
        limits=limits or Limits(),
        error_policy=policy or ErrorPolicy.stop_on_any_error(),
        output=output,
    )


def a_tool(name: str, effect: ToolEffect = ToolEffect.UNSAFE, on_unknown: OnUnknown = OnUnknown.TELL) -> ToolSpec:
    """Return a tool whose calls run one after the other, whatever they do."""
    return ToolSpec(name=name, effect=effect, on_unknown=on_unknown, concurrent=False)


AGENT = agent()


def start(snapshot: AgentSnapshot = AGENT, *, key: str | None = None, text: str = "hello") -> Start:
    return Start(input=Message.user(text), agent=snapshot, worker="w", key=key)


def resume(
    snapshot: AgentSnapshot = AGENT,
    *,
    last_seen: int = 0,
    ended_by: SegmentEnd | None = None,
    limits: Limits | None = None,
    policy: ErrorPolicy | None = None,
) -> Resume:
    return Resume(
        agent=snapshot, worker="w", last_seen=last_seen, ended_by=ended_by, limits=limits, error_policy=policy
    )


def opened(snapshot: AgentSnapshot = AGENT, *, key: str | None = None) -> tuple[AgentEvent, ...]:
    return (SessionStarted(name=snapshot.name), started(snapshot, key=key))


def started(
    snapshot: AgentSnapshot = AGENT, *, ordinal: int = 1, segment: int = 1, key: str | None = None, text: str = "hello"
) -> ExecutionStarted:
    return ExecutionStarted(
        execution_id=f"session:{ordinal}",
        ordinal=ordinal,
        segment=segment,
        worker="w",
        input=Message.user(text),
        agent=snapshot,
        key=key,
        by="user",
        library=VERSION,
    )


def resumed(
    segment: int = 2,
    ended_by: SegmentEnd = SegmentEnd.CRASH,
    *,
    interrupted: float = 0.0,
    limits: Limits | None = None,
    productive: bool | None = None,
) -> ExecutionResumed:
    """The next segment. Unless it is said, a crash got nowhere, and what ended in good order did."""
    return ExecutionResumed(
        segment=segment,
        worker="w",
        ended_by=ended_by,
        was_productive=ended_by in {"pause", "wait"} if productive is None else productive,
        interrupted_seconds=interrupted,
        limits=limits,
        by="user",
        library=VERSION,
    )


def paused(seconds: float = 0.0) -> ExecutionPaused:
    return ExecutionPaused(by="ana", step_seconds=seconds)


def decided(
    step: int, *, phase: DecisionPhase = DecisionPhase.BOUNDARY, retries: bool = False
) -> ContinuationEvaluated:
    """The decision to go on."""
    return ContinuationEvaluated(
        step=step,
        phase=phase,
        decision=ContinuationDecision.REQUEST,
        should_continue=True,
        resolved_by="ToolCallPresenceCheck",
        retries=retries,
    )


def done(step: int, *, phase: DecisionPhase = DecisionPhase.BOUNDARY, answered: bool = False) -> ContinuationEvaluated:
    """The decision that the work is done."""
    return ContinuationEvaluated(
        step=step,
        phase=phase,
        decision=ContinuationDecision.STOP,
        should_continue=False,
        resolved_by="aggregate",
        answered=answered,
    )


def forbidden(
    step: int,
    by: str = "StepsLimit",
    reason: StopReason = StopReason.STEPS_LIMIT,
    *,
    phase: DecisionPhase = DecisionPhase.BOUNDARY,
    answered: bool = False,
) -> ContinuationEvaluated:
    """The decision that a guard took against going on."""
    return ContinuationEvaluated(
        step=step,
        phase=phase,
        decision=ContinuationDecision.FORBID,
        should_continue=False,
        resolved_by=by,
        stop_reason=reason,
        answered=answered,
    )


def forbid(by: str, reason: StopReason, *, fails: bool = False) -> EvaluationsRecorded:
    """The vote of a guard that forbids; it may say that the run fails."""
    vote = ContinuationEvaluation.from_decision(by, ContinuationDecision.FORBID, reason)
    return EvaluationsRecorded(votes=(structs.replace(vote, fails=fails),))


def votes(
    *cast: tuple[str, ContinuationDecision], phase: DecisionPhase = DecisionPhase.BOUNDARY, hook: str | None = None
) -> EvaluationsRecorded:
    made = tuple(ContinuationEvaluation.from_decision(name, decision) for name, decision in cast)
    return EvaluationsRecorded(phase=phase, votes=made, hook=hook)


def step(number: int = 1) -> tuple[AgentEvent, ...]:
    """It was decided to go on, and the step began."""
    return (decided(number - 1), StepStarted(number=number))


def asked(number: int = 1, attempt: int = 1, output_mode: OutputMode | None = None) -> InferenceStarted:
    """The model is being called."""
    return InferenceStarted(
        step=number,
        attempt=attempt,
        model="scripted",
        request_digest="d",
        message_count=1,
        output_mode=output_mode,
    )


def rejected(number: int = 1, position: int | None = None) -> AnswerRejected:
    problem = OutputProblem(at="n", type="int_parsing", message="no number")
    return AnswerRejected(step=number, position=position, problems=(problem,))


def said(text: str, finish_reason: FinishReason = FinishReason.STOP) -> InferenceCompleted:
    return InferenceCompleted(
        reply=ModelReply(parts=(TextPart(text=text),), finish_reason=finish_reason, usage=Usage(input=10, output=5)),
        duration_seconds=1.0,
    )


def wants(*tools: str, finish_reason: FinishReason = FinishReason.TOOL_CALLS, text: str = "") -> InferenceCompleted:
    """The model asked for these tools, in order."""
    parts = tuple(ToolCallPart(id=f"call-{i}", name=name, arguments={"n": i}) for i, name in enumerate(tools))
    head = (TextPart(text=text),) if text else ()
    reply = ModelReply(parts=(*head, *parts), finish_reason=finish_reason, usage=Usage(input=10, output=5))
    return InferenceCompleted(reply=reply, duration_seconds=1.0)


def unanswered(error: ErrorInfo = LOST) -> InferenceFailed:
    return InferenceFailed(error=error, duration_seconds=1.0)


def running(
    position: int = 0, tool: str = "look", effect: ToolEffect = ToolEffect.UNSAFE, *, step: int = 1, attempt: int = 1
) -> ToolExecutionStarted:
    return ToolExecutionStarted(
        position=position,
        call_id=f"call-{position}",
        tool=tool,
        effect_id=f"session:1:{step}:{position}",
        effect=effect,
        attempt=attempt,
        arguments_digest="d",
    )


def cut_off(
    position: int = 0,
    then: Then = Then.TELL,
    reason: InterruptionReason = "crash",
    cut_by: CutBy | None = None,
    deadline: int | None = None,
) -> ToolExecutionInterrupted:
    """The call was cut off, and this follows."""
    return ToolExecutionInterrupted(
        position=position, reason=reason, cut_by=cut_by, deadline=deadline, then=then, duration_seconds=0.0
    )


def given_up(reason: InterruptionReason = "deadline") -> InferenceInterrupted:
    """The model call was cut off and is not made again."""
    return InferenceInterrupted(reason=reason, is_given_up=True)


def lost_reply(reason: InterruptionReason = "crash") -> InferenceInterrupted:
    """The model call was cut off and is made again."""
    return InferenceInterrupted(reason=reason, is_given_up=False)


def returned(position: int = 0, result: JsonValue = "ok") -> ToolExecutionCompleted:
    return ToolExecutionCompleted(position=position, result=result, duration_seconds=1.0)


def broke(position: int = 0, error: ErrorInfo = BOOM) -> ToolExecutionFailed:
    return ToolExecutionFailed(position=position, error=error, duration_seconds=1.0)


def ended(number: int = 1, seconds: float = 1.0, errors: int = 0) -> StepCompleted:
    return StepCompleted(number=number, duration_seconds=seconds, errors=errors)


def answered(number: int = 1, text: str = "done") -> tuple[AgentEvent, ...]:
    """A whole step that ends with an answer."""
    return (*step(number), asked(number), said(text), ended(number))


def failed(number: int = 1, error: ErrorInfo = LOST) -> tuple[AgentEvent, ...]:
    """A whole step whose model call failed."""
    return (*step(number), asked(number), unanswered(error), ended(number, errors=1))


def finished(
    status: ExecutionStatus = ExecutionStatus.COMPLETED,
    reason: StopReason = StopReason.COMPLETED,
    by: str = "aggregate",
    *,
    answered: bool = False,
) -> ExecutionFinished:
    return ExecutionFinished(status=status, stop_reason=reason, resolved_by=by, answered=answered)


def hooks_ran(hook_type: HookType, number: int, position: int | None = None) -> HooksRan:
    return HooksRan(hook_type=hook_type, step=number, position=position, hooks=(f"hook.{hook_type}",))


def stop_asked(by: str = "ana", reason: str | None = None) -> StopRequested:
    return StopRequested(by=by, reason=reason)


def pause_asked(by: str = "ana", reason: str | None = None) -> PauseRequested:
    return PauseRequested(by=by, reason=reason)


def told(text: str, key: str | None = None) -> MessagesAppended:
    return MessagesAppended(messages=(Message.user(text),), key=key, by="user")
