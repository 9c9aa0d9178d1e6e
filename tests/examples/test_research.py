"""The research agent: its report cites what is there, its limit leaves a part, and its files stay where they are."""

from collections import Counter
from pathlib import Path

import pytest

from examples.research.citations import cited, problems
from examples.research.library import Library
from steptrail import Steptrail
from steptrail.events import ExecutionFinished
from tests.examples.running import ROOT, events, run_example

GUIDES = ROOT / "docs" / "guides"


def sessions(folder: Path) -> Counter[str]:
    with Steptrail.open_sync(f"sqlite:///{folder / 'research' / 'runs.db'}") as trail:
        return Counter(row.name for row in trail.runs())


def of_the_lead(folder: Path) -> str:
    with Steptrail.open_sync(f"sqlite:///{folder / 'research' / 'runs.db'}") as trail:
        (row,) = [row for row in trail.runs() if row.parent is None]
    return row.session_id


def says(report: str) -> None:
    """Hold each citation against the file, without the example's own check."""
    for quote, file, line in cited(report):
        assert quote in (GUIDES / file).read_text(encoding="utf-8").splitlines()[line - 1]


def test_the_report_cites_what_stands_there_after_a_slip_was_sent_back(tmp_path: Path) -> None:
    done = run_example(tmp_path, "research", "crash").stdout
    assert done.startswith("model: a script, not a model")
    assert "citations: 3 found, 0 wrong\nreports sent back by that check: 1\n" in done
    report = (tmp_path / "research" / "report.md").read_text(encoding="utf-8")
    assert report in done
    assert len({citation.file for citation in cited(report)}) == 3
    says(report)
    assert sessions(tmp_path) == {"researcher": 1, "reader": 3}
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'research' / 'runs.db'}") as trail:
        state = trail.session(of_the_lead(tmp_path)).state()
    slip = state.steps[3].text
    assert len(problems(slip, Library(GUIDES))) == 1
    assert state.output == report.rstrip()


def test_a_run_that_reaches_its_limit_shows_its_notes_and_the_reason(tmp_path: Path) -> None:
    done = run_example(tmp_path, "research", "crash", "--max-steps", "3", exits=3).stdout
    assert "partial report, from the notes:\n- " in done
    assert "(steps_limit), decided by StepsLimit: Step limit reached: 3/3" in done
    report = (tmp_path / "research" / "report.md").read_text(encoding="utf-8")
    assert len(cited(report)) == 3
    says(report)
    finished = events(tmp_path / "research" / "runs.db", of_the_lead(tmp_path))[-1].event
    assert isinstance(finished, ExecutionFinished)
    assert (finished.stop_reason, finished.resolved_by) == ("steps_limit", "StepsLimit")


def test_a_topic_that_no_file_has_is_one_clear_line(tmp_path: Path) -> None:
    done = run_example(tmp_path, "research", "zzzz", exits=2)
    assert "no file holds 'zzzz'" in done.stderr


@pytest.fixture
def library(tmp_path: Path) -> Library:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (inside / "tea.md").write_text('Tea is grown on hills.\nIt is "hot".\n')
    (inside / "picture.png").write_bytes(b"secret")
    (inside / "link.md").symlink_to(tmp_path / "secret.md")
    return Library(inside)


@pytest.mark.parametrize("file", ["../secret.md", "link.md", "picture.png", "x/../../secret.md", "."])
def test_nothing_outside_of_the_folder_is_read(library: Library, file: str) -> None:
    with pytest.raises(PermissionError):
        library.read(file)
    with pytest.raises(PermissionError):
        library.search("secret", file)


def test_nothing_outside_of_the_folder_is_found(library: Library, tmp_path: Path) -> None:
    assert library.list_files() == ["tea.md"]
    assert library.search("secret") == []
    with pytest.raises(PermissionError):
        library.read(str(tmp_path / "secret.md"))


def test_what_is_read_is_cut_to_a_size(library: Library, tmp_path: Path) -> None:
    (tmp_path / "inside" / "long.txt").write_text("word " * 10_000)
    assert library.read("tea.md", first=2) == '2: It is "hot".'
    assert len(library.read("long.txt")) == 6000


@pytest.mark.parametrize(
    ("report", "wrong"),
    [
        ('"grown on hills" (tea.md:1)', 0),
        ('"grown on hills" (tea.md:2)', 1),
        ('"grown on hills" (tea.md:9)', 1),
        ('"grown on hills" (coffee.md:1)', 1),
        ('"secret" (../secret.md:1)', 1),
        ('"grown on hills" (tea.md:1), and it is hot (tea.md:2)', 1),
        ("Tea is grown on hills.", 1),
        ("It is hot (tea.md:2).", 2),
    ],
)
def test_a_citation_that_does_not_hold_is_seen(library: Library, report: str, wrong: int) -> None:
    assert len(problems(report, library)) == wrong


def test_a_file_whose_name_has_blanks_can_be_cited(library: Library, tmp_path: Path) -> None:
    (tmp_path / "inside" / "my notes.md").write_text("Tea is green.\n")
    assert problems('"green" (my notes.md:1)', library) == []
    assert len(problems('"green" (my notes.md:2)', library)) == 1
