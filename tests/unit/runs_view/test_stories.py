"""Single stories of runs, told by hand: rests, tags, forks, errors of criteria, limits, and streams below."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    ApprovalGranted,
    ApprovalRequested,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    MetadataChanged,
    ModelSwitched,
    SessionForked,
    SessionStarted,
    StepCompleted,
    StepStarted,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import Limits, StepsLimit
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.policy.fallback import FallbackModel, FallbackSpec
from steptrail.domain.prices import ModelPrice, PriceTable
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.projections.kernel.table import Row, Table
from steptrail.projections.runs_view.sums import FAILURES_DAILY, RETRIES_DAILY, RUNS_DAILY
from steptrail.projections.runs_view.tables import (
    ATTEMPTS,
    EVALUATIONS,
    EXECUTIONS,
    RESTS,
    SIGNATURES,
    TAGS,
    TOOL_CALLS,
)
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import Tables, entries, projected

SECOND = 1_000_000
PRICES = PriceTable(version="1", models={"m": ModelPrice(input=Decimal(1), output=Decimal(2))})
AGENT = AgentSnapshot(
    name="desk",
    model=ModelInfo(driver="d", model="m"),
    fingerprint="f1",
    tools=(ToolSpec(name="ask", runs_children="agent"),),
    limits=Limits(prices=PRICES),
)
OPENED = SessionStarted(name="desk", metadata={"tenant": "acme", "tags": {"user": "u7", "on": True}})
FORKED = SessionForked(
    name="desk", source="t", version=9, digest="d", by="ana", status=ExecutionStatus.FAILED, executions=3, steps=2
)
STARTED = ExecutionStarted(execution_id="s:1", ordinal=1, segment=1, worker="w1", library="0", agent=AGENT, by="ana")
DONE = ExecutionFinished(
    status=ExecutionStatus.COMPLETED, stop_reason=StopReason.COMPLETED, resolved_by="Work", answered=True
)


def told(*events: Event) -> Tables:
    """Return the rows of a session in which one event comes each second, from the second 1 on."""
    records = [Recorded(version, version * SECOND, event) for version, event in enumerate(events, 1)]
    return projected(RunsView(), entries("agent:s", records))


def resumed(ended_by: SegmentEnd, worker: str = "w2") -> ExecutionResumed:
    return ExecutionResumed(
        segment=2, worker=worker, library="0", ended_by=ended_by, was_productive=True, interrupted_seconds=0, by="bob"
    )


def only(tables: Tables, table: Table) -> Row:
    """Return the one row of a table."""
    (row,) = tables.of(table)
    return row


def rests(tables: Tables) -> Sequence[tuple[object, ...]]:
    return [tuple(row[name] for name in ("kind", "started_at", "ended_at", "ending")) for row in tables.of(RESTS)]


def test_a_run_has_the_model_that_it_asks_by_now() -> None:
    later = tuple(FallbackModel(model=ModelInfo(driver="d", model=name)) for name in ("n", "o"))
    agent = structs.replace(AGENT, fallback=FallbackSpec(models=later, on=(ErrorType.TIMEOUT,), after=2))
    switch = ModelSwitched(step=2, from_model="m", to_model="n", error_type=ErrorType.TIMEOUT, failures=2)
    going = (OPENED, structs.replace(STARTED, agent=agent), switch)
    assert only(told(*going), EXECUTIONS)["model"] == "n"
    again = structs.replace(resumed(SegmentEnd.CRASH), agent=structs.replace(agent, fingerprint="f2"), switched=1)
    assert only(told(*going, again), EXECUTIONS)["model"] == "n"
    assert only(told(*going, structs.replace(again, switched=0)), EXECUTIONS)["model"] == "m"


def test_a_run_has_the_tags_and_the_tenant_of_its_metadata() -> None:
    tables = told(OPENED, STARTED, DONE)
    assert only(tables, EXECUTIONS)["tenant"] == "acme"
    assert [(row["name"], row["value"]) for row in tables.of(TAGS)] == [("on", "true"), ("user", "u7")]
    assert only(tables, RUNS_DAILY)["tenant"] == "acme"


def test_tags_that_change_while_the_run_is_open_replace_the_old_ones_and_later_ones_do_not() -> None:
    change = MetadataChanged(changes={"tags": {"user": "u8"}}, by="ana")
    assert [row["value"] for row in told(OPENED, STARTED, change, DONE).of(TAGS)] == ["u8"]
    assert [row["value"] for row in told(OPENED, STARTED, DONE, change).of(TAGS)] == ["true", "u7"]
    assert told(OPENED, STARTED, MetadataChanged(removed=("tags",), by="ana")).of(TAGS) == []


def test_a_run_that_waits_for_a_worker_is_pending_and_that_time_is_a_rest() -> None:
    later = ExecutionStarted(execution_id="s:1", ordinal=1, segment=0, worker=None, library="0", agent=AGENT, by="a")
    waiting = only(told(OPENED, later), EXECUTIONS)
    assert (waiting["status"], waiting["segments"], waiting["worker"]) == ("pending", 0, None)
    tables = told(OPENED, later, resumed(SegmentEnd.START))
    assert rests(tables) == [("worker", 2 * SECOND, 3 * SECOND, "resumed")]
    begun = only(tables, EXECUTIONS)
    assert (begun["status"], begun["segments"], begun["worker"]) == ("in_progress", 1, "w2")
    assert (begun["idle_us"], begun["people_us"]) == (SECOND, 0)


@pytest.mark.parametrize("ended_by", [SegmentEnd.CRASH, SegmentEnd.TAKE_OVER])
def test_the_time_after_a_crash_is_a_rest(ended_by: SegmentEnd) -> None:
    tables = told(OPENED, STARTED, StepStarted(number=1), resumed(ended_by), DONE)
    assert rests(tables) == [("crash", 3 * SECOND, 4 * SECOND, "resumed")]
    assert only(tables, EXECUTIONS)["segments"] == 2


def test_a_pause_in_a_wait_parts_the_wait_and_no_time_is_counted_twice() -> None:
    tables = told(
        OPENED,
        STARTED,
        WaitStarted(kind="approval", until=99 * SECOND),
        ExecutionPaused(by="ana", reason=None, step_seconds=0),
        resumed(SegmentEnd.PAUSE),
        WaitEnded(reason="approved", by="bob"),
        DONE,
    )
    assert rests(tables) == [
        ("approval", 3 * SECOND, 4 * SECOND, "paused"),
        ("pause", 4 * SECOND, 5 * SECOND, "resumed"),
        ("approval", 5 * SECOND, 6 * SECOND, "approved"),
    ]
    assert [(row["by"], row["ended_by"], row["is_for_people"]) for row in tables.of(RESTS)] == [
        (None, None, True),
        ("ana", "bob", True),
        (None, "bob", True),
    ]
    run = only(tables, EXECUTIONS)
    assert (run["idle_us"], run["people_us"], run["wall_us"]) == (3 * SECOND, 3 * SECOND, 5 * SECOND)


def test_a_pause_goes_on_when_somebody_answers_in_it_what_the_run_had_waited_for() -> None:
    waiting = WaitStarted(kind="unknown_outcome", position=0)
    paused = (OPENED, STARTED, waiting, ExecutionPaused(by="ana", step_seconds=0))
    tables = told(*paused, WaitEnded(reason="settled", by="bob"), MetadataChanged(by="ana"), resumed(SegmentEnd.PAUSE))
    assert rests(tables) == [
        ("unknown_outcome", 3 * SECOND, 4 * SECOND, "paused"),
        ("pause", 4 * SECOND, 7 * SECOND, "resumed"),
    ]
    assert only(told(*paused, WaitEnded(reason="settled", by="bob")), EXECUTIONS)["waits_for"] is None


def test_a_cancelled_caller_and_a_retry_are_no_wait_for_people() -> None:
    tables = told(
        OPENED,
        STARTED,
        ExecutionPaused(by="caller", reason=None, step_seconds=0),
        resumed(SegmentEnd.PAUSE),
        WaitStarted(kind="retry", until=9 * SECOND),
        WaitEnded(reason="due"),
    )
    assert [row["is_for_people"] for row in tables.of(RESTS)] == [False, False]
    assert only(tables, EXECUTIONS)["people_us"] == 0


def test_guards_that_end_a_run_in_its_wait_end_the_wait_too() -> None:
    stop = ContinuationEvaluated(
        step=0,
        phase=DecisionPhase.RESUME,
        decision=ContinuationDecision.FORBID,
        should_continue=False,
        resolved_by="X",
        stop_reason=StopReason.GUARD,
    )
    tables = told(OPENED, STARTED, WaitStarted(kind="retry", until=9 * SECOND), resumed(SegmentEnd.WAIT), stop)
    assert rests(tables) == [("retry", 3 * SECOND, 5 * SECOND, "stop")]
    assert (only(tables, EXECUTIONS)["status"], only(tables, EXECUTIONS)["waits_for"]) == ("in_progress", None)


def test_a_rest_that_the_end_of_the_run_finds_is_over() -> None:
    tables = told(OPENED, STARTED, WaitStarted(kind="retry", until=9 * SECOND), DONE)
    assert rests(tables) == [("retry", 3 * SECOND, 4 * SECOND, "finished")]


def test_a_fork_of_an_open_run_begins_with_that_run_at_rest_and_counts_from_there() -> None:
    fork = structs.replace(FORKED, status=ExecutionStatus.PAUSED, metadata={"tags": {"why": "try"}})
    tables = told(fork, resumed(SegmentEnd.PAUSE), DONE)
    run = only(tables, EXECUTIONS)
    assert (run["ordinal"], run["name"], run["steps"], run["status"]) == (3, "desk", 0, "completed")
    assert rests(tables) == [("pause", SECOND, 2 * SECOND, "resumed")]
    assert only(tables, TAGS)["name"] == "why"


def test_a_fork_knows_the_tools_and_the_prices_that_its_run_goes_on_with() -> None:
    fork = structs.replace(FORKED, name="fork", status=ExecutionStatus.PAUSED, executions=1, steps=1, agent=AGENT)
    tables = told(fork, resumed(SegmentEnd.PAUSE), StepStarted(number=2), ASKED, REPLY, call(), DONE)
    run = only(tables, EXECUTIONS)
    assert (run["name"], run["model"], run["fingerprint"]) == ("desk", "m", "f1")
    assert run["cost_nanos"] is not None
    assert str(only(tables, TOOL_CALLS)["child"]).startswith("agent:")


def test_a_fork_of_a_run_that_has_ended_has_no_run_yet() -> None:
    assert told(FORKED).of(EXECUTIONS) == []


def test_a_criterion_that_raises_gives_the_failed_run_its_signature() -> None:
    vote = ContinuationEvaluation.from_exception("Mine", KeyError("k7"))
    failed = ExecutionFinished(status=ExecutionStatus.FAILED, stop_reason=StopReason.ERROR, resolved_by="Mine")
    tables = told(OPENED, STARTED, EvaluationsRecorded(votes=(vote,)), failed)
    run, kind = only(tables, EXECUTIONS), only(tables, SIGNATURES)
    assert (run["error_type"], run["error_class"], run["signature"]) == (
        "unknown",
        "builtins.KeyError",
        kind["signature"],
    )
    assert (kind["tool"], kind["template"]) == ("Mine", "#")
    assert only(tables, FAILURES_DAILY)["runs"] == 1
    other = ExecutionFinished(status=ExecutionStatus.FAILED, stop_reason=StopReason.ERROR, resolved_by="Another")
    assert only(told(OPENED, STARTED, EvaluationsRecorded(votes=(vote,)), other), EXECUTIONS)["signature"] is None


def test_a_limit_tells_what_was_used_and_what_it_allows_and_a_vote_in_shadow_is_kept() -> None:
    def vote(**fields: object) -> ContinuationEvaluation:
        return ContinuationEvaluation(
            criterion_class="StepsLimit",
            context={StepsLimit.keys[0]: 3, StepsLimit.keys[1]: 2.5},
            setting="max_steps",
            is_limit=True,
            **fields,  # type: ignore[arg-type]
        )

    forbids = vote(decision=ContinuationDecision.FORBID, stop_reason=StopReason.STEPS_LIMIT)
    allows = vote()
    tables = told(
        OPENED, STARTED, EvaluationsRecorded(votes=(allows, forbids, forbids.in_shadow(), allows.in_shadow()))
    )
    rows = tables.of(EVALUATIONS)
    names = ("n", "decision", "shadow", "setting", "used", "at_most")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, "forbid", None, "max_steps", "3", "2.5"),
        (2, "allow", "forbid", None, None, None),
    ]


REPLY = InferenceCompleted(
    reply=ModelReply(
        parts=(ToolCallPart(id="c", name="ask", arguments={}),),
        finish_reason=FinishReason.TOOL_CALLS,
        usage=Usage(input=1000, output=500),
    ),
    duration_seconds=0.5,
)
ASKED = InferenceStarted(step=1, model="m", request_digest="d", message_count=1)


def call(attempt: int = 1) -> ToolExecutionStarted:
    return ToolExecutionStarted(
        position=0,
        call_id="c",
        tool="ask",
        effect_id="s:1:1:0",
        effect=ToolEffect.KEYED,
        attempt=attempt,
        arguments_digest="d",
    )


def test_what_a_stream_below_was_billed_is_in_the_tree_and_not_the_runs_own() -> None:
    below = Usage(input=2000)
    bill = BilledUsage.of(below, (ModelUsage(asked_for="m", usage=below),))
    cut = ToolExecutionInterrupted(position=0, reason="crash", then=Then.RERUN, duration_seconds=1, usage=bill)
    more = Usage(input=3000)
    whole = BilledUsage.of(more, (ModelUsage(asked_for="m", usage=more),))
    ended = ToolExecutionCompleted(position=0, duration_seconds=1, usage=whole)
    step = StepCompleted(number=1, duration_seconds=2)
    tables = told(OPENED, STARTED, StepStarted(number=1), ASKED, REPLY, call(), cut, call(2), ended, step, DONE)
    run = only(tables, EXECUTIONS)
    assert (run["tokens_input"], run["tokens_output"], run["tree_tokens"]) == (1000, 500, 4500)
    assert (run["cost_nanos"], run["tree_cost_nanos"], run["is_unpriced"]) == (2_000_000, 5_000_000, False)
    assert (run["tool_calls"], run["retries"], run["active_us"]) == (1, 1, 2 * SECOND)
    row = only(tables, TOOL_CALLS)
    assert str(row["child"]).startswith("agent:child-")
    assert (row["status"], row["attempts"], row["duration_us"]) == ("completed", 2, SECOND)
    attempt = only(tables, ATTEMPTS)
    assert (attempt["attempt"], attempt["status"], attempt["started_at"]) == (1, "interrupted", 6 * SECOND)


def test_a_look_after_a_stream_below_that_rested_is_no_retry() -> None:
    rests = ToolExecutionSuspended(position=0, session="child", reason="approval", duration_seconds=1)
    ended = ToolExecutionCompleted(position=0, duration_seconds=1)
    step = StepCompleted(number=1, duration_seconds=2)
    asked = (OPENED, STARTED, StepStarted(number=1), ASKED, REPLY, call())
    tables = told(*asked, rests, resumed(SegmentEnd.CRASH), call(2), ended, step, DONE)
    run = only(tables, EXECUTIONS)
    assert (run["tool_calls"], run["retries"]) == (1, 0)
    assert only(tables, ATTEMPTS)["status"] == "suspended"
    assert tables.of(RETRIES_DAILY) == []


def test_a_call_that_is_not_tried_again_tells_of_its_last_try_as_its_outcome() -> None:
    boom = ErrorInfo(type=ErrorType.TOOL, error_class="builtins:OSError", message="boom")
    failed = ToolExecutionFailed(position=0, error=boom, may_retry=True, duration_seconds=1)
    again = ToolRetryScheduled(position=0, failures=1, draw=0.5, delay_seconds=50, due_at=90 * SECOND)
    given_up = ToolCallCancelled(position=0, reason="the run's time is up")
    step = StepCompleted(number=1, duration_seconds=2, errors=1)
    tables = told(OPENED, STARTED, StepStarted(number=1), ASKED, REPLY, call(), failed, again, given_up, step, DONE)
    row = only(tables, TOOL_CALLS)
    assert (row["status"], row["duration_us"], row["error_class"]) == ("failed", SECOND, "builtins:OSError")
    assert (row["end_version"], tables.of(ATTEMPTS), tables.of(RETRIES_DAILY)) == (9, [], [])
    assert only(tables, EXECUTIONS)["errors"] == 1
    assert only(tables, FAILURES_DAILY)["calls"] == 1


def test_a_call_tells_who_approved_it() -> None:
    question = ApprovalRequested(
        approval_id="s:1:1:0", tool="ask", arguments_digest="d", expires_at=9 * SECOND, asked_by="ask"
    )
    yes = ApprovalGranted(approval_id="s:1:1:0", by="ana", arguments={"secret": "words"}, reason="words")
    tables = told(OPENED, STARTED, StepStarted(number=1), ASKED, REPLY, question, yes)
    row = only(tables, TOOL_CALLS)
    assert (row["status"], row["approval"], row["approved_by"]) == ("pending", "granted", "ana")
    assert only(tables, EXECUTIONS)["approvals"] == 1


def test_a_reply_without_a_price_makes_the_cost_a_lower_bound() -> None:
    strange = InferenceStarted(step=1, model="other", request_digest="d", message_count=1)
    step = StepCompleted(number=1, duration_seconds=1)
    tables = told(OPENED, STARTED, StepStarted(number=1), strange, REPLY, step, DONE)
    run = only(tables, EXECUTIONS)
    assert (run["cost_nanos"], run["is_unpriced"]) == (0, True)
    assert only(tables, RUNS_DAILY)["unpriced_runs"] == 1
