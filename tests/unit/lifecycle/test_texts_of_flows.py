"""What a lifecycle event of a workflow says of itself: as one line, and under which keys."""

from typing import Any

import pytest

from steptrail import lifecycle
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.usage import Usage
from steptrail.lifecycle import FlowRunEvent
from tests.runner.kit import NOON

WHOSE: dict[str, Any] = {
    "session_id": "publish-2026",
    "parent_session_id": "order-2026",
    "execution_id": "x:1",
    "version": 7,
    "session_status": ExecutionStatus.IN_PROGRESS,
    "at": NOON,
}
NODE: dict[str, Any] = {"node": "write", "visit": 2, "item": 3}
ENDED: dict[str, Any] = {
    "status": ExecutionStatus.COMPLETED,
    "stop_reason": StopReason.COMPLETED,
    "source": "ana",
    "visits": 4,
    "errors": 1,
    "usage": Usage(input=20, output=10),
    "output": "s3cret",
}
FAILED: dict[str, Any] = {"failure": "tool", "error": "away", "attempt": 2, "rule": "critical"}
COUNTED = "(visits: 4, recorded errors: 1, tokens: 30)"
END_KEYS = "status stopReason source visits errors usage"
ASKED: dict[str, Any] = {"question_id": "q", "kind": "human", "prompt": "s3cret", "options": ("s3cret",)}

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("FlowExecutionStarted", {"flow": "publish", "is_retry": False}, "flow isRetry", "started: publish"),
    ("FlowExecutionStarted", {"flow": "publish", "is_retry": True}, "flow isRetry", "is retried: publish"),
    ("FlowExecutionResumed", {"ended_by": SegmentEnd.CRASH}, "endedBy", "resumed (after: crash)"),
    ("FlowExecutionPaused", {"by": "ana", "reason": "s3cret"}, "by reason", "paused (by: ana)"),
    ("FlowExecutionUnpaused", {"by": "ana", "reason": "s3cret"}, "by reason", "unpaused (by: ana)"),
    ("FlowExecutionWaiting", {"kind": "human", "until": NOON}, "kind until", "waits (human)"),
    ("FlowExecutionWaitEnded", {"reason": "answered", "by": None}, "reason by", "waits no more (answered)"),
    ("FlowStopSignalReceived", {"source": "ana", "message": None}, "source message", "was asked to stop (by: ana)"),
    ("FlowExecutionCompleted", ENDED, END_KEYS, f"completed {COUNTED}"),
    ("FlowExecutionStopped", ENDED, END_KEYS, f"stopped by ana {COUNTED}"),
    (
        "FlowExecutionFailed",
        {**ENDED, "error": "got s3cret", "node": "write", "failure": "validation"},
        f"{END_KEYS} error node failure",
        f"failed: at write: validation {COUNTED}",
    ),
    ("FlowNodeStarted", {**NODE, "items": None}, "items", "node write visit 2 item 3 started"),
    (
        "FlowNodeCompleted",
        {**NODE, "targets": ("a", "b"), "item_errors": 0},
        "targets itemErrors",
        "node write visit 2 item 3 completed -> a, b",
    ),
    (
        "FlowNodeFailureRecorded",
        {**NODE, **FAILED},
        "failure error attempt rule",
        "node write visit 2 item 3 failed, and the run goes on: away",
    ),
    ("FlowNodeFailed", {**NODE, **FAILED}, "failure error attempt rule", "node write visit 2 item 3 failed: away"),
    (
        "FlowNodeSkipped",
        {**NODE, "by": "ana", "reason": None},
        "by reason",
        "node write visit 2 item 3 skipped (by: ana)",
    ),
    ("FlowNodeCancelled", {**NODE, "reason": "stop"}, "reason", "node write visit 2 item 3 cancelled (stop)"),
    ("FlowAttemptStarted", {**NODE, "attempt": 1}, "attempt", "node write visit 2 item 3 attempt 1 started"),
    (
        "FlowAttemptEnded",
        {**NODE, "attempt": 1, "outcome": "failed", "failure": "tool", "error": "away", "duration_ms": 12},
        "attempt outcome failure error stream usage duration_ms",
        "node write visit 2 item 3 attempt 1 failed [12ms] (away)",
    ),
    (
        "FlowRetryScheduled",
        {**NODE, "attempt": 2, "delay_seconds": 1.5, "due_at": NOON},
        "attempt delaySeconds dueAt",
        "node write visit 2 item 3 attempt 2 follows in 1.5 s",
    ),
    (
        "FlowQuestionAsked",
        {**NODE, **ASKED},
        "questionId kind type prompt options tool expiresAt",
        "node write visit 2 item 3 asks (human)",
    ),
    (
        "FlowQuestionAnswered",
        {**NODE, "question_id": "q", "kind": "human", "answer": "answered", "by": "ana"},
        "questionId kind answer by",
        "node write visit 2 item 3: answered (by: ana)",
    ),
]


@pytest.mark.parametrize(
    ("name", "said", "keys", "line"), CASES, ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)]
)
def test_an_event_has_its_line_and_its_keys_and_shows_no_words(
    name: str, said: dict[str, Any], keys: str, line: str
) -> None:
    event = getattr(lifecycle, name)(**WHOSE, **said)
    where = {"node", "visit", "item"} if "node" in said and "visit" in said else set[str]()
    assert str(event) == f"Workflow [publish-] [parent=order-20] {line}"
    assert event.to_dict().keys() == {"flowId", "parentId", "executionId", *where, *keys.split()}
    assert "s3cret" not in str(event)
    assert "output='s3cret'" not in repr(event)
    assert "prompt=" not in repr(event)


def test_every_class_is_among_the_cases() -> None:
    bases = {"FlowRunEvent", "FlowExecutionEnded", "FlowNodeEvent"}
    classes = [getattr(lifecycle, name) for name in lifecycle.__all__]
    concrete = {each.__name__ for each in classes if isinstance(each, type) and issubclass(each, FlowRunEvent)} - bases
    assert {case[0] for case in CASES} == concrete


def test_the_first_visit_and_what_is_no_item_are_not_named() -> None:
    started = lifecycle.FlowNodeStarted(**WHOSE, node="write", visit=1, items=None)
    assert str(started).endswith("node write started")
