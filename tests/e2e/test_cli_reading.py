"""`runs`, `show`, `why` and `tail` on stored sessions: what they say, and that they change nothing."""

import json

import pytest

from tests.e2e.cli import Cli
from tests.e2e.conftest import Stored


@pytest.fixture
def stored(cli: Cli, kept: Stored) -> Cli:
    """A store with a session that completed, one that met its limit and one that waits."""
    return kept.into(
        cli,
        ["run", "agents.py", "hi", "--id", "hello-1"],
        ["run", "agents.py:limited", "hi", "--id", "limit-1"],
        ["run", "agents.py:parked", "pay", "--id", "pay-1"],
    )


def test_given_sessions_then_runs_lists_them_newest_first(stored: Cli) -> None:
    done = stored("runs")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0].split() == ["ID", "AGENT", "STATUS", "STOP", "REASON", "STEPS", "ACTIVE", "UPDATED", "(UTC)"]
    assert [line.split()[:3] for line in done.lines[1:]] == [
        ["pay-1", "parked", "waiting"],
        ["limit-1", "limited", "completed"],
        ["hello-1", "greeter", "completed"],
    ]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--status", "waiting"], ["pay-1"]),
        (["--stop-reason", "steps_limit"], ["limit-1"]),
        (["--agent", "greeter"], ["hello-1"]),
        (["--agent", "greeter", "--status", "failed"], []),
        (["--limit", "2"], ["pay-1", "limit-1"]),
    ],
)
def test_given_a_filter_then_runs_lists_what_fits(stored: Cli, words: list[str], ids: list[str]) -> None:
    assert [run["sessionId"] for run in stored("runs", "--json", *words).json] == ids


def test_given_a_limit_on_the_list_then_it_says_that_there_is_more(stored: Cli) -> None:
    listed = stored("runs", "--limit", "1")
    (name,) = (line.split()[0] for line in listed.lines[1:])
    assert listed.err == f"steptrail: there are more: `steptrail runs --limit 1 --after {name}` lists them\n"
    assert len(stored("runs", "--after", name).lines) == 3


def test_given_a_run_that_completed_then_why_says_that_nothing_forbade_it(stored: Cli) -> None:
    done = stored("why", "hello")
    assert done.code == 0
    assert done.lines[0].startswith("hello-1: completed, stopped after 2 steps (completed)")
    assert "  ToolCallPresenceCheck  stop   No tool calls, allowing stop" in done.lines
    assert any(line.startswith("spent       2 steps, 1 tool call, 30 tokens, ") for line in done.lines)
    assert "to go on    it has answered, and nothing asked for more" in done.lines
    assert "next        `steptrail send agents.py hello-1 TEXT`" in done.lines
    assert done.lines[-1].startswith("events      started 2, votes ")


def test_given_a_limit_then_why_names_the_criterion_its_numbers_and_the_smallest_change(stored: Cli) -> None:
    lines = stored("why", "limit").lines
    assert "decided by  StepsLimit, which votes forbid" in lines
    assert "reason      Step limit reached: 1/1" in lines
    assert "numbers     currentSteps = 1, maxSteps = 1" in lines
    assert "to go on    max_steps=2 or more" in lines
    assert "            with that it would have continued" in lines
    assert "next        `steptrail retry agents.py:limited limit-1 --max-steps 2`" in lines
    votes = lines[lines.index("other votes") + 2 :]
    assert not any(line.startswith("  StepsLimit ") for line in votes)
    assert any(line.split()[:2] == ["ToolCallPresenceCheck", "request"] for line in votes)


def test_given_a_priced_run_then_its_cost_is_told_everywhere_and_why_says_what_a_shadow_would_have_stopped(
    cli: Cli,
) -> None:
    assert "cost     0.00004 USD" in cli("run", "agents.py:priced", "hi", "--id", "money").lines
    cli("run", "agents.py", "hi", "--id", "free")
    why = cli("why", "money").lines
    assert "reason      Cost limit reached: 0.00004/0.00004 USD" in why
    assert any(line.startswith("spent       2 steps, 2 tool calls, 30 tokens, 0.00004 USD, ") for line in why)
    said = "TokenUsageLimit would have stopped it after step 1: Token limit reached: 15/15 (shadow)"
    assert f"in shadow   {said}" in why
    assert "to go on    max_cost=0.000041 USD or more" in why
    assert any(line.startswith("spent    30 tokens, 0.00004 USD, ") for line in cli("show", "money").lines)
    header, free, money = cli("runs").lines
    assert header.split()[5:] == ["STEPS", "ACTIVE", "COST", "UPDATED", "(UTC)"]
    assert ("USD" in free, " 0.00004 USD " in money) == (False, True)
    usd = {run["sessionId"]: run["cost"] and run["cost"]["usd"] for run in cli("runs", "--json").json}
    assert usd == {"money": "0.00004", "free": None}


def test_given_a_parked_call_then_why_says_what_it_waits_for(stored: Cli) -> None:
    lines = stored("why", "pay").lines
    assert "waits for   somebody to say what wire (pay-1:1:1:0) did, whose outcome is unknown" in lines
    assert any(line.startswith("next        `steptrail settle pay-1 pay-1:1:1:0") for line in lines)


def test_given_json_then_why_holds_the_same(stored: Cli) -> None:
    told = stored("why", "limit", "--json").json
    assert (told["stopReason"], told["resolvedBy"]) == ("steps_limit", "StepsLimit")
    assert (told["continuesWith"], told["wouldContinue"]) == (["max_steps=2 or more"], True)
    assert told["stubborn"] == []


def test_given_a_session_then_show_tells_its_steps_messages_and_votes(stored: Cli) -> None:
    lines = stored("show", "hello").lines
    assert lines[0] == "session  hello-1"
    assert any(line.startswith("status   completed (completed), idle at version ") for line in lines)
    assert any(line.split() == ["hello-1:1", "completed", "completed", "aggregate"] for line in lines)
    assert any(line.startswith("    first completed, ") and line.endswith("[hello-1:1:1:0]: one") for line in lines)
    messages = lines[lines.index("messages") + 1 :][:4]
    assert messages == ["  user      hi", "  assistant [calls first]", "  tool      one", "  assistant hello"]
    assert "last decision: stop (completed), by aggregate" in lines


def test_given_an_answer_that_cites_then_show_names_each_source_once_below_it(cli: Cli) -> None:
    cli("run", "agents.py:citing", "Is it late?", "--id", "tea")
    lines = cli("show", "tea").lines
    place = lines.index("  assistant Tea is late.")
    assert lines[place + 1] == "            [cites Late\\x1b[31m tea, https://tea.example/late, It is late.]"
    assert lines[place + 2] == ""


def test_given_a_version_then_show_tells_how_it_was_then(stored: Cli) -> None:
    events = stored("show", "hello", "--events", "--json").json
    started = next(record["version"] for record in events if record["type"] == "tool.execution.started.v1")
    shown = stored("show", "hello", "--at", str(started), "--json").json
    assert (shown["version"], shown["status"], shown["openStep"]) == (started, "in_progress", 1)
    assert shown["openCalls"][0]["status"] == "running"
    lines = stored("show", "hello", "--at", str(started)).lines
    assert "  step 1  open" in lines
    assert any(line.split()[:2] == ["hello-1:1", "in_progress"] for line in lines)


def test_given_events_then_show_lists_them_with_what_they_say(stored: Cli) -> None:
    lines = stored("show", "hello", "--events").lines
    assert lines[0].split() == ["VERSION", "TIME", "(UTC)", "TYPE", "WHAT"]
    assert lines[1].startswith("1  ")
    assert lines[1].endswith("greeter")
    assert any("tool.execution.started.v1" in line and line.endswith("first (hello-1:1:1:0)") for line in lines)
    assert lines[-1].endswith("completed (completed), by aggregate")


def test_given_all_sessions_then_tail_prints_the_log_in_its_order(stored: Cli) -> None:
    lines = stored("tail").lines
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert {line.split()[3] for line in lines} == {"hello-1", "limit-1", "pay-1"}
    rest = stored("tail", "--after", "5").lines
    assert rest == lines[5:]


def test_given_one_session_then_tail_counts_its_versions(stored: Cli) -> None:
    lines = stored("tail", "limit", "--after", "2").lines
    assert [int(line.split()[0]) for line in lines] == list(range(3, len(lines) + 3))
    assert {line.split()[3] for line in lines} == {"limit-1"}


def test_given_json_then_tail_prints_one_object_a_line(stored: Cli) -> None:
    entries = [json.loads(line) for line in stored("tail", "hello", "--json").lines]
    assert [entry["version"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[1]["type"] == "execution.started.v1"
    assert entries[1]["event"]["input"]["parts"][0]["text"] == "hi"
    everything = [json.loads(line) for line in stored("tail", "--json").lines]
    assert entries == [entry for entry in everything if entry["sessionId"] == entries[0]["sessionId"]]


@pytest.mark.parametrize(
    "words",
    [["runs"], ["show", "hello"], ["show", "hello", "--events"], ["why", "pay"], ["tail"], ["tail", "pay"], ["doctor"]],
)
def test_given_a_store_then_reading_it_changes_no_file(stored: Cli, words: list[str]) -> None:
    before = stored.files
    content = (stored.folder / "steptrail.db").read_bytes()
    assert stored(*words).code == 0
    assert stored.files == before
    assert (stored.folder / "steptrail.db").read_bytes() == content


@pytest.mark.parametrize("place", ["before", "after"])
def test_given_options_on_either_side_of_the_command_then_they_count(stored: Cli, place: str) -> None:
    (stored.folder / "steptrail.db").rename(stored.folder / "other.db")
    options = ["--store", "sqlite:///other.db", "--json"]
    words = [*options, "runs"] if place == "before" else ["runs", *options]
    assert len(stored(*words).json) == 3


def test_given_the_environment_then_it_names_the_store_and_the_option_wins(stored: Cli) -> None:
    (stored.folder / "steptrail.db").rename(stored.folder / "other.db")
    assert len(stored("runs", "--json", STEPTRAIL_STORE="sqlite:///other.db").json) == 3
    refused = stored("runs", "--store", "sqlite:///none.db", STEPTRAIL_STORE="sqlite:///other.db")
    assert refused.code == 2


def test_given_a_run_with_a_subagent_then_show_tree_lists_both_with_their_own_bill_and_that_of_the_tree(
    cli: Cli,
) -> None:
    cli("run", "agents.py:desk", "hi", "--id", "desk-1")
    head, top, below = (line.split() for line in cli("show", "desk", "--tree").lines)
    assert head == ["ID", "AGENT", "STATUS", "STOP", "REASON", "OWN", "TOKENS", "TREE"]
    assert top == ["desk-1", "desk", "completed", "completed", "30", "60"]
    assert (below[0], below[1][:6], below[2:]) == ("·", "child-", ["greeter", "completed", "completed", "30", "30"])
    tree = cli("show", "desk-1", "--tree", "--json").json
    assert (tree["ownUsage"]["input"], tree["usage"]["input"], tree["parent"]) == (20, 40, None)
    (child,) = tree["children"]
    assert (child["parentAgentId"], child["parent"]["effect"]) == ("desk-1", "desk-1:1:1:0")
    refused = cli("show", "desk-1", "--tree", "--events")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_given_a_subagent_that_waits_for_a_person_then_why_of_its_parent_names_it_and_resume_goes_on(cli: Cli) -> None:
    waiting = cli("run", "agents.py:sales", "pay", "--id", "sales-1")
    assert waiting.code == 4
    (line,) = [line for line in cli("why", "sales-1").lines if line.startswith("waits for")]
    session = line.split()[3].rstrip(",")
    assert line == f"waits for   session {session}, which is waiting (approval)"
    assert cli("approve", session, f"{session}:1:1:0", "--by", "ana").code == 0
    assert cli("resume", "agents.py:sales", "sales-1").code == 0
    assert cli.ledger == ["paid-900"]
