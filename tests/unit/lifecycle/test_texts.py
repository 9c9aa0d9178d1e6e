"""What a lifecycle event says of itself: as one line, and under which keys."""

from typing import Any

import pytest

from steptrail import lifecycle
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.usage import Usage
from steptrail.lifecycle import RunEvent
from tests.runner.kit import NOON

WHOSE: dict[str, Any] = {
    "session_id": "triage-2026",
    "parent_session_id": None,
    "execution_id": "x:1",
    "version": 7,
    "session_status": ExecutionStatus.IN_PROGRESS,
}
CALL: dict[str, Any] = {"step": 1, "tool": "look", "tool_call_id": "c1", "message_id": "x:1:1:0"}
ENDED: dict[str, Any] = {
    "status": ExecutionStatus.COMPLETED,
    "stop_reason": StopReason.COMPLETED,
    "steps": 2,
    "usage": Usage(input=20, output=10),
    "errors": 0,
    "answered": True,
    "answer": "s3cret",
}
STOP = ContinuationOutcome(
    decision=ContinuationDecision.FORBID,
    should_continue=False,
    resolved_by="StepsLimit",
    stop_reason=StopReason.STEPS_LIMIT,
)
SECRET = {"what": "s3cret", "where": "s3cret"}
TRIED: dict[str, Any] = {"result": None, "started": NOON, "ended": NOON + 2_000_000, "duration_ms": 2000}

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "AgentExecutionStarted",
        {"messages": 3, "tools": 2},
        "messages tools",
        "execution started (messages: 3, tools: 2)",
    ),
    ("AgentExecutionResumed", {"ended_by": SegmentEnd.CRASH}, "endedBy", "execution resumed (after: crash)"),
    ("AgentExecutionPaused", {"by": "ana", "reason": None}, "by reason", "execution paused (by: ana)"),
    ("AgentExecutionUnpaused", {"by": "ana", "reason": None}, "by reason", "execution unpaused (by: ana)"),
    (
        "AgentExecutionWaiting",
        {"kind": "approval", "until": NOON, "tool": "pay", "tool_call_id": "c1"},
        "kind until tool toolCallId",
        "execution waits (approval: pay)",
    ),
    ("AgentExecutionWaitEnded", {"reason": "approved", "by": "ana"}, "reason by", "execution waits no more (approved)"),
    ("MessagesAdded", {"count": 2, "source": MessageSource.HOOK}, "count source", "messages were added (2 by hook)"),
    (
        "StopSignalReceived",
        {"source": "ops", "message": None},
        "reason message context source",
        "was asked to stop (by: ops)",
    ),
    (
        "AgentExecutionCompleted",
        ENDED,
        "status stopReason steps usage errors answered",
        "completed (steps: 2, tokens: 30)",
    ),
    (
        "AgentExecutionFailed",
        {**ENDED, "error": "no\nline", "error_type": "model"},
        "error errorType status stopReason steps usage errors answered",
        "failed: no line (steps: 2, tokens: 30)",
    ),
    (
        "AgentExecutionStopped",
        {**ENDED, "stop_reason": StopReason.STEPS_LIMIT, "source": "StepsLimit", "message": "2/2", "context": SECRET},
        "stopReason stopMessage source steps stopContext status usage errors answered",
        "stopped: steps_limit by StepsLimit (steps: 2, tokens: 30)",
    ),
    (
        "AgentStepStarted",
        {"step": 1, "messages": 3, "tools": 2},
        "step messages tools",
        "step 1 started (messages: 3, tools: 2)",
    ),
    (
        "AgentStepCompleted",
        {
            "step": 1,
            "has_tool_calls": True,
            "has_text": False,
            "error_messages": ("s3cret",),
            "usage": Usage(output=5),
            "finish_reason": "stop",
            "duration_ms": 75_000,
        },
        "step hasToolCalls hasText errors errorMessages usage finishReason durationMs",
        "step 1 completed [75000ms] (tokens: 5, errors: 1)",
    ),
    (
        "TokenUsageReported",
        {"operation": "step", "usage": Usage(output=5), "context": {"step": 1, "hasToolCalls": True}},
        "operation usage context",
        "used 5 tokens (step)",
    ),
    (
        "DecisionTaken",
        {"step": 2, "phase": "boundary", "outcome": STOP},
        "step shouldContinue stopReason resolvedBy",
        "step 2: STOP (steps_limit)",
    ),
    (
        "HookExecuted",
        {"hook_type": "pre_tool_use", "hook": "guard", "tool": "look"},
        "hookType hook tool outcome reason duration_ms",
        "hook guard ran (pre_tool_use: look)",
    ),
    (
        "InferenceRequestStarted",
        {"step": 1, "attempt": 1, "messages": 3, "model": "gpt"},
        "step attempt messages model",
        "step 1 asks gpt (messages: 3)",
    ),
    (
        "InferenceResponseReceived",
        {"step": 1, "input_tokens": 9, "output_tokens": 5, "finish_reason": "stop", "duration_ms": 12},
        "step inputTokens outputTokens finishReason duration_ms",
        "step 1 got a reply [12ms] (9 in, 5 out, stop)",
    ),
    (
        "InferenceRequestFailed",
        {"step": 1, "error": "no line", "error_type": "model", "duration_ms": 12},
        "step error errorType duration_ms",
        "step 1 got no reply: no line",
    ),
    (
        "ValidationFailed",
        {"step": 1, "validation_type": "tool_arguments", "errors": ("what: got s3cret",)},
        "step validationType errors errorCount",
        "step 1: invalid tool_arguments (errors: 1)",
    ),
    (
        "ToolCallStarted",
        {**CALL, "args": SECRET, "attempt": 1},
        "step toolCallId messageId tool args attempt at",
        "Tool call started: look(what, where)",
    ),
    (
        "ToolCallCompleted",
        {**CALL, **TRIED, "success": True, "error": None, "error_type": None, "result": "s3cret"},
        "step toolCallId messageId tool success error result started ended duration_ms",
        "Tool call completed: look [2000ms]",
    ),
    (
        "ToolCallCompleted",
        {**CALL, **TRIED, "success": False, "error": "no tea", "error_type": "tool"},
        "step toolCallId messageId tool success error result started ended duration_ms",
        "Tool call failed: look [2000ms] (no tea)",
    ),
    (
        "ToolCallCompleted",
        {**CALL, **TRIED, "success": False, "error": "what: got s3cret", "error_type": "validation"},
        "step toolCallId messageId tool success error result started ended duration_ms",
        "Tool call failed: look [2000ms] (validation)",
    ),
    (
        "CallBlocked",
        {**CALL, "args": SECRET, "reason": "s3cret", "hook": "guard"},
        "step toolCallId messageId tool args reason hook",
        "Tool call blocked: look (by guard)",
    ),
    (
        "CallCancelled",
        {**CALL, "reason": "too many"},
        "step toolCallId messageId tool reason",
        "Tool call cancelled: look (too many)",
    ),
    (
        "ToolCallSuspended",
        {**CALL, "subagent_id": "child-12345", "reason": "waits"},
        "step toolCallId messageId tool subagentId reason",
        "Tool call suspended: look (session child-12)",
    ),
    (
        "SubagentSpawning",
        {**CALL, "subagent": "scout", "subagent_id": "child-12345", "prompt": "s3cret" * 99, "depth": 1},
        "subagentId subagent prompt depth maxDepth",
        "Subagent spawning: scout [parent=triage-2] (depth 1)",
    ),
    (
        "SubagentCompleted",
        {
            **CALL,
            "subagent": "scout",
            "subagent_id": "child-12345",
            "status": "completed",
            "tokens": 5,
            "duration_ms": 12,
        },
        "subagentId subagent status steps tokens duration_ms",
        "Subagent completed: scout [parent=triage-2] [12ms]",
    ),
]


def made(name: str, said: dict[str, Any]) -> RunEvent:
    event = getattr(lifecycle, name)(**WHOSE, at=NOON, **said)
    assert isinstance(event, RunEvent)
    return event


@pytest.mark.parametrize(
    ("name", "said", "keys", "line"), CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)]
)
def test_an_event_has_its_line_and_its_keys_and_shows_no_argument(
    name: str, said: dict[str, Any], keys: str, line: str
) -> None:
    event = made(name, said)
    assert str(event) == (line if line.startswith(("Tool", "Subagent")) else f"Agent [triage-2] {line}")
    assert event.to_dict().keys() == {"agentId", "parentAgentId", "executionId", *keys.split()}
    assert "s3cret" not in str(event) + repr(event)


def test_every_class_is_among_the_cases() -> None:
    bases = {"RunEvent", "AgentExecutionEnded", "ToolCallEvent"}
    classes = [getattr(lifecycle, name) for name in lifecycle.__all__]
    concrete = {each.__name__ for each in classes if isinstance(each, type) and issubclass(each, RunEvent)} - bases
    concrete = {name for name in concrete if not issubclass(getattr(lifecycle, name), lifecycle.FlowRunEvent)}
    assert {case[0] for case in CASES} == concrete


def test_a_prompt_is_told_in_a_hundred_characters_and_the_parent_of_a_subagent_is_who_spawns_it() -> None:
    spawning = made("SubagentSpawning", {**CALL, "subagent": "a", "subagent_id": "c", "prompt": "x" * 200, "depth": 1})
    assert spawning.to_dict()["prompt"] == "x" * 100
    assert spawning.to_dict()["parentAgentId"] == "triage-2026"


def test_a_long_message_is_cut_in_the_line_and_whole_in_the_data() -> None:
    failed = made("ToolCallCompleted", {**CALL, **TRIED, "success": False, "error": "x" * 999, "error_type": "tool"})
    assert str(failed) == f"Tool call failed: look [2000ms] ({'x' * 200}...)"
    assert failed.to_dict()["error"] == "x" * 999
