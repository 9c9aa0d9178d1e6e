"""The approval, from process to process: nothing waits, nothing runs before a yes, and a no is told."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

from steptrail.events import ApprovalDenied, ApprovalExpired, ApprovalGranted, ApprovalRequested
from tests.examples.running import command_of, environment, events, run, run_example, starts, until

EDITED = '{"order": "A-7", "cents": 500}'


def refunds(folder: Path) -> dict[str, int]:
    files = (folder / "approval-desk" / "refunds").glob("*.json")
    return {path.stem: json.loads(path.read_text())["cents"] for path in files}


def store(folder: Path) -> Path:
    return folder / "approval-desk" / "runs.db"


def ask(folder: Path, session: str, *more: str) -> None:
    asked = run_example(folder, "approval.ask", session, *more, exits=4).stdout
    assert asked.startswith("model: a script, not a model")
    assert f"{session}: not stopped: waiting after 0 steps for somebody to approve refund" in asked


def test_a_yes_with_other_arguments_runs_those_once(tmp_path: Path) -> None:
    ask(tmp_path, "r")
    assert refunds(tmp_path) == {}
    listed = run_example(tmp_path, "approval.review").stdout
    assert listed.startswith('open: r:1:1:0: refund {"order": "A-7", "cents": 900}\n  it moves money; until ')
    # Nobody has answered, so there is nothing to go on with.
    assert run_example(tmp_path, "approval.work").stdout.count("\n") == 1

    answered = run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", "--edit", EDITED, "--by", "ana").stdout
    assert answered == "recorded: r:1:1:0\n"
    assert refunds(tmp_path) == {}
    again = run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", "--by", "bo", exits=2)
    assert "ana has granted it already, at " in again.stderr

    assert "r: completed: 500 cents of order A-7 refunded" in run_example(tmp_path, "approval.work").stdout
    assert run_example(tmp_path, "approval.work").stdout.count("\n") == 1
    assert "r: completed, stopped after 2 steps" in run_example(tmp_path, "approval.ask", "r").stdout
    assert refunds(tmp_path) == {"r_1_1_0": 500}
    log = events(store(tmp_path), "r")
    assert starts(log, "refund") == [("r:1:1:0", 1)]
    (granted,) = [record.event for record in log if isinstance(record.event, ApprovalGranted)]
    assert (granted.by, granted.arguments) == ("ana", json.loads(EDITED))


def test_the_command_line_says_yes_as_well(tmp_path: Path) -> None:
    ask(tmp_path, "r")
    command = ["-m", "steptrail", "approve", "r", "r:1:1:0", "--by", "ana", "--store", f"sqlite:///{store(tmp_path)}"]
    assert run(*command).returncode == 0
    assert "r: completed: 900 cents of order A-7 refunded" in run_example(tmp_path, "approval.work").stdout
    assert refunds(tmp_path) == {"r_1_1_0": 900}


def test_what_another_process_has_taken_up_meanwhile_is_left_to_that(tmp_path: Path) -> None:
    held = {session: tmp_path / "approval-desk" / "refunds" / f"{session}_1_1_0.json" for session in ("r", "s")}
    for session, refund in held.items():
        ask(tmp_path, session)
        run_example(tmp_path, "approval.review", "--approve", f"{session}:1:1:0")
        refund.parent.mkdir(exist_ok=True)
        os.mkfifo(refund)  # the refund waits in it until somebody reads

    def works() -> "subprocess.Popen[str]":
        command = command_of("approval.work")
        return subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE)

    def begun() -> list[str]:
        return [session for session in held if starts(events(store(tmp_path), session), "refund")]

    with works() as one:
        (first,) = until(begun, one)
        with works() as other:
            until(lambda: len(begun()) == 2, other)
            (second,) = held.keys() - {first}
            held[first].read_text()
            told = one.communicate()[0].splitlines()
            held[second].read_text()
            assert f"{second}: completed: 900 cents" in other.communicate()[0]
    assert (one.returncode, other.returncode) == (0, 0)
    assert told[1] == f"{first}: completed: 900 cents of order A-7 refunded"
    assert told[2].startswith(f"left: session '{second}' is being run by a steptrail runner (pid {other.pid} on ")


def test_a_yes_to_other_arguments_than_were_read_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, "r")
    refused = run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", "--digest", "0" * 64, exits=2)
    assert "it is about the arguments" in refused.stderr
    found = re.search(r"digest ([0-9a-f]{64})", run_example(tmp_path, "approval.review").stdout)
    assert found is not None
    run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", "--digest", found[1])
    assert "r: completed: 900 cents" in run_example(tmp_path, "approval.work").stdout


def test_a_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path) -> None:
    ask(tmp_path, "r")
    run_example(tmp_path, "approval.review", "--deny", "r:1:1:0", "--by", "ana", "--reason", "not broken")
    assert "r: completed: This call was not run: ana denied it: not broken." in (
        run_example(tmp_path, "approval.work").stdout
    )
    log = events(store(tmp_path), "r")
    assert [record.event.by for record in log if isinstance(record.event, ApprovalDenied)] == ["ana"]
    assert (starts(log, "refund"), refunds(tmp_path)) == ([], {})


def test_no_answer_in_time_is_a_no(tmp_path: Path) -> None:
    # Time enough to come to rest in, also on a busy machine.
    ask(tmp_path, "r", "--hours", "0.001")
    log = events(store(tmp_path), "r")
    (until,) = [record.event.expires_at for record in log if isinstance(record.event, ApprovalRequested)]
    time.sleep(max(0.0, until / 1e6 - time.time()) + 0.01)
    late = run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", exits=2)
    assert "it expired at" in late.stderr
    assert "r: completed: This call was not run: nobody approved it in time." in (
        run_example(tmp_path, "approval.work").stdout
    )
    log = events(store(tmp_path), "r")
    assert [record.event.approval_id for record in log if isinstance(record.event, ApprovalExpired)] == ["r:1:1:0"]
    assert (starts(log, "refund"), refunds(tmp_path)) == ([], {})


def test_arguments_that_are_no_object_are_one_clear_line(tmp_path: Path) -> None:
    ask(tmp_path, "r")
    refused = run_example(tmp_path, "approval.review", "--approve", "r:1:1:0", "--edit", "[1]", exits=2)
    assert "argument --edit: invalid" in refused.stderr


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    for given, said in (
        (["a/b"], "be a session id"),
        (["r", "--hours", "nan"], "expires"),
        (["r", "--hours", "-1"], "expires"),
    ):
        refused = run_example(tmp_path, "approval.ask", *given, exits=2).stderr
        assert said in refused
        assert "Traceback" not in refused
    for approval in ("nobody:1:1:0", "a/b", ""):
        refused = run_example(tmp_path, "approval.review", "--approve", approval, exits=2).stderr
        assert refused.startswith("refused: ")
        assert refused.count("\n") == 1
