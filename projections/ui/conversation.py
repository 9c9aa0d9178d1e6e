"""The conversation of a session as a front end renders it: a function of the state alone.

Instructions of the operator are not shown. Calls, their results and messages that came meanwhile stand in the order in
which a model is shown them; calls of an open step stand there already.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.fold import StepFold
from steptrail.domain.agent.ids import SessionId, effect_id, execution_id
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.names import short_name
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.messages import CitationPart, Message, MessageRole, TextPart, ToolCallPart
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.broadcast_text import timestamp_text
from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.ids import reply_id, said_id, status_id
from steptrail.projections.ui.models import (
    UiApproval,
    UiCitation,
    UiContinuation,
    UiConversation,
    UiFile,
    UiMessage,
    UiMetadata,
    UiRetry,
    UiToolCall,
)
from steptrail.projections.ui.tool_messages import open_call, settled_call

_STANDARD = UiConfig()


def ui_conversation(state: AgentState, config: UiConfig = _STANDARD) -> UiConversation:
    """Return what a front end shows of a session. The same state gives the same conversation."""
    a_kind_of(AgentState, state, "what a conversation is made of")
    a_kind_of(UiConfig, config, "config")
    messages = [*_told(state, config), *_decision(state, config)]
    failed = state.status is ExecutionStatus.FAILED
    return UiConversation(
        session_id=state.agent_id,
        status=state.status,
        version=state.version,
        messages=tuple(messages),
        approvals=tuple(_approvals(state, config)),
        stop_reason=state.stop_reason,
        answered=state.answered if state.stop_reason is not None else None,
        error_message=_error_message(state, config) if failed else None,
        last_response=_last_response(messages),
        retry=_retry(state),
    )


def looks_like_json(text: str) -> bool:
    """Tell whether text begins as a JSON object or list does: arguments that leaked into what a model says."""
    return text.lstrip().startswith(("{", "["))


def _told(state: AgentState, config: UiConfig) -> Iterator[UiMessage]:
    """Yield the conversation, then what the open step adds to it."""
    said = count(1)
    for message, origin in zip(state.messages, state.message_origins, strict=True):
        yield from _shown(state, message, origin, said, config)
    if (step := state.fold.step) is None:
        return
    yield from _open_step(state, step, config)
    for message, origin in zip(step.queued, step.queued_origins, strict=True):
        yield from _shown(state, message, origin, said, config)


def _shown(
    state: AgentState, message: Message, origin: MessageOrigin, said: Iterator[int], config: UiConfig
) -> Iterator[UiMessage]:
    """Yield a message as it is shown, if it is; `said` numbers those that no step made."""
    if origin.output:
        return  # the model was asked for its answer in the right form
    execution = execution_id(SessionId(state.agent_id), origin.execution)
    if origin.step is None:
        message_id = said_id(state.agent_id, next(said))
    elif origin.position is None:
        message_id = reply_id(execution, origin.step)
    else:
        message_id = effect_id(execution, origin.step, origin.position)
    at = timestamp_text(origin.at)
    files = UiFile.of(message.files) if message.is_user() else None
    metadata = UiMetadata(said_by=origin.hook, files=files) if origin.hook is not None or files else None
    match message.role:
        case MessageRole.SYSTEM | MessageRole.DEVELOPER:
            return
        case MessageRole.USER:
            yield UiMessage(id=message_id, role="user", content=message.text, timestamp=at, metadata=metadata)
        case MessageRole.TOOL:
            yield settled_call(message_id, message, origin, config)
        case MessageRole.ASSISTANT:
            content = _natural_language(message)
            if not message.tool_calls and not content:
                return
            calls = tuple(_asked_for(message.tool_calls, execution, origin.step, config)) or None
            citations = tuple(_citations(message)) if content else ()
            if calls or citations:
                metadata = UiMetadata(tool_calls=calls, citations=citations or None, said_by=origin.hook)
            yield UiMessage(id=message_id, role="assistant", content=content, timestamp=at, metadata=metadata)


def _natural_language(message: Message) -> str:
    """Return what a reply says to people; beside tool calls, what looks like JSON are arguments that leaked."""
    text = message.text
    is_shown = bool(text.strip()) and not (message.tool_calls and looks_like_json(text))
    return text if is_shown else ""


def _citations(message: Message) -> Iterator[UiCitation]:
    """Yield the sources of a message, each with the characters of its text that rest on it."""
    written = before = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            before, written = written, written + len(part.text)
        elif isinstance(part, CitationPart):
            start, end = (before, written) if part.start is None else (part.start, part.end)
            is_place = end is not None and 0 <= start <= end <= len(message.text)
            # Models write what they read: an address of another kind could run something where it is opened.
            is_web = part.uri is not None and part.uri.lower().startswith(("https://", "http://"))
            yield UiCitation(
                url=part.uri if is_web else None,
                title=part.title,
                quote=part.quote,
                start=start if is_place else None,
                end=end if is_place else None,
            )


def _asked_for(
    calls: Sequence[ToolCallPart], execution: str, step: int | None, config: UiConfig
) -> Iterator[UiToolCall]:
    for position, call in enumerate(calls):
        yield UiToolCall(
            id=call.id,
            name=call.name,
            message_id=effect_id(execution, step, position) if step is not None else None,
            args=config.shown_args(call.arguments),
            args_summary=config.shown_summary(call.arguments),
        )


def _open_step(state: AgentState, step: StepFold, config: UiConfig) -> Iterator[UiMessage]:
    """Yield the messages of the calls of the open step: of those that have ended as they will stay."""
    asked, ordinal = state.message_origins[-1].at if step.calls else 0, state.fold.executions
    execution = execution_id(SessionId(state.agent_id), ordinal)
    for call in step.calls:
        message_id = effect_id(execution, step.number, call.position)
        if call.is_over:
            origin = origin_of_call(call, at=asked, execution=ordinal, step=step.number)
            yield settled_call(message_id, call.message(), origin, config)
        else:
            spec = state.agent.tool(call.name) if state.agent is not None else None
            yield open_call(message_id, call, asked, spec)


def _decision(state: AgentState, config: UiConfig) -> Iterator[UiMessage]:
    """Yield what ended the last execution, where that is shown."""
    execution, outcome = state.execution, state.last_continuation_outcome
    if not config.include_continuation_trace or execution is None or outcome is None or execution.finished is None:
        return
    trace = UiContinuation(
        should_continue=outcome.should_continue,
        stop_reason=outcome.stop_reason,
        resolved_by=short_name(outcome.resolved_by),
    )
    yield UiMessage(
        id=status_id(execution.id, "continuation"),
        role="status",
        content=f"Agent stopped: {outcome.stop_reason.value}",
        timestamp=timestamp_text(execution.finished_at or state.as_of),
        metadata=UiMetadata(status_type="continuation", continuation=trace),
    )


def _approvals(state: AgentState, config: UiConfig) -> Iterator[UiApproval]:
    for call in state.tool_executions:
        asked = call.open_approval
        if asked is not None:
            yield UiApproval(
                id=asked.id,
                tool=call.name,
                digest=asked.digest,
                expires_at=timestamp_text(asked.expires_at),
                asked_by=asked.asked_by,
                reason=asked.reason,
                args=config.shown_args(call.arguments),
                args_summary=config.shown_summary(call.arguments),
            )


def _error_message(state: AgentState, config: UiConfig) -> str | None:
    """Return why the last execution failed: the error that decided, or the reason of the deciding vote."""
    failed = deciding_error(state)
    if failed is not None and (said := failed.error.message):
        return config.shown_error(said, failed.error.type if failed.tool_name is not None else None)
    outcome = state.last_continuation_outcome
    vote = outcome.deciding_vote if outcome is not None else None
    return vote.reason if vote is not None else None


def _last_response(messages: Sequence[UiMessage]) -> str | None:
    """Return the newest thing that the model said without asking for a tool, unless it is JSON."""
    for message in reversed(messages):
        asks = message.metadata is not None and message.metadata.tool_calls is not None
        if message.role == "assistant" and not asks and not looks_like_json(message.content):
            return message.content
    return None


def _retry(state: AgentState) -> UiRetry | None:
    execution = state.execution
    if execution is None or not state.is_open or not state.retry_is_granted:
        return None
    attempt, fallback = state.error_context.consecutive_failures + 1, execution.agent.fallback
    by_fallback = fallback.after if fallback is not None and fallback.failures(state) else None
    # A resume may allow fewer tries than have been made.
    return UiRetry(attempt=attempt, of=max(attempt, by_fallback or execution.agent.error_policy.max_retries))
