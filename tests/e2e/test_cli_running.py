"""`run`, `resume` and `send` in processes of their own: every exit code, and the same command twice."""

import pytest

from tests.e2e.cli import Cli


def test_given_an_agent_when_run_then_the_id_comes_first_and_the_result_last(cli: Cli) -> None:
    done = cli("run", "agents.py", "hi")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0].startswith("run-")
    assert done.lines[-2:] == ["output", "hello"]
    assert "status   completed" in done.lines


def test_given_a_run_then_its_progress_is_told_step_by_step(cli: Cli) -> None:
    lines = cli("run", "agents.py", "hi", "--id", "s1").lines
    told = [line.partition(" in ")[0] for line in lines]
    assert told[:7] == [
        "s1",
        "step 1",
        "  model scripted called",
        "  model replied",
        "  first started",
        "  first finished",
        "step 2",
    ]
    assert "  ToolCallPresenceCheck votes stop: No tool calls, allowing stop" in lines
    assert "finished: completed (completed)" in lines
    assert not any("StepsLimit" in line for line in lines)


def test_given_json_then_only_the_result_is_on_standard_output(cli: Cli) -> None:
    done = cli("run", "agents.py", "hi", "--id", "s1", "--json")
    assert done.json["sessionId"] == "s1"
    assert (done.json["status"], done.json["stopReason"], done.json["output"]) == ("completed", "completed", "hello")
    assert (done.json["steps"], done.json["tokens"]) == (2, 30)
    assert done.err.splitlines()[:2] == ["s1", "step 1"]


def test_given_a_model_that_fails_then_the_exit_code_is_1(cli: Cli) -> None:
    done = cli("run", "agents.py:failing", "hi")
    assert (done.code, done.err) == (1, "")
    assert any(line.startswith("  model failed") and "the model is gone" in line for line in done.lines)
    assert any(line.startswith("stopped  error, decided by ErrorPolicyCriterion") for line in done.lines)


def test_given_a_limit_then_the_exit_code_is_3(cli: Cli) -> None:
    done = cli("run", "agents.py:limited", "hi")
    assert (done.code, done.err) == (3, "")
    assert "stopped  steps_limit, decided by StepsLimit: Step limit reached: 1/1" in done.lines


def test_given_a_parked_call_then_the_exit_code_is_4_and_settling_it_lets_the_run_go_on(cli: Cli) -> None:
    parked = cli("run", "agents.py:parked", "pay", "--id", "pay-1")
    assert parked.code == 4
    assert any("steptrail settle pay-1 pay-1:1:1:0" in line for line in parked.lines)
    assert cli("settle", "pay", "1:1:0", "--result", '"sent"', "--by", "ana").code == 0
    resumed = cli("resume", "agents.py:parked", "pay")
    assert (resumed.code, resumed.lines[-1]) == (0, "wired")
    assert '"sent"' in cli("show", "pay", "--json").out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--failed", "the bank said no"), "failed"),
        (("--tell",), "interrupted"),
    ],
)
def test_given_a_parked_call_then_a_person_can_also_say_otherwise(
    cli: Cli, words: tuple[str, ...], status: str
) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    assert cli("settle", "p", "p:1:1:0", *words).code == 0
    cli("resume", "agents.py:parked", "p")
    assert cli("show", "p", "--json").json["stepList"][0]["calls"][0]["status"] == status


def test_given_a_parked_call_when_it_is_to_run_again_then_it_does(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    assert cli("settle", "p", "p:1:1:0", "--rerun").code == 0
    resumed = cli("resume", "agents.py:parked", "p")
    assert resumed.code == 4
    assert "  wire started, attempt 2" in resumed.lines


def test_given_a_call_that_needs_approval_then_an_edited_yes_runs_exactly_those_arguments(cli: Cli) -> None:
    asked = cli("run", "agents.py:asking", "pay", "--id", "inv-1")
    assert (asked.code, cli.ledger) == (4, [])
    assert any("`steptrail approve inv-1 inv-1:1:1:0 --by WHO`, or `deny`" in line for line in asked.lines)
    why = cli("why", "inv", "--json").json
    (approval,) = why["approvals"]
    assert (approval["tool"], approval["arguments"], approval["reason"]) == ("pay", {"cents": 900}, "moves money")
    assert f"digest      {approval['digest']}" in cli("why", "inv").lines

    other = cli("approve", "inv", "1:1:0", "--by", "ana", "--digest", "0" * 64)
    assert (other.code, "is about the arguments" in other.err) == (2, True)
    edited = ("--edit", '{"cents": 800}', "--digest", approval["digest"])
    yes = cli("approve", "inv", "1:1:0", "--by", "ana", *edited)
    assert (yes.code, yes.out) == (0, "inv-1: recorded; `steptrail resume agents.py:asking inv-1` goes on\n")
    again = cli("deny", "inv", "1:1:0", "--by", "ben")
    assert (again.code, "ana has granted it already" in again.err) == (2, True)

    done = cli("resume", "agents.py:asking", "inv")
    assert (done.code, done.lines[-1], cli.ledger) == (0, "All settled.", ["paid-800"])


def test_given_a_call_that_needs_approval_then_a_no_keeps_it_from_running(cli: Cli) -> None:
    cli("run", "agents.py:asking", "pay", "--id", "inv-1")
    assert cli("deny", "inv", "inv-1:1:1:0", "--by", "ana", "--reason", "not ours").code == 0
    done = cli("resume", "agents.py:asking", "inv")
    assert (done.code, done.lines[-1], cli.ledger) == (0, "All settled.", [])
    assert "ana denied it: not ours" in cli("show", "inv", "--json").out


def test_given_a_retry_then_its_delay_is_told_and_the_run_completes(cli: Cli) -> None:
    done = cli("run", "agents.py:flaky", "hi")
    assert done.code == 0
    assert any(line.startswith("retry in ") and "(timeout)" in line for line in done.lines)
    assert done.lines[-1] == "second try"


def test_given_a_finished_run_when_repeated_then_its_stored_result_is_returned(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s1")
    again = cli("run", "agents.py", "hi", "--id", "s1", "--json")
    assert (again.code, again.json["output"], again.json["stored"]) == (0, "hello", True)
    assert cli.ledger == ["first"]


def test_given_a_finished_run_when_asked_something_else_then_it_answers_that_next(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s1")
    other = cli("run", "agents.py", "bye", "--id", "s1", "--by", "ana")
    assert (other.code, other.lines[-1]) == (0, "hello again")
    assert "s1:2, by ana: bye" in cli("show", "s1", "--events").out


def test_given_an_open_run_when_asked_something_else_then_it_refuses_and_points_to_send_and_resume(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    refused = cli("run", "agents.py:parked", "bye", "--id", "p")
    assert (refused.code, refused.out) == (2, "p\n")
    assert "`send` adds this to it, `resume` goes on with it" in refused.err


def test_given_a_failed_run_when_repeated_then_the_stored_failure_names_the_retry(cli: Cli) -> None:
    cli("run", "agents.py:failing", "hi", "--id", "f")
    again = cli("run", "agents.py:failing", "hi", "--id", "f")
    assert again.code == 1
    said = "execution f:1 was given this before, and nothing was run now; `steptrail retry agents.py:failing f` goes on"
    assert again.err.splitlines()[-1] == f"steptrail: {said}"


def test_given_a_run_that_met_a_limit_then_a_retry_with_a_higher_one_goes_on(cli: Cli) -> None:
    cli("run", "agents.py:limited", "hi", "--id", "s1")
    command = ("retry", "agents.py:limited", "s1", "--max-steps", "5", "--by", "ana", "--reason", "more", "--key", "k")
    retried, again = cli(*command), cli(*command)
    assert (retried.code, retried.lines[0], retried.lines[-1]) == (0, "s1", "never said")
    assert (again.code, again.lines[-1], cli.ledger) == (0, "never said", ["first"])
    assert "s1:2: retry of s1:1, by ana: more" in cli("show", "s1", "--events").out
    assert "retried as  s1:2" in cli("why", "s1", "--execution", "1").lines
    refused = cli("retry", "agents.py:limited", "s1")
    assert (refused.code, refused.err.splitlines()[-1]) == (
        2,
        "steptrail: cannot retry session 's1': execution s1:2 has answered: `send` asks for more",
    )


def test_given_a_key_then_the_same_command_is_carried_out_once(cli: Cli) -> None:
    first, second = (cli("run", "agents.py", "hi", "--key", "order-7") for _ in range(2))
    assert first.lines[0] == second.lines[0]
    assert (second.code, second.lines[-1]) == (0, "hello")
    assert cli.ledger == ["first"]
    other = cli("run", "agents.py", "bye", "--key", "order-7")
    assert other.code == 2
    assert "'order-7' came with another input" in other.err


def test_given_a_key_in_a_session_that_went_on_then_its_own_result_is_returned(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s1", "--key", "k")
    assert cli("send", "agents.py", "s1", "and?").lines[-1] == "hello again"
    assert cli("run", "agents.py", "hi", "--id", "s1", "--key", "k").lines[-1] == "hello"


def test_given_a_finished_session_when_sent_to_then_it_answers(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "session-1")
    sent = cli("send", "agents.py", "sess", "and now?", "--key", "k2")
    assert (sent.code, sent.lines[0], sent.lines[-1]) == (0, "session-1", "hello again")
    again = cli("send", "agents.py", "sess", "and now?", "--key", "k2")
    assert (again.code, again.lines[-1]) == (0, "hello again")
    assert cli("runs", "--json").json[0]["executions"] == 2


def test_given_a_finished_session_when_resumed_then_it_says_so_and_returns_the_result(cli: Cli) -> None:
    cli("run", "agents.py:limited", "hi", "--id", "s1")
    resumed = cli("resume", "agents.py:limited", "s1")
    assert resumed.code == 3
    assert resumed.err == "steptrail: it has finished; `steptrail retry agents.py:limited s1` goes on\n"


def test_given_a_paused_run_then_new_limits_replace_the_recorded_ones(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    resumed = cli("resume", "agents.py:parked", "p", "--max-steps", "0", "--timeout", "9.5", "--max-tokens", "7")
    assert resumed.code == 3
    limits = cli("show", "p", "--events", "--json").json
    recorded = next(record["event"]["limits"] for record in limits if record["type"] == "execution.resumed.v1")
    assert (recorded["max_steps"], recorded["timeout"], recorded["max_tokens"]) == (0, 9.5, 7)


def test_given_a_limit_on_cost_then_it_can_be_raised_if_prices_are_recorded_and_is_an_amount(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    refused = cli("resume", "agents.py:parked", "p", "--max-cost", "5")
    said = "steptrail: --max-cost: a limit on cost needs `prices`, not Decimal('5')\n"
    assert (refused.code, refused.err) == (2, said)
    refused = cli("resume", "agents.py:parked", "p", "--max-cost", "much")
    assert (refused.code, refused.err.partition(":")[2][:13]) == (2, " --max-cost: ")
    resumed = cli("resume", "agents.py:parked", "p", "--max-input-tokens", "0", "--max-output-tokens", "9")
    assert (resumed.code, cli("show", "p", "--json").json["resolvedBy"]) == (3, "InputTokenLimit")


def test_given_a_changed_agent_when_resumed_strictly_then_it_refuses(cli: Cli) -> None:
    cli("run", "agents.py:parked", "pay", "--id", "p")
    refused = cli("resume", "agents.py:steps", "p", "--strict")
    assert refused.code == 2
    assert refused.err.startswith("steptrail: cannot resume session 'p': the agent is not the recorded one: name")


def test_given_a_changed_agent_when_resumed_then_what_is_different_is_said(cli: Cli) -> None:
    cli("run", "agents.py:asking", "pay", "--id", "p")
    assert cli("approve", "p", "p:1:1:0", "--by", "ana").code == 0
    assert "resumed after wait (segment 2), changed: name" in cli("resume", "agents.py:steps", "p").lines
    assert any(line.endswith("after wait, changed: name") for line in cli("show", "p", "--events").lines)


def test_given_a_run_then_the_reference_is_recorded_and_suggested(cli: Cli) -> None:
    cli("run", "agents.py:limited", "hi", "--id", "s1")
    assert cli("show", "s1", "--json").json["locator"] == "agents.py:limited"
    assert "next        `steptrail retry agents.py:limited s1 --max-steps 2`" in cli("why", "s1").lines


def test_given_a_module_in_the_folder_then_it_is_found_by_its_name(cli: Cli) -> None:
    assert cli("run", "agents:limited", "hi").code == 3


def test_given_output_that_would_clear_the_screen_then_it_is_shown_instead(cli: Cli) -> None:
    done = cli("run", "agents.py:noisy", "hi")
    assert done.lines[-1] == "\\x1b[2Jwiped"


def test_given_a_store_in_memory_then_it_lives_as_long_as_the_run(cli: Cli) -> None:
    before = cli.files
    assert cli("run", "agents.py", "hi", "--store", "sqlite:///:memory:").code == 0
    assert cli.files == before | {"ledger"}


def test_given_a_terminal_then_the_text_is_shown_before_the_line_that_says_it_is_whole(cli: Cli) -> None:
    plain, seen = cli("run", "agents.py", "hi", "--id", "s1").lines, cli.on_a_terminal("run", "agents.py", "hi")
    assert "    hello" not in plain
    place = seen.index("    hello")
    assert seen[place + 1].startswith("  model replied")
    assert [line for line in seen if line != "    hello"][-2:] == plain[-2:] == ["output", "hello"]


@pytest.mark.parametrize("command", ["run", "start"])
def test_given_metadata_then_lists_find_the_run_by_its_tenant_and_its_tags(cli: Cli, command: str) -> None:
    said = '{"tenant": "acme", "tags": {"user": "u7"}}'
    cli(command, "agents.py", "hi", "--id", "mine", "--metadata", said)
    cli(command, "agents.py", "hi", "--id", "other")
    found = [row["stream"] for row in cli("runs", "--tenant", "acme", "--tag", "user=u7", "--json").json["runs"]]
    assert found == ["agent:mine"]
