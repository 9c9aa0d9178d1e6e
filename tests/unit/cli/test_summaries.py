"""Every event has something to say, on one line, whatever a model or a tool put into it."""

from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ConversationCompacted,
    ExecutionPaused,
    InferenceCompleted,
    InferenceFailed,
    MessagesAppended,
    MetadataChanged,
    ModelSwitched,
    PauseLifted,
    PauseRequested,
    RetryScheduled,
    SessionForked,
    SessionStarted,
    StepCompleted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionSuspended,
    UsageRecorded,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import DeltaKind, ReplyDelta
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import CutBy, ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.tools import ApprovalRule
from steptrail.domain.usage import BilledUsage, Usage
from steptrail.interfaces.cli.progress import Progress
from steptrail.interfaces.cli.summaries import clock_time, summary
from steptrail.testing import calls, say
from tests.samples import smallest

ERROR = ErrorInfo(type=ErrorType.TOOL, error_class="x:Y", message="no\nluck")
COMPACTED = ConversationCompacted(
    through_step=41,
    through_message=80,
    cleared_through=80,
    cleared_above=2_000,
    summary="so far",
    by="gpt-5-mini",
    tokens_before=182_310,
    duration_seconds=3.0,
)
REFUSED = structs.replace(COMPACTED, summary=None, problem=ERROR, cleared_calls=1, tokens_before=0)
SWITCHED = ModelSwitched(step=4, from_model="gpt-5", to_model="claude-x", error_type=ErrorType.RATE_LIMIT, failures=2)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SessionStarted(name="triage"), "triage"),
        (MessagesAppended(messages=(Message.user("and\nnow?"),), by="ana"), "ana: and now?"),
        (MetadataChanged(changes={"a": 1}, removed=("b",), by="ana"), "ana: a, -b"),
        (PauseRequested(by="ops", reason="deploy"), "ops: deploy"),
        (PauseLifted(by="ops", reason="deployed"), "ops: deployed"),
        (ExecutionPaused(by="ops", step_seconds=0.0), "ops"),
        (StepCompleted(number=2, duration_seconds=1.5, errors=1), "step 2 in 1.50 s, 1 error"),
        (StepCompleted(number=2, duration_seconds=1.5), "step 2 in 1.50 s"),
        (
            InferenceCompleted(reply=calls(("add", {}), ("sub", {})), duration_seconds=0.25),
            "0.25 s, 15 tokens, tool_calls: calls add, sub",
        ),
        (InferenceFailed(error=ERROR, duration_seconds=0), "0.00 s, tool error: Y: no luck"),
        (
            RetryScheduled(error_type=ErrorType.RATE_LIMIT, failures=2, delay_seconds=4, due_at=5, draw=0.5),
            "failure 2 (rate_limit), again in 4.00 s",
        ),
        (COMPACTED, "182,310 tokens after step 41, summary by gpt-5-mini"),
        (REFUSED, "too many tokens after step 41, 1 result left out, no summary by gpt-5-mini: Y: no luck"),
        (SWITCHED, "gpt-5 -> claude-x after 2 rate limits, step 4"),
        (WaitStarted(kind="retry", until=1_700_000_000_123_456), "retry until 2023-11-14 22:13:20.123"),
        (WaitStarted(kind="unknown_outcome", position=1), "unknown_outcome"),
        (
            SessionForked(
                name="desk",
                source="s1",
                version=12,
                digest="d",
                by="ana",
                reason="try again",
                status=ExecutionStatus.PAUSED,
                executions=1,
                steps=2,
            ),
            "s1 after 12 events, by ana: try again",
        ),
        (WaitEnded(reason="settled", by="ana"), "settled by ana"),
        (WaitEnded(reason="rerun", by="ana", settled_reason="no trace of it"), "rerun by ana: no trace of it"),
        (
            ToolExecutionCompleted(
                position=1, result=1, duration_seconds=0.0, settled_by="ana", settled_reason="the bank says so"
            ),
            "call 1 said by ana (the bank says so): 1",
        ),
        (ToolExecutionCompleted(position=1, result={"a": [1]}, duration_seconds=0.0), 'call 1 in 0.00 s: {"a":[1]}'),
        (
            ToolExecutionInterrupted(position=1, reason="crash", then=Then.TELL, duration_seconds=0.0),
            "call 1: crash, outcome unknown: the model is told",
        ),
        (
            ToolExecutionInterrupted(
                position=0, reason="deadline", cut_by=CutBy.TOOL_TIMEOUT, then=Then.PARK, duration_seconds=0.0
            ),
            "call 0: deadline (tool_timeout), outcome unknown: a person is to say",
        ),
        (
            ToolExecutionSettledLate(effect_id="s:1:1:0", attempt=1, segment=1, error=ERROR),
            "s:1:1:0: tool error: Y: no luck",
        ),
        (
            ToolExecutionSuspended(position=1, session="child-1", reason="is waiting (approval)", duration_seconds=0.0),
            "call 1: session child-1 is waiting (approval)",
        ),
        (UsageRecorded(hook="SelfCritic", usage=BilledUsage(input=3)), "3 tokens, by SelfCritic"),
        (ToolCallBlocked(position=0, reason="not today", hook="Guard"), "call 0 by Guard: not today"),
        (ToolCallAmended(position=0, arguments={}, hook="Guard"), "call 0 by Guard"),
        (ToolCallCancelled(position=0, reason="the run stops"), "call 0: the run stops"),
        (ToolCallHeld(position=0, hook="Guard", rule=ApprovalRule(reason="much")), "call 0 by Guard: much"),
        (
            ApprovalRequested(
                approval_id="s:1:1:0",
                position=0,
                tool="pay",
                arguments_digest="d",
                expires_at=1_700_000_000_000_000,
                asked_by="pay",
            ),
            "s:1:1:0 for pay, until 2023-11-14 22:13:20.000",
        ),
        (ApprovalGranted(approval_id="s:1:1:0", by="ana"), "s:1:1:0 by ana"),
        (ApprovalGranted(approval_id="s:1:1:0", by="ana", arguments={}), "s:1:1:0 by ana, with other arguments"),
        (ApprovalDenied(approval_id="s:1:1:0", by="ana", reason="too much"), "s:1:1:0 by ana: too much"),
        (ApprovalExpired(approval_id="s:1:1:0"), "s:1:1:0"),
    ],
)
def test_an_event_says_what_it_carries(event: AgentEvent, said: str) -> None:
    assert summary(event) == said


def test_a_long_text_is_cut() -> None:
    said = summary(SessionStarted(name="x" * 500))
    assert len(said) == 100
    assert said.endswith("…")


def test_an_event_of_another_machine_says_nothing() -> None:
    assert summary(Event()) == ""


def test_no_event_type_of_an_agent_is_left_without_a_word() -> None:
    silent = [kind.__name__ for kind in get_args(AgentEvent) if not summary(kind(**_anything(kind)))]
    assert silent == []


def _anything(kind: type[AgentEvent]) -> dict[str, object]:
    values: dict[str, object] = {
        "agent": smallest(AgentSnapshot),
        "ended_by": SegmentEnd.CRASH,
        "error": ERROR,
        "error_type": ErrorType.TOOL,
        "input": Message.user("hi"),
        "messages": (Message.user("hi"),),
        "reply": calls(("add", {})),
        "status": ExecutionStatus.COMPLETED,
        "stop_reason": StopReason.COMPLETED,
        "then": Then.TELL,
        "votes": (),
        "hooks": (),
        "rule": ApprovalRule(),
        "usage": Usage(),
    }
    return {
        field.name: values.get(field.name, 1 if "int" in str(field.type) or "float" in str(field.type) else field.name)
        for field in structs.fields(kind)
        if field.required or field.name in {"input", "messages"}
    }


def test_a_clock_shows_milliseconds() -> None:
    assert clock_time(1_700_000_000_009_999) == "2023-11-14 22:13:20.009"


def told(*events: AgentEvent) -> list[str]:
    lines: list[str] = []
    progress = Progress(lines.append)
    progress([Recorded(version, 0, event) for version, event in enumerate(events, 1)])
    return lines


def test_progress_names_a_call_by_its_tool_and_keeps_to_one_line() -> None:
    assert told(
        InferenceCompleted(reply=calls(("add", {}), ("sub", {})), duration_seconds=0.25),
        ToolExecutionCompleted(position=1, duration_seconds=0.5),
        ToolCallBlocked(position=0, reason="not\nnow", hook="Guard"),
        ToolExecutionInterrupted(position=7, reason="crash", then=Then.RERUN, duration_seconds=0.0),
        ToolCallCancelled(position=7, reason="ana stopped the run"),
    ) == [
        "  model replied in 0.25 s, 15 tokens, calls add, sub",
        "  sub finished in 0.50 s",
        "  add blocked by Guard: not now",
        "  call 7 interrupted: crash",
        "  call 7 called off: ana stopped the run",
    ]


def test_progress_tells_which_model_is_asked_from_now_on() -> None:
    assert told(COMPACTED) == ["compacted: 182,310 tokens after step 41, summary by gpt-5-mini"]
    assert told(SWITCHED) == ["gpt-5 -> claude-x after 2 rate limits, step 4"]
    once = structs.replace(SWITCHED, error_type=ErrorType.MODEL, failures=1)
    assert told(once) == ["gpt-5 -> claude-x after 1 model error, step 4"]


def test_progress_tells_a_retry_and_what_is_waited_for() -> None:
    assert told(
        RetryScheduled(error_type=ErrorType.RATE_LIMIT, failures=2, delay_seconds=4, due_at=5, draw=0.5),
        WaitStarted(kind="retry", until=5),
        WaitStarted(kind="unknown_outcome", position=3),
    ) == ["retry in 4.0 s after failure 2 (rate_limit)", "waiting for somebody to say what call 3 did"]


def written(*happened: AgentEvent | ReplyDelta) -> str:
    """Return all that a terminal is given, with the lines between the pieces."""
    pieces: list[str] = []
    progress = Progress(lambda line: pieces.append(line + "\n"), pieces.append)
    assert progress.on_update is not None
    for each in happened:
        if isinstance(each, ReplyDelta):
            progress.on_update(each)
        else:
            progress([Recorded(1, 0, each)])
    return "".join(pieces)


def piece(text: str = "", kind: DeltaKind = "text", *, is_final: bool = False) -> ReplyDelta:
    return ReplyDelta(session_id="s", execution_id="s:1", step=1, attempt=1, kind=kind, text=text, is_final=is_final)


REPLIED = InferenceCompleted(reply=say("It is late."), duration_seconds=0.25)


def test_on_a_terminal_text_is_shown_as_it_is_written_and_ends_its_line() -> None:
    seen = written(piece("Hm.", "reasoning"), piece("It is\n"), piece("late."), piece(is_final=True), REPLIED)
    assert seen == "    It is\n    late.\n  model replied in 0.25 s, 15 tokens\n"


def test_text_that_breaks_off_leaves_the_next_line_alone() -> None:
    failed = InferenceFailed(error=ErrorInfo(type=ErrorType.MODEL, error_class="e", message="gone"), duration_seconds=1)
    assert written(piece("It is"), failed, piece("It is late.")) == (
        "    It is\n  model failed in 1.00 s (model): e: gone\n    It is late."
    )


def test_a_run_whose_text_nobody_sees_is_not_watched() -> None:
    assert Progress(print).on_update is None
