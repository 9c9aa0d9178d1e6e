"""The support desk, as processes over one shop: what it answers, what it pays, and what a kill does to that."""

import shlex
import signal
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from examples.support_desk.agent import support_agent
from examples.support_desk.shop import Shop
from steptrail import Steptrail
from steptrail.domain.json_value import JsonValue
from steptrail.events import ExecutionFinished, ToolExecutionCompleted, ToolExecutionFailed
from steptrail.testing import ScriptedModel, call
from steptrail.testing.model_script import answer
from steptrail.testing.model_server import ModelServer
from tests.examples.running import command_of, environment, events, run, run_example, starts, until


def rows(folder: Path, statement: str) -> list[tuple[JsonValue, ...]]:
    with closing(sqlite3.connect(folder / "support-desk" / "shop.db")) as db:
        return db.execute(statement).fetchall()


def refunds(folder: Path) -> list[tuple[JsonValue, ...]]:
    return rows(folder, "SELECT order_id, -cents, effect_id FROM payments WHERE cents < 0")


def e_mails(folder: Path) -> list[tuple[JsonValue, ...]]:
    return rows(folder, "SELECT recipient FROM outbox")


def store(folder: Path) -> Path:
    return folder / "support-desk" / "runs.db"


def test_a_ticket_is_answered_and_paid_once_however_often_the_command_is_given(tmp_path: Path) -> None:
    first = run_example(tmp_path, "support_desk", "1").stdout
    again = run_example(tmp_path, "support_desk", "1").stdout
    assert again == first
    assert first.splitlines() == [
        "model: a script, not a model; `--model gpt-5-mini` asks a real one",
        "answer: The tea pot of order 1 was late. 29.00 are refunded and Ana Lindqvist has been told.",
        "why: completed, stopped after 6 steps (completed): no criterion asked for another step",
        "refund: order 1, 2900 cents, effect ticket-1:1:4:0",
        "e-mail: ana@example.org, Your tea pot",
    ]
    assert refunds(tmp_path) == [(1, 2900, "ticket-1:1:4:0")]
    log = events(store(tmp_path), "ticket-1")
    failed = [record.event.error.message for record in log if isinstance(record.event, ToolExecutionFailed)]
    assert failed == ["no customer's name holds 'Anna Lindqvist': try a part of it"]
    assert isinstance(log[-1].event, ExecutionFinished)


def test_a_refund_that_was_killed_after_it_paid_is_made_again_and_paid_once(tmp_path: Path) -> None:
    command = command_of("support_desk", "1", "--slow", "120")
    paying = subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.DEVNULL)
    database = tmp_path / "support-desk" / "shop.db"
    until(lambda: database.exists() and has_tables(database) and refunds(tmp_path), paying)
    paying.kill()
    assert paying.wait() == -signal.SIGKILL
    assert e_mails(tmp_path) == []

    done = run(*command[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert refunds(tmp_path) == [(1, 2900, "ticket-1:1:4:0")]
    assert e_mails(tmp_path) == [("ana@example.org",)]
    log = events(store(tmp_path), "ticket-1")
    assert starts(log, "refund") == [("ticket-1:1:4:0", 1), ("ticket-1:1:4:0", 2)]
    assert [attempt for _, attempt in starts(log, "find_customer")] == [1, 1]
    assert "2900 cents of order 1 had been refunded under this key" in [
        record.event.result for record in log if isinstance(record.event, ToolExecutionCompleted)
    ]


def test_the_same_command_beside_one_that_runs_says_so_in_one_line_and_a_signal_pauses_that(tmp_path: Path) -> None:
    command = command_of("support_desk", "1", "--slow", "120")
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as paying:
        database = tmp_path / "support-desk" / "shop.db"
        until(lambda: database.exists() and has_tables(database) and refunds(tmp_path), paying)
        busy = run_example(tmp_path, "support_desk", "1", exits=5)
        assert f"session 'ticket-1' is being run by a steptrail runner (pid {paying.pid} on " in busy.stderr
        assert busy.stderr.count("\n") == 1
        paying.send_signal(signal.SIGINT)
        assert paying.communicate()[1] == "interrupted; the same command goes on\n"
    assert paying.returncode == 4

    run_example(tmp_path, "support_desk", "1", "--slow", "120")
    assert (refunds(tmp_path), e_mails(tmp_path)) == ([(1, 2900, "ticket-1:1:4:0")], [("ana@example.org",)])


def has_tables(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as db:
        return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'payments'").fetchone() is not None


def test_a_large_refund_waits_for_a_yes_and_is_paid_after_it(tmp_path: Path) -> None:
    place = ("--folder", "Ana's desk")
    asked = run_example(tmp_path, "support_desk", "2", *place, exits=4).stdout
    command = next(line for line in asked.splitlines() if line.startswith("to approve: "))
    assert "refund: " not in asked

    arguments = shlex.split(command.removeprefix("to approve: steptrail ").replace("YOU", "ana"))
    assert run("-m", "steptrail", *arguments, cwd=tmp_path).returncode == 0
    done = run_example(tmp_path, "support_desk", "2", *place).stdout
    assert "refund: order 2, 18900 cents, effect ticket-2:1:3:0\n" in done


def test_a_ticket_that_is_handed_over_ends_the_run_and_why_says_so(tmp_path: Path) -> None:
    done = run_example(tmp_path, "support_desk", "3", exits=3).stdout
    assert "(guard), decided by HandedOver: A person takes over: the customer speaks of a lawyer" in done
    (finished,) = [r.event for r in events(store(tmp_path), "ticket-3") if isinstance(r.event, ExecutionFinished)]
    assert (finished.stop_reason, finished.resolved_by) == ("guard", "HandedOver")
    assert refunds(tmp_path) == []


def test_a_ticket_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    done = run_example(tmp_path, "support_desk", "9", exits=2)
    assert "there is no ticket 9: there are 1 to 3" in done.stderr


def test_a_real_model_answers_when_the_caller_asks_for_one(tmp_path: Path) -> None:
    with ModelServer([answer("Nothing is late.")]) as server:
        command = ("support_desk", "1", "--model", "some-model")
        done = run_example(tmp_path, *command, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none").stdout
    assert done.splitlines()[:2] == ["model: some-model", "answer: Nothing is late."]


@pytest.mark.parametrize("cents", [5001, "18900", "100"])
def test_only_a_refund_that_is_known_to_be_small_is_not_asked_about(tmp_path: Path, cents: JsonValue) -> None:
    shop = Shop(tmp_path / "shop.db")
    model = ScriptedModel([call("refund", order=2, cents=cents)])
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(support_agent(model, shop), "Refund it.")
    assert (result.status, shop.refunds()) == ("waiting", [])


def test_no_more_is_refunded_than_was_paid_and_no_key_pays_twice(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop.db")
    assert [shop.refund(1, 2000, "a"), shop.refund(1, 2000, "a")] == [True, False]
    with pytest.raises(ValueError, match="2000 cents are more than the 900"):
        shop.refund(1, 2000, "b")
    assert [row["cents"] for row in shop.refunds()] == [2000]


@pytest.mark.parametrize(("name", "found"), [("lind", ["Ana Lindqvist"]), ("%", []), ("_", []), ("' OR 1=1 --", [])])
def test_what_the_model_writes_is_looked_for_and_never_run(tmp_path: Path, name: str, found: Sequence[str]) -> None:
    assert [row["name"] for row in Shop(tmp_path / "shop.db").find_customers(name)] == found
