"""The auditor of killed workflows finds what it looks for: every kind of harm, forged, is counted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from steptrail.domain.flow.events import (
    ExecutionFinished,
    HumanRequested,
    NodeAttemptCompleted,
    NodeAttemptStarted,
    NodeCompleted,
)
from steptrail.domain.tools import OnUnknown, ToolEffect
from tests.harness.crash_audit import Finding
from tests.harness.crash_workload import Ending
from tests.harness.flow_audit import FlowLog, FlowWhole, audit_flow, undisturbed_flow
from tests.harness.flow_workload import FlowVariant

Made = tuple[FlowWhole, FlowWhole]


@pytest.fixture
async def two(tmp_path: Path, request: pytest.FixtureRequest) -> Made:
    """Two runs of one workload; the first is what the second should have been."""
    variant: FlowVariant = getattr(request, "param", FlowVariant("1 branch"))
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first, second = [await undisturbed_flow(url, tmp_path, variant) for _ in range(2)]
    return first, second


def found(
    two: Made, *, killed: Sequence[FlowLog] = (), after: FlowLog | None = None, ending: Ending | None = None
) -> Finding:
    whole, run = two
    return audit_flow(run.workload, killed, after or run.log, ending or run.ending, whole)


def again(log: FlowLog, kind: type[object]) -> FlowLog:
    """Return a log with the last event of a kind once more at its end."""
    last = [record for record in log.records if isinstance(record.event, kind)][-1]
    return replace(log, records=[*log.records, structs.replace(last, version=len(log.records) + 1)])


def without(log: FlowLog, kind: type[object]) -> FlowLog:
    return replace(log, records=[record for record in log.records if not isinstance(record.event, kind)])


SHAPES = [FlowVariant(shape) for shape in ("1 branch", "4 branches", "child agent", "child flow", "open request")]


@pytest.mark.parametrize("two", SHAPES, indirect=True, ids=str)
def test_a_run_like_another_is_good(two: Made) -> None:
    finding = found(two, killed=[replace(two[1].log, records=two[1].log.records[:5])])
    assert finding == Finding(0, 0, 0, 0, log_is_whole=True, same_outcome=True)


def test_events_that_were_there_after_a_kill_and_are_gone_are_lost(two: Made) -> None:
    log = two[1].log
    # Two that were seen, and the commit that the process was told of.
    assert found(two, killed=[log], after=replace(log, records=log.records[:-2])).events_lost == 3


@pytest.mark.parametrize("two", [FlowVariant("child flow")], indirect=True, ids=str)
def test_events_of_a_stream_below_that_are_gone_are_lost(two: Made) -> None:
    log = two[1].log
    (name, records), *_ = log.below.items()
    assert found(two, killed=[log], after=replace(log, below={name: records[:-1]})).events_lost == 1
    assert found(two, killed=[log], after=replace(log, below={})).events_lost == len(records)


@pytest.mark.parametrize("two", SHAPES[:4], indirect=True, ids=str)
def test_an_effect_that_happens_more_often_than_it_was_begun_is_a_repetition(two: Made) -> None:
    whole, run = two
    effect = next(entry.effect for entry in run.workload.ledger.entries() if entry.what == "done")
    run.workload.ledger.write("done", effect)
    assert found((whole, run)).tools_repeated >= 1


def test_a_node_that_begins_after_its_end_is_a_repetition(two: Made) -> None:
    assert found(two, after=again(two[1].log, NodeAttemptStarted)).tools_repeated == 1


@pytest.mark.parametrize("two", [FlowVariant("open request")], indirect=True, ids=str)
def test_a_question_that_is_asked_twice_is_a_repetition(two: Made) -> None:
    assert found(two, after=again(two[1].log, HumanRequested)).tools_repeated == 1


@pytest.mark.parametrize("two", [FlowVariant("child agent")], indirect=True, ids=str)
def test_a_stream_below_that_is_begun_twice_is_a_repetition(two: Made) -> None:
    log = two[1].log
    assert found(two, after=replace(log, below={**log.below, "agent:another": ()})).tools_repeated == 1


def test_an_effect_under_an_id_that_nobody_gave_out_is_counted(two: Made) -> None:
    two[1].workload.ledger.write("done", "somebody:1:act:1")
    assert found(two).keyed_without_id == 1


@pytest.mark.parametrize(
    "two", [FlowVariant("1 branch", ToolEffect.UNSAFE, each) for each in OnUnknown], indirect=True, ids=str
)
def test_an_unsafe_effect_that_happens_again_is_counted(two: Made) -> None:
    assert found(two).is_good
    two[1].workload.ledger.write("done", f"{two[1].workload.session}:1:act:1")
    assert found(two).unsafe_repeated == 1


@pytest.mark.parametrize("kind", [NodeCompleted, ExecutionFinished])
def test_a_log_with_other_conclusions_is_another_outcome(two: Made, kind: type[object]) -> None:
    assert not found(two, after=without(two[1].log, kind)).same_outcome


def test_another_end_and_other_variables_are_another_outcome(two: Made) -> None:
    log = two[1].log
    assert not found(two, ending=Ending("failed", "error", None)).same_outcome
    assert not found(two, after=replace(log, variables={})).same_outcome
    assert not found(two, after=replace(log, is_whole=False)).is_good
    assert found(two, after=without(log, NodeAttemptCompleted)).same_outcome
