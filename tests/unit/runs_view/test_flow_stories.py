"""Single stories of runs of workflows, told by hand: branches at once, items of maps, cuts, retries of the run."""

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import (
    ExecutionFinished,
    FlowRetried,
    FlowStarted,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptStarted,
    NodeAttemptSuspended,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeFailureRecorded,
    NodeOpened,
    SessionStarted,
)
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage
from steptrail.projections.runs_view.sums import FAILURES_DAILY, RETRIES_DAILY, TOOLS_DAILY
from steptrail.projections.runs_view.tables import EXECUTIONS, SIGNATURES, TRIES, VISITS
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import Tables, entries, projected

SECOND = 1_000_000
OPENED = SessionStarted(name="order")
STARTED = FlowStarted(
    execution_id="f:1",
    ordinal=1,
    segment=1,
    worker="w",
    library="0",
    flow="order",
    definition="",
    digest="d",
    options=RunOptions(),
    by="ana",
)
FAILED = ExecutionFinished(status=ExecutionStatus.FAILED, stop_reason=StopReason.ERROR, resolved_by="failure")
ERROR = ErrorInfo(type=ErrorType.TIMEOUT, error_class="a:Late", message="after 3 s")


def told(*events: Event) -> Tables:
    """Return the rows of a run in which one event comes each second, from the second 1 on."""
    records = [Recorded(version, version * SECOND, event) for version, event in enumerate(events, 1)]
    return projected(RunsView(), entries("flow:f", records))


def opened(node: str, number: int = 1, items: int | None = None) -> NodeOpened:
    return NodeOpened(node=node, visit=1, number=number, items=items)


def tried(node: str, attempt: int = 1, item: int | None = None) -> NodeAttemptStarted:
    return NodeAttemptStarted(
        node=node,
        visit=1,
        item=item,
        attempt=attempt,
        effect_id=f"f:1:{node}:1",
        effect=ToolEffect.READ,
        input_digest="d",
    )


def returned(node: str, item: int | None = None, used: int = 0) -> NodeAttemptCompleted:
    usage = BilledUsage(input=used)
    return NodeAttemptCompleted(node=node, visit=1, item=item, attempt=1, output=1, usage=usage, duration_seconds=1)


def lost(node: str, attempt: int = 1, item: int | None = None) -> NodeAttemptFailed:
    failure = FailureClass.TIMEOUT
    return NodeAttemptFailed(
        node=node, visit=1, item=item, attempt=attempt, failure=failure, error=ERROR, duration_seconds=1
    )


def said(node: str, item: int | None = None) -> NodeError:
    return NodeError(
        node_id=node,
        kind="tool",
        message="after 3 s",
        attempt=1,
        visit=1,
        item=item,
        failure=FailureClass.TIMEOUT,
        tier="node",
        at=1,
        error=ERROR,
    )


def test_time_in_which_two_nodes_run_at_once_is_counted_once() -> None:
    tables = told(
        OPENED,
        STARTED,
        opened("a"),
        opened("b", 2),
        tried("a"),
        tried("b"),
        returned("a"),
        returned("b", used=7),
        NodeCompleted(node="a", visit=1),
        NodeCompleted(node="b", visit=1),
    )
    (run,) = tables.of(EXECUTIONS)
    assert (run["active_us"], run["steps"], run["tool_calls"], run["tokens_input"]) == (3 * SECOND, 2, 2, 7)
    assert [(row["node"], row["status"], row["tokens_input"]) for row in tables.of(VISITS)] == [
        ("a", "completed", 0),
        ("b", "completed", 7),
    ]


def test_items_of_a_map_have_tries_of_their_own_and_failures_that_are_recorded() -> None:
    tables = told(
        OPENED,
        STARTED,
        opened("m", items=2),
        tried("m", item=0),
        tried("m", item=1),
        returned("m", item=0),
        lost("m", item=1),
        NodeFailureRecorded(node="m", visit=1, item=1, error=said("m", 1), rule="on_error"),
        NodeCompleted(node="m", visit=1, item_errors=1),
    )
    assert [(row["item"], row["status"], row["error_class"]) for row in tables.of(TRIES)] == [
        (0, "completed", None),
        (1, "failed", "a:Late"),
    ]
    (visit,) = tables.of(VISITS)
    assert (visit["items"], visit["item_errors"], visit["status"], visit["attempts"]) == (2, 1, "completed", 2)
    (run,) = tables.of(EXECUTIONS)
    assert run["errors"] == 1


def test_a_node_that_fails_for_good_fails_the_run_and_visits_that_stay_open_are_not_counted() -> None:
    tables = told(
        OPENED,
        STARTED,
        opened("a"),
        opened("b", 2),
        opened("c", 3),
        tried("a"),
        lost("a"),
        NodeFailed(node="a", visit=1, error=said("a"), rule="default"),
        NodeCancelled(node="a", visit=1, reason="sibling"),
        NodeCancelled(node="b", visit=1, reason="sibling"),
        FAILED,
    )
    (kind,) = tables.of(SIGNATURES)
    (run,) = tables.of(EXECUTIONS)
    assert (kind["error_type"], kind["tool"], kind["template"]) == ("timeout", "a", "after # s")
    assert (run["error_type"], run["error_class"], run["signature"]) == ("timeout", "a:Late", kind["signature"])
    assert [(row["status"], row["reason"]) for row in tables.of(VISITS)] == [
        ("failed", None),
        ("cancelled", "sibling"),
        ("in_progress", None),
    ]
    assert [(row["tool"], row["status"], row["calls"]) for row in tables.of(TOOLS_DAILY)] == [
        ("a", "failed", 1),
        ("b", "cancelled", 1),
    ]
    (failures,) = tables.of(FAILURES_DAILY)
    assert (failures["runs"], failures["calls"]) == (1, 1)


def test_a_retry_of_a_run_is_an_execution_with_the_visits_that_had_not_ended() -> None:
    retried = FlowRetried(execution_id="f:2", ordinal=2, segment=2, worker="w", library="0", visits=(1,), by="ana")
    tables = told(
        OPENED,
        STARTED,
        opened("a"),
        tried("a"),
        lost("a"),
        NodeFailed(node="a", visit=1, error=said("a"), rule="default"),
        FAILED,
        retried,
        tried("a"),
        returned("a"),
        NodeCompleted(node="a", visit=1),
    )
    first, second = tables.of(EXECUTIONS)
    assert (first["status"], second["status"], second["ordinal"], second["steps"]) == ("failed", "in_progress", 2, 1)
    assert second["name"] == "order"
    assert [(row["status"], row["number"], row["attempts"]) for row in tables.of(VISITS)] == [
        ("failed", 1, 1),
        ("completed", 1, 1),
    ]


def test_a_retry_that_no_worker_has_taken_up_is_pending() -> None:
    retried = FlowRetried(execution_id="f:2", ordinal=2, segment=1, worker=None, library="0", visits=(), by="ana")
    (_, row) = told(OPENED, STARTED, FAILED, retried).of(EXECUTIONS)
    assert (row["status"], row["segments"]) == ("pending", 0)


def test_a_try_that_is_made_again_is_counted_with_its_failure_like_one_of_a_tool() -> None:
    tables = told(
        OPENED,
        STARTED,
        opened("a"),
        tried("a"),
        lost("a"),
        tried("a", 2),
        returned("a", used=7),
        NodeCompleted(node="a", visit=1),
    )
    (retry,) = tables.of(RETRIES_DAILY)
    assert (retry["tool"], retry["error_type"], retry["tries"]) == ("a", "timeout", 1)
    (failure,) = tables.of(FAILURES_DAILY)
    assert (failure["runs"], failure["calls"], failure["retried"]) == (0, 0, 1)


def test_a_look_after_a_stream_below_that_rested_is_no_retry() -> None:
    rests = NodeAttemptSuspended(node="a", visit=1, attempt=1, stream="agent:x", reason="waits", duration_seconds=1)
    tables = told(OPENED, STARTED, opened("a"), tried("a"), rests, tried("a", 2), lost("a", 2), tried("a", 3))
    (run,) = tables.of(EXECUTIONS)
    assert run["retries"] == 1
    assert [row["status"] for row in tables.of(TRIES)] == ["suspended", "failed", "running"]
    assert [row["tries"] for row in tables.of(RETRIES_DAILY)] == [1]


def test_what_fails_before_it_is_tried_is_no_try() -> None:
    tables = told(OPENED, STARTED, opened("a"), lost("a", attempt=0))
    (row,) = tables.of(TRIES)
    assert (row["attempt"], row["status"], row["started_at"]) == (0, "failed", None)
    assert tables.of(VISITS)[0]["attempts"] == 0


def test_events_about_visits_that_are_over_change_nothing() -> None:
    over = (OPENED, STARTED, opened("a"), NodeCompleted(node="a", visit=1))
    for event in (tried("a"), returned("a"), lost("a"), NodeCompleted(node="a", visit=1)):
        assert told(*over, event).of(VISITS) == told(*over).of(VISITS)
        assert told(*over, event).of(TRIES) == []
