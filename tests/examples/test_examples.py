"""The examples run as a reader would run them: as processes."""

from pathlib import Path

import pytest

from tests.examples.running import EXAMPLES, run


def lines_of_the_summary(printed: str) -> list[str]:
    return printed.partition("== Proved")[2].splitlines()[2:-2]


def test_the_quickstart_answers_and_says_why_it_stopped() -> None:
    done = run(EXAMPLES / "quickstart.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "There are 3 packets of tea left.",
        "completed, stopped after 2 steps (completed): no criterion asked for another step",
    ]


def test_the_editor_asks_two_at_once_revises_once_and_has_one_bill() -> None:
    done = run(EXAMPLES / "subagents.py")
    assert done.returncode == 0, done.stderr
    answer, bill, *readers = done.stdout.splitlines()
    assert answer == "Tea is grown on hills, says the almanac, and sells."
    assert bill == "editor: 45 tokens, 105 with those below"
    assert sorted(readers) == [
        f"  reader of the {book}: 30 tokens, 30 with those below" for book in ("almanac", "ledger")
    ]


def test_the_archive_is_made_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("a")
    (tmp_path / "large.txt").write_text("a" * 1000)
    first, second = run(EXAMPLES / "archive.py", tmp_path), run(EXAMPLES / "archive.py", tmp_path)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "completed large.txt is archived." in first.stdout
    assert "largest: failed" in first.stdout
    assert second.stdout == first.stdout
    assert [path.read_text() for path in (tmp_path / "archive").glob("*-large.txt")] == ["a" * 1000]


def test_the_archive_says_which_folder_it_needs(tmp_path: Path) -> None:
    for given in ([], [tmp_path], [tmp_path / "none"], [EXAMPLES / "archive.py"], [tmp_path, tmp_path]):
        done = run(EXAMPLES / "archive.py", *given)
        assert done.returncode == 1
        assert done.stderr == "use: python examples/archive.py FOLDER, a folder with a file in it\n"


@pytest.mark.parametrize("seed", [1, 5])
def test_the_demo_proves_its_claims_wherever_the_kill_falls(tmp_path: Path, seed: int) -> None:
    done = run(EXAMPLES / "demo" / "demo.py", "--scripted", "--seed", str(seed), "--folder", tmp_path / "work")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A SCRIPT, NOT A MODEL" in done.stdout
    assert done.stdout.count("killed with SIGKILL") == 2
    assert [done.stdout.count(f"steptrail why {session}") for session in ("files", "order", "endless")] == [1, 1, 1]
    summary = lines_of_the_summary(done.stdout)
    assert len(summary) == 14
    assert all(line.split()[1] == "ok" for line in summary)


def test_the_demo_refuses_another_model_where_the_local_one_is_required(tmp_path: Path) -> None:
    done = run(
        EXAMPLES / "demo" / "demo.py", "--scripted", "--folder", tmp_path / "work", STEPTRAIL_DEMO_REQUIRE_LOCAL="1"
    )
    assert done.returncode == 1
    assert "this is not the local model" in done.stderr
    assert not (tmp_path / "work").exists()


def test_the_demo_leaves_a_folder_alone_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = run(EXAMPLES / "demo" / "demo.py", "--scripted", "--folder", tmp_path)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_invoice_adds_up_after_it_was_told_that_it_did_not() -> None:
    done = run(EXAMPLES / "invoice.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "2 lines, 770 cents",
        "step 3: the lines come to 770 cents, not to 700",
    ]


def test_a_run_that_is_longer_than_its_model_goes_on_with_summaries() -> None:
    done = run(EXAMPLES / "long_run.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "It went on. 61 steps, 122 messages in the log",
        "2 compactions, 3,255 of 4,000 tokens at most",
        "3,255 -> 538 tokens after step 50 (summary by long_run.summary), compaction 2",
    ]
