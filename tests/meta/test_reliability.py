"""The page of the crash matrix has the rows of the code, and its check notices when it does not."""

from pathlib import Path

import pytest

from scripts import crash_matrix
from scripts.reliability_page import Soaked, complaints, page, read_rows, read_soak, rewrite
from steptrail.runtime.kernel.faults import FAULT_POINTS
from tests.harness import crash_workload, flow_workload


@pytest.fixture
def stored(root: Path) -> str:
    return (root / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_the_page_has_the_rows_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert (crash_matrix.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_another_fault_point_makes_the_page_stale(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(complaints(stored)) == []
    more = (*FAULT_POINTS, "before-breakfast")
    monkeypatch.setattr(crash_workload, "FAULT_POINTS", more)
    monkeypatch.setattr(flow_workload, "FAULT_POINTS", more)
    found = list(complaints(stored))
    assert any("its rows of agents for sqlite" in complaint for complaint in found)
    assert any("its rows of workflows for sqlite" in complaint for complaint in found)


def test_a_broken_promise_on_the_page_is_no_page_to_publish(stored: str) -> None:
    lines = read_rows(stored)
    for broken in (
        lines[0]._replace(events_lost=1),
        lines[0]._replace(same_outcome=lines[0].kills - 1),
        lines[0]._replace(kills=0, log_whole=0, same_outcome=0),
    ):
        text = page([broken, *lines[1:]], read_soak(stored))
        assert any("a promise is broken" in complaint for complaint in complaints(text))


@pytest.mark.parametrize(
    "change", [("# Reliability", "# Wishes"), ("| sqlite |", "| sqlite  |"), ("| ---: |", "| --- |")]
)
def test_a_page_that_was_edited_by_hand_is_noticed(stored: str, change: tuple[str, str]) -> None:
    assert list(complaints(stored.replace(*change, 1))) != []
    assert list(complaints("")) != []


def test_a_promise_that_a_long_run_found_broken_is_no_page_to_publish(stored: str) -> None:
    text = rewrite(stored, soaked=[Soaked("sqlite", "random moments", "240 sessions", 900, 1)])
    assert any("a promise is broken" in complaint for complaint in complaints(text))


def test_what_is_written_about_one_store_leaves_the_other_as_it_is(stored: str) -> None:
    mine, soaked = read_rows(stored), [Soaked("postgres", "random moments", "240 sessions", 900, 0)]
    here = [line for line in mine if line.store == "sqlite"]
    there = [line._replace(store="postgres", kills=7, log_whole=7, same_outcome=7) for line in here]
    both = rewrite(rewrite(stored, lines=there), soaked=soaked)
    assert [line for line in read_rows(both) if line.store == "postgres"] == there
    assert [line for line in read_rows(both) if line.store == "sqlite"] == here
    assert [each for each in read_soak(both) if each.store == "postgres"] == soaked
    assert list(complaints(both)) == []
