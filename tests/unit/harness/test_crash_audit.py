"""The auditors of the crash harness find what they look for: every kind of harm, forged, is counted."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    ExecutionStarted,
    InferenceCompleted,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.testing.crash import LedgerEntry
from tests.harness.contention import judge
from tests.harness.crash_audit import Finding, Log, Whole, audit, undisturbed
from tests.harness.crash_workload import Ending, Variant
from tests.harness.tailing import Seen, Shore
from tests.harness.tailing_audit import Tide, judge_tide

Made = tuple[Whole, Whole]
NOTHING: Log = Log((), (), {}, True)


@pytest.fixture
async def two(tmp_path: Path, request: pytest.FixtureRequest) -> Made:
    """Two runs of one workload; the first is what the second should have been."""
    variant: Variant = getattr(request, "param", Variant(ToolEffect.KEYED))
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first, second = [await undisturbed(url, tmp_path, variant) for _ in range(2)]
    return first, second


def found(two: Made, *, killed: Sequence[Log] = (), after: Log | None = None, ending: Ending | None = None) -> Finding:
    whole, run = two
    return audit(run.workload, killed, after or run.log, ending or run.ending, whole)


def without(log: Log, kind: type[object]) -> Log:
    return replace(log, records=[record for record in log.records if not isinstance(record.event, kind)])


def test_a_run_like_another_is_good(two: Made) -> None:
    finding = found(two, killed=[replace(two[1].log, records=two[1].log.records[:5])])
    assert finding == Finding(0, 0, 0, 0, log_is_whole=True, same_outcome=True)
    assert finding.is_good


def test_events_that_were_there_after_a_kill_and_are_gone_are_lost(two: Made) -> None:
    log = two[1].log
    shorter = replace(log, records=log.records[:-2])
    # Two that were seen, and the commit that the process was told of.
    assert found(two, killed=[log], after=shorter).events_lost == 3
    changed = [structs.replace(log.records[0], at=1), *log.records[1:]]
    assert found(two, killed=[log], after=replace(log, records=changed)).events_lost == 1


def test_an_effect_of_a_finished_call_is_a_repetition(two: Made) -> None:
    whole, run = two
    run.workload.ledger.write("done", f"{run.workload.session}:1:2:0")
    assert found((whole, run)).tools_repeated == 1


def test_an_external_call_that_is_asked_for_again_is_a_repetition(two: Made) -> None:
    log = two[1].log
    asked = next(record for record in log.records if isinstance(record.event, ToolCallDeferred))
    assert found(two, after=replace(log, records=[*log.records, asked])).tools_repeated == 1


def test_an_effect_under_an_id_that_nobody_gave_out_is_counted(two: Made) -> None:
    two[1].workload.ledger.write("done", "somebody:1:1:0")
    assert found(two).keyed_without_id == 1


@pytest.mark.parametrize("two", [Variant(ToolEffect.UNSAFE, each) for each in OnUnknown], indirect=True, ids=str)
def test_an_unsafe_effect_that_happens_again_is_counted(two: Made) -> None:
    assert found(two).is_good
    two[1].workload.ledger.write("done", f"{two[1].workload.session}:1:2:0")
    assert found(two).unsafe_repeated == 1


@pytest.mark.parametrize("kind", [InferenceCompleted, ToolExecutionStarted, ToolExecutionCompleted])
def test_a_log_with_other_events_is_another_outcome(two: Made, kind: type[object]) -> None:
    assert not found(two, after=without(two[1].log, kind)).same_outcome


def test_another_end_other_messages_and_other_metadata_are_another_outcome(two: Made) -> None:
    log = two[1].log
    assert not found(two, ending=Ending("failed", "error", None)).same_outcome
    assert not found(two, after=replace(log, messages=log.messages[:-1])).same_outcome
    assert not found(two, after=replace(log, metadata={})).same_outcome
    assert not found(two, after=replace(log, is_whole=False)).is_good


def entry(text: str) -> LedgerEntry:
    what, pid = text.split()
    return LedgerEntry(what, "", int(pid))


@pytest.mark.parametrize(
    ("ledger", "overlaps", "late"),
    [
        (["enter 1", "leave 1", "enter 2", "leave 2"], 0, 0),
        (["enter 1", "enter 2", "leave 1", "leave 2"], 1, 0),
        (["enter 1", "enter 1", "leave 1", "enter 2"], 1, 0),
        (["tries 1", "enter 1", "leave 1", "refused 1"], 0, 1),
        (["tries 1", "enter 2", "leave 2", "refused 1"], 0, 0),
    ],
)
def test_two_inside_at_once_and_a_late_refusal_are_seen(ledger: list[str], overlaps: int, late: int) -> None:
    contest = judge([entry(line) for line in ledger], NOTHING, [])
    assert (contest.overlaps, contest.late_refusals) == (overlaps, late)
    assert contest.is_good is (not overlaps and not late)


def test_what_nobody_heard_and_what_was_heard_twice_are_seen(two: Made) -> None:
    log = two[1].log
    assert judge([], log, ["Run the errands."]).is_good
    assert judge([], log, ["Run the errands.", "And more."]).lost == ["And more."]
    start = next(record for record in log.records if isinstance(record.event, ExecutionStarted))
    twice = judge([], replace(log, records=[*log.records, start]), ["Run the errands."])
    assert (twice.doubled, twice.out_of_turn, twice.unfinished) == (["Run the errands."], 1, 1)


LOG = {Seen(1, "a", 1): "x", Seen(2, "b", 1): "y", Seen(3, "a", 2): "z"}


def tide_of(folder: Path, told: str, *seen: Seen) -> Tide:
    shore = Shore("", ("a", "b"), folder)
    shore.acknowledged("w").write_text(told, encoding="utf-8")
    shore.seen("r").write_text("".join(f"{' '.join(map(str, each))}\n" for each in seen), encoding="utf-8")
    return judge_tide(shore, LOG, ["w"], ["r"])


def test_a_reader_that_misses_repeats_or_turns_around_is_seen(tmp_path: Path) -> None:
    first, other, last = LOG
    assert tide_of(tmp_path, "x\nz\n", first, other, last) == Tide(3, 1, 0, 0, 0, 0, 0)
    assert tide_of(tmp_path, "", other, first, last).is_good
    assert tide_of(tmp_path, "", first, other).missed == 1
    assert tide_of(tmp_path, "", first, other, last, last).repeated == 1
    assert tide_of(tmp_path, "", last, other, first).out_of_order > 0
    assert tide_of(tmp_path, "x\nnever\n", first, other, last).lost == 1


def test_a_session_with_a_gap_is_seen(tmp_path: Path) -> None:
    shore = Shore("", ("a",), tmp_path)
    assert judge_tide(shore, {Seen(1, "a", 1): "x", Seen(2, "a", 3): "y"}, [], []).gaps == 1


def test_a_ledger_is_text_that_anybody_can_read(two: Made) -> None:
    lines = two[1].workload.ledger.path.read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)[0] for line in lines} == {"begun", "done", "stored", "answered"}
