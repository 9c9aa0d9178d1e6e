"""Several processes on one session: kill -9, Ctrl-C, stops from outside, owners and those who are not."""

import json
import signal
import socket
import subprocess
import time

import pytest

from tests.e2e.cli import Cli, until
from tests.harness.ready_python import KILL


def out_of(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.returncode, out, err


def killed_in_the_second_tool(cli: Cli) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    while not (cli.folder / "ledger").exists() or cli.ledger != ["first", "gated"]:
        time.sleep(0.01)  # the tool notes itself right after it was recorded as started
    running.send_signal(KILL)
    running.wait()


def test_given_a_kill_in_the_second_tool_when_run_again_then_it_goes_on_where_it_was(cli: Cli) -> None:
    killed_in_the_second_tool(cli)
    (cli.folder / "open").touch()
    again = cli("run", "agents.py:steps", "do it", "--id", "s1")
    assert (again.code, again.err, again.lines[-1]) == (0, "", "all three")
    assert "resumed after crash (segment 2)" in again.lines
    assert "  gated interrupted: crash" in again.lines
    assert cli.ledger == ["first", "gated", "gated", "third"]


def test_given_a_killed_run_when_asked_why_then_it_says_crashed_and_how_to_go_on(cli: Cli) -> None:
    killed_in_the_second_tool(cli)
    why = cli("why", "s1")
    assert why.code == 0
    assert why.lines[0].startswith("s1: not stopped: in_progress, crashed, in ")
    assert "owner       no process runs it" in why.lines
    assert "next        `steptrail resume agents.py:steps s1`" in why.lines


def test_given_a_killed_run_then_lists_and_why_say_on_which_worker_and_in_which_call_it_crashed(cli: Cli) -> None:
    killed_in_the_second_tool(cli)
    events = cli("show", "s1", "--events", "--json").json
    (worker,) = [event["event"]["worker"] for event in events if event["type"] == "execution.started.v1"]
    assert worker.startswith(f"{socket.gethostname()}:")
    assert [row["sessionId"] for row in cli("runs", "--status", "crashed", "--json").json] == ["s1"]
    (row,) = cli("due", "--json").json
    assert (row["dueBecause"], row["crashedOn"]) == ("crashed", worker)
    assert row["next"] == "steptrail resume agents.py:steps s1"
    assert f"crashed on {worker}  steptrail resume agents.py:steps s1" in cli("due").lines[1]
    assert f"crashed     on {worker}, in step 1: tool gated (s1:1:1:1)" in cli("why", "s1").lines
    (cli.folder / "open").touch()
    assert cli(*row["next"].split()[1:]).code == 0
    assert cli("due", "--json").json == cli("runs", "--status", "crashed", "--json").json == []


def test_given_a_watched_inbox_then_it_tells_what_other_processes_ask_and_answer(cli: Cli) -> None:
    cli("run", "agents.py:asking", "pay", "--id", "a1")
    watching = cli.start("inbox", "--watch", "--json")
    assert watching.stdout is not None
    asked = json.loads(watching.stdout.readline())["asked"]
    assert (asked["stream"], asked["tool"], asked["arguments"]) == ("agent:a1", "pay", {"cents": 900})
    cli("run", "agents.py:asking", "pay", "--id", "a2")
    assert json.loads(watching.stdout.readline())["asked"]["stream"] == "agent:a2"
    cli("deny", "a1", asked["id"], "--by", "ana")
    assert json.loads(watching.stdout.readline()) == {"gone": {"stream": "agent:a1", "id": asked["id"]}}
    watching.send_signal(signal.SIGTERM)
    assert out_of(watching)[0] == 0


def test_given_more_questions_than_a_watched_inbox_looks_at_then_none_is_gone_that_is_still_asked(cli: Cli) -> None:
    cli("run", "agents.py:asking", "pay", "--id", "a1")
    watching = cli.start("inbox", "--watch", "--json", "--limit", "1")
    assert watching.stdout is not None
    asked = json.loads(watching.stdout.readline())["asked"]
    cli("run", "agents.py:asking", "pay", "--id", "a2")
    assert json.loads(watching.stdout.readline())["asked"]["stream"] == "agent:a2"
    cli("deny", "a1", asked["id"], "--by", "ana")
    assert json.loads(watching.stdout.readline()) == {"gone": {"stream": "agent:a1", "id": asked["id"]}}
    watching.send_signal(signal.SIGTERM)
    code, _, err = out_of(watching)
    assert (code, err) == (0, "steptrail: 1 session at a time, and there are more: `--limit` looks at more\n")


def test_given_a_killed_run_when_the_doctor_looks_then_it_names_the_call_in_doubt_and_the_lease(cli: Cli) -> None:
    killed_in_the_second_tool(cli)
    before = cli.files
    seen = cli("doctor", "--json")
    assert (seen.code, seen.json["healthy"]) == (0, True)
    found = {(finding["check"], finding["stream"]): finding["what"] for finding in seen.json["findings"]}
    assert found["open effects", "agent:s1"].startswith("gated (s1:1:1:1) was started and has not ended")
    assert found["leases", "agent:s1"].startswith("left behind by ")
    assert cli.files == before


def test_given_a_running_session_then_reading_commands_know_its_owner(cli: Cli) -> None:
    running = cli.start("run", "agents.py:slow", "hi", "--id", "s1")
    until(running, "called")
    before = cli.files
    assert cli("why", "s1").lines[0].startswith("s1: not stopped: running")
    assert cli("why", "s1", "--json").json["owned"] is True
    # What it says of the SQLite of this machine is another matter.
    assert [each for each in cli("doctor", "--json").json["findings"] if each["check"] != "sqlite"] == []
    assert cli.files == before


def test_given_a_running_session_when_another_process_comes_then_it_gets_5_and_starts_nothing(cli: Cli) -> None:
    running = cli.start("run", "agents.py:slow", "hi", "--id", "s1")
    until(running, "called")
    before = cli("show", "s1", "--json").json["version"]
    for words in (["run", "agents.py:slow", "hi", "--id", "s1"], ["resume", "agents.py:slow", "s1"]):
        busy = cli(*words)
        assert busy.code == 5
        assert busy.err.startswith("steptrail: session 's1' is being run by ")
        assert busy.err.endswith("`steptrail stop s1`, or `steptrail resume agents.py:slow s1 --take-over`\n")
    assert cli("run", "agents.py:slow", "something else", "--id", "s1").code == 2
    assert cli("show", "s1", "--json").json["version"] == before


def test_given_a_running_session_when_sent_to_then_it_is_delivered_and_the_owner_answers(cli: Cli) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    sent = cli("send", "agents.py:steps", "s1", "hurry")
    assert sent.code == 5
    assert sent.err == "steptrail: it is delivered; another process runs the session and will answer it\n"
    (cli.folder / "shut").touch()
    assert out_of(running)[0] == 0
    assert [message["parts"][0]["text"] for message in cli("show", "s1", "--json").json["messages"][-2:]] == [
        "hurry",
        "all three",
    ]


def test_given_a_running_session_when_stopped_by_another_process_then_it_ends_with_3(cli: Cli) -> None:
    running = cli.start("run", "agents.py:slow", "hi", "--id", "s1")
    until(running, "called")
    stop = cli("stop", "s1", "--by", "ops", "--reason", "too dear")
    # It may have done so by the time that this one looks how the session stands.
    told = {"asked to stop; the process that runs it will do so", "finished, completed (user_requested)"}
    assert (stop.code, stop.out.removeprefix("s1: ").rstrip()) in {(0, each) for each in told}
    code, out, err = out_of(running)
    assert (code, err) == (3, "")
    assert "stopped  user_requested, decided by UserStop" in out


def test_given_a_running_session_when_paused_by_another_process_then_it_ends_with_4(cli: Cli) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    paused = cli("pause", "s1", "--by", "ops", "--reason", "deploy", "--json")
    assert (paused.code, paused.json["status"]) == (0, "in_progress")
    (cli.folder / "shut").touch()
    code, out, err = out_of(running)
    assert (code, err) == (4, "")
    assert "paused by ops: deploy" in out
    assert "third" not in cli.ledger
    assert cli("resume", "agents.py:steps", "s1").code == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_given_an_interrupted_run_then_it_is_paused_and_says_how_to_go_on(cli: Cli, how: signal.Signals) -> None:
    running = cli.start("run", "agents.py:slow", "hi", "--id", "s1")
    until(running, "called")
    running.send_signal(how)
    code, out, err = out_of(running)
    assert code == 4
    assert "paused by caller: cancelled" in out
    assert err == "steptrail: interrupted; `steptrail resume agents.py:slow s1` goes on\n"
    assert cli("show", "s1", "--json").json["status"] == "paused"


def test_given_a_paused_session_when_stopped_then_it_is_finished_there_and_then(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    stop = cli("stop", "p")
    assert (stop.code, stop.out) == (0, "p: finished, completed (user_requested)\n")
    again = cli("stop", "p")
    assert (again.code, again.err) == (2, "steptrail: cannot stop session 'p': no execution is open\n")


def test_given_a_taken_session_then_the_old_owner_ends_with_5(cli: Cli) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    (cli.folder / "open").touch()
    taken = cli("resume", "agents.py:steps", "s1", "--take-over")
    assert (taken.code, taken.lines[-1]) == (0, "all three")
    (cli.folder / "shut").touch()
    code, _, err = out_of(running)
    assert code == 5
    assert err.startswith("steptrail: session 's1' was taken over")
    assert cli.ledger.count("third") == 1


def test_given_a_follower_then_it_sees_a_run_of_another_process_and_ends_with_0(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s0")
    follower = cli.start("tail", "--follow", "--json")
    until(follower, "execution.finished.v1")
    cli("run", "agents.py", "hi", "--id", "s1")
    seen = [json.loads(line) for line in until(follower, "execution.finished.v1")]
    assert {entry["sessionId"] for entry in seen} == {"s1"}
    assert [entry["version"] for entry in seen] == list(range(1, len(seen) + 1))
    follower.send_signal(signal.SIGINT)
    code, _, err = out_of(follower)
    assert (code, err) == (0, "")


def test_given_a_follower_of_one_session_then_it_sees_nothing_else(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s0")
    cli("run", "agents.py", "hi", "--id", "s1")
    follower = cli.start("tail", "s0", "-f")
    until(follower, "execution.finished.v1")
    cli("send", "agents.py", "s1", "more")
    cli("send", "agents.py", "s0", "more")
    lines = until(follower, "execution.finished.v1")
    assert all("  s0  " in line for line in lines)
    follower.terminate()
    assert out_of(follower)[0] == 0


def test_given_a_follower_of_one_session_when_it_is_erased_then_it_says_so_and_ends(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s0")
    follower = cli.start("tail", "s0", "-f")
    until(follower, "execution.finished.v1")
    cli("erase", "s0", "--by", "ana", "--reason", "asked to")
    code, out, err = out_of(follower)
    assert (code, out.count("\n")) == (2, 1)
    assert "stream.erased.v1" in out
    assert err.startswith("steptrail: session 's0' was erased by ana on ")


def test_given_a_reader_that_went_away_then_reading_is_quiet(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s0")
    follower = cli.start("tail", "-f")
    until(follower, "session.started")
    assert follower.stdout is not None
    follower.stdout.close()
    cli("send", "agents.py", "s0", "more")
    assert follower.wait() == 0
    assert follower.stderr is not None
    assert follower.stderr.read() == ""


def test_given_a_reader_that_went_away_then_a_run_goes_on(cli: Cli) -> None:
    running = cli.start("run", "agents.py:steps", "do it", "--id", "s1", GATE="shut")
    until(running, "gated started")
    assert running.stdout is not None
    running.stdout.close()
    (cli.folder / "shut").touch()
    assert running.wait() == 0
    assert running.stderr is not None
    assert running.stderr.read() == ""
    assert cli("show", "s1", "--json").json["output"] == "all three"


def test_a_worker_whose_store_is_removed_says_so_and_can_still_be_ended(cli: Cli) -> None:
    assert cli("start", "agents.py:agent", "hello", "--id", "s1").code == 0
    working = cli.start("work", "agents.py:agent")
    assert working.stderr is not None
    assert "working with greeter" in working.stderr.readline()
    while cli("runs", "--status", "completed", "--json").json == []:
        time.sleep(0.01)
    for file in cli.folder.glob("steptrail.db*"):
        if file.is_file():
            file.unlink()
    # Its read models may notice it first, and say so on a line of their own.
    lines = iter(working.stderr.readline, "")
    said = next(line for line in lines if "a worker could not look for what is due, and tries again" in line)
    assert "steptrail.db was moved or deleted while it was open" in said
    working.terminate()
    assert out_of(working)[0] == 0


_SETS_LOGGING_UP = """
import logging.config
logging.config.dictConfig({"version": 1})
from steptrail import AgentBuilder, tool
from steptrail.testing import ScriptedModel, call

@tool
def charge() -> str:
    raise KeyError("card")

agent = AgentBuilder("till").with_model(ScriptedModel([call("charge")])).with_tools(charge).build()
"""


def test_given_an_agent_whose_module_sets_logging_up_then_the_log_tells_what_goes_wrong_all_the_same(cli: Cli) -> None:
    """That turns off all loggers that are there, and a worker said nothing any more."""
    (cli.folder / "till.py").write_text(_SETS_LOGGING_UP, encoding="utf-8")
    assert "WARNING steptrail.runs: " in cli("run", "till.py", "hi", "--log", "warning").err
