"""Workflows on the command line: the same commands as for agents, and what people say to them."""

import json
import re
import shlex

import pytest

from tests.e2e.cli import Cli, until
from tests.e2e.flows import FLOWS

HOSTILE = ["flow:", "flow:nobody", "flow:a b", "flow:flow:x", "flow:../x", "x:y", ":", "flow:\x1b[2J", "x" * 10_000]


@pytest.fixture
def flows(cli: Cli) -> Cli:
    (cli.folder / "flows.py").write_text(FLOWS, encoding="utf-8")
    return cli


def told(command: str) -> list[str]:
    """The words of a command that was printed, without the program."""
    return shlex.split(command.replace("WHO", "ana"))[1:]


def test_given_json_when_run_then_the_output_is_the_end_and_the_same_again_is_stored(flows: Cli) -> None:
    done = flows("run", "flows.py:flow", '{"n": 4}', "--id", "d")
    assert (done.code, done.err) == (0, "")
    assert (done.lines[0], done.lines[-2:]) == ("flow:d", ["output", "8"])
    assert "status   completed" in done.lines
    again = flows("run", "flows.py:flow", '{"n": 4}', "--id", "d", "--json")
    assert (again.json["output"], again.json["stored"], again.json["status"]) == (8, True, "completed")
    assert "nothing was run now" in again.err


def test_a_run_that_goes_on_elsewhere_is_named_so_that_what_is_advised_stops_no_session_of_that_id(flows: Cli) -> None:
    store = f"sqlite:///{flows.folder / 'other runs.db'}"
    assert flows("run", "flows.py:agent", "hi", "--id", "x", "--store", store).code == 0
    until(flows.start("run", "flows.py:slow", "null", "--id", "x", "--store", store), "begun")
    busy = flows("resume", "flows.py:slow", "flow:x", "--store", store)
    assert (busy.code, busy.err.startswith("steptrail: session 'flow:x' is being run by ")) == (5, True)
    commands = re.findall("`(.*?)`", busy.err)
    assert [told(each) for each in commands] == [
        ["stop", "flow:x", "--store", store],
        ["resume", "flows.py:slow", "flow:x", "--take-over", "--store", store],
    ]


def test_given_no_name_then_the_workflow_is_found_as_flow(flows: Cli) -> None:
    (flows.folder / "one.py").write_text(FLOWS.partition("agent = ")[0], encoding="utf-8")
    assert flows("run", "one.py", '{"n": 1}').lines[-1] == "2"
    assert flows("run", "flows.py:unbuilt", "[1]").lines[-3:] == ["[", "  1", "]"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("hello", "'hello' is not JSON"),
        ("", "'' is not JSON"),
        ("NaN", "NaN is not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("x" * 100_000, "is not JSON"),
    ],
)
def test_given_what_is_no_json_then_it_is_refused_on_one_short_line_and_no_store_is_made(
    flows: Cli, given: str, why: str
) -> None:
    for command in ("run", "start"):
        done = flows(command, "flows.py:flow", given)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("steptrail: the INPUT of a workflow: ")
        assert why in done.err
        assert len(done.err) < 500
    assert not [file for file in flows.files if file.endswith(".db")]


@pytest.mark.parametrize("given", ["null", "0", '""', "[]", '"a text"', json.dumps("x" * 50_000), "9" * 40])
def test_any_json_is_an_input_and_need_be_no_object(flows: Cli, given: str) -> None:
    done = flows("run", "flows.py:unbuilt", given, "--json")
    assert (done.code, done.json["output"]) == (0, json.loads(given))


def test_a_failure_ends_with_1_and_why_says_which_tries_and_tiers_decided(flows: Cli) -> None:
    done = flows("run", "flows.py:failing", '{"id": 7}', "--id", "f")
    assert (done.code, done.err) == (1, "")
    assert done.lines[-1] == "next     `steptrail retry flows.py:failing flow:f`"
    lines = flows("why", "flow:f").lines
    assert lines[0] == (
        'flow:f: failed, node "index" failed after 3 attempts (retry_limit), decided by RunPolicy: '
        "continue_on_error is off"
    )
    assert lines.pop(1) == "reason      ConnectionError: search.example refused\\x1b[2J the connection"
    assert lines.pop(1).startswith("at          flows.py:")
    assert lines[1] == "type        tool error"
    assert lines[2] == "class       unavailable, visit 1, not critical"
    assert [line[12] for line in lines[3:6]] == ["1", "2", "3"]
    assert lines[3].endswith("failed (unavailable), next try after 0.001 s")
    assert lines[6:8] == [
        "tiers       retry: 3 of 3 used; on_error: unset; critical: no; continue_on_error: off",
        "recorded    none before",
    ]
    assert lines[8].startswith("spent       0 of 2 nodes, 3 attempts, 0 tokens, ")
    assert lines[9] == "not reached later"
    assert lines[10] == "to go on    `steptrail retry flows.py:failing flow:f` runs index and what follows"
    assert lines[11] == "            which lets this run go on"
    assert lines[-1].startswith("events      started 2, ")
    explained = flows("why", "f", "--json").json
    assert (explained["flowId"], explained["next"], explained["owned"]) == (
        "f",
        "steptrail retry flows.py:failing flow:f",
        None,
    )
    retried = flows("retry", "flows.py:failing", "f", "--by", "ana", "--reason", "again")
    assert retried.code == 1
    assert "flow.retried.v1" in flows("tail", "flow:f").out
    assert "f:1" in flows("why", "f", "--execution", "1", "--json").json["executionId"]


def test_recorded_errors_end_with_6_and_are_listed(flows: Cli) -> None:
    done = flows("run", "flows.py:tolerant", '{"id": 7}', "--id", "t")
    assert (done.code, done.err) == (6, "")
    assert "status   completed (1 error)" in done.lines
    assert any(line.startswith("recorded index, unavailable: tool") for line in done.lines)
    lines = flows("why", "t").lines
    assert lines[0] == "flow:t: completed with 1 recorded error (completed): nothing was left to do"
    assert lines[1].startswith("recorded    index (node tier): unavailable after 3 attempts: search.example refused")
    assert flows("run", "flows.py:tolerant", '{"id": 7}', "--id", "t").code == 6
    (row,) = flows("runs").lines[1:]
    assert " completed (1 error) " in row
    assert flows("runs", "--json").json[0]["recordedErrors"] == 1
    assert flows("doctor").code == 0


def test_given_a_question_then_why_and_the_inbox_say_how_to_answer_and_the_run_goes_on(flows: Cli) -> None:
    asked = flows("run", "flows.py:publish", '{"path": "a.md", "id": 3}', "--id", "p")
    assert asked.code == 4
    lines = flows("why", "p").lines
    assert lines[0].startswith('flow:p: waiting for an answer to "review" (human, approval) until ')
    assert lines[0].endswith(" UTC; nothing else can run")
    assert lines[2].startswith('waits for   review (approval), request p:1:review:1 "Publish a.md?", asked ')
    assert "not reached release" in lines
    assert "next        `steptrail answer flow:p review --approve --by WHO`, or " in "\n".join(lines)
    (question,) = flows("inbox", "--json").json
    assert (question["kind"], question["stream"], question["agent"]) == ("human", "flow:p", "publish")
    assert (question["node"], question["type"], question["prompt"]) == ("review", "approval", "Publish a.md?")
    assert question["data"] == {"doc": {"title": "a.md"}}
    assert "flow:p (publish) asks in review (approval): Publish a.md?" in flows("inbox").lines
    yes, no = map(told, question["answers"])
    assert "--digest" in yes
    stale = flows(*[word if word != question["digest"] else "0" * 64 for word in yes])
    assert stale.code == 2
    answered = flows(*yes)
    assert (answered.code, answered.lines) == (
        0,
        ["flow:p: recorded; `steptrail resume flows.py:publish flow:p` goes on"],
    )
    twice = flows(*no)
    assert (twice.code, twice.out) == (2, "")
    assert re.search(r" has answered it already, at .* UTC, and a question is answered once", twice.err)
    assert [row["sessionId"] for row in flows("due", "--json").json] == ["p"]
    assert flows(*told("steptrail resume flows.py:publish flow:p")).code == 4
    (approval,) = flows("inbox", "--json").json
    assert (approval["kind"], approval["tool"], approval["arguments"]) == ("approval", "release", {"id": 3})
    assert flows(*told(approval["answers"][0])).code == 0
    done = flows("resume", "flows.py:publish", "p")
    assert (done.code, done.lines[-1]) == (0, '"released 3"')
    assert flows("inbox").err == "steptrail: nobody is asked anything\n"


def test_a_choice_is_one_of_its_options_and_an_input_is_json(flows: Cli) -> None:
    flows("run", "flows.py:choosing", "null", "--id", "c")
    (question,) = flows("inbox", "--json").json
    assert [told(way)[3:5] for way in question["answers"]] == [["--choice", "left"], ["--choice", "right"]]
    refused = flows("answer", "c", "pick", "--choice", "up", "--by", "ana")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert flows("answer", "c", "nobody", "--choice", "left", "--by", "ana").code == 2
    assert flows("answer", "c", "pick", "--by", "ana").code == 2
    assert flows("answer", "c", "pick", "--approve", "--reject", "--by", "ana").code == 2
    assert flows("answer", "c", "pick", "--choice", "left").code == 2
    assert flows("answer", "c", "c:1:pick:1", "--choice", "left", "--by", "ana").code == 0
    assert flows("resume", "flows.py:choosing", "c").code == 4
    assert flows("answer", "c", "fill", "--data", "many", "--by", "ana").code == 2
    assert flows("answer", "c", "fill", "--data", "[3]", "--notes", "or so", "--by", "ana").code == 0
    done = flows("resume", "flows.py:choosing", "c", "--json")
    assert (done.json["vars"]["many"]["data"], done.json["vars"]["many"]["notes"]) == ([3], "or so")


def test_a_held_step_goes_on_with_what_is_set(flows: Cli) -> None:
    assert flows("run", "flows.py:held", "null", "--id", "h").code == 4
    (question,) = flows("inbox", "--json").json
    assert (question["kind"], question["node"], question["type"]) == ("step", "last", "before")
    assert [told(way)[2:4] for way in question["answers"]] == [["last", word] for word in ("continue", "skip", "abort")]
    assert flows("step", "h", "last", "continue", "--set", "[1]", "--by", "ana").code == 2
    assert flows("step", "h", "last", "continue", "--set", '{"x": 3}', "--by", "ana").code == 0
    assert flows("resume", "flows.py:held", "h").lines[-1] == "3"


def test_a_node_whose_process_died_is_parked_and_settled(flows: Cli) -> None:
    assert flows.start("run", "flows.py:parked", "null", "--id", "w").wait() == 9
    assert flows("why", "w").lines[:2] == [
        "flow:w: in_progress: wire; its process died: no process runs it",
        "owner       no process runs it",
    ]
    assert "node wire (w:1:wire:1) was started and has not ended, and no process runs" in flows("doctor").out
    assert flows("resume", "flows.py:parked", "w").code == 4
    (question,) = flows("inbox", "--json").json
    assert (question["kind"], question["id"], question["tool"]) == ("unknown_outcome", "w:1:wire:1", "wire")
    assert not any("--tell" in way for way in question["answers"])
    tell = flows("settle", "w", "w:1:wire:1", "--tell")
    assert (tell.code, tell.err.startswith("steptrail: --tell: in a workflow")) == (2, True)
    assert flows("settle", "w", "1:wire:1", "--result", '"sent"', "--by", "ana").code == 0
    assert flows("resume", "flows.py:parked", "w").lines[-1] == '"sent"'


def test_a_run_is_paused_and_stopped_and_retried_from_elsewhere(flows: Cli) -> None:
    flows("run", "flows.py:publish", '{"path": "a.md", "id": 3}', "--id", "p")
    paused = flows("pause", "p", "--by", "ana", "--reason", "lunch")
    assert (paused.code, paused.lines) == (0, ["flow:p: paused; `steptrail resume flows.py:publish flow:p` goes on"])
    assert flows("why", "p").lines[0] == "flow:p: paused by ana: lunch"
    stopped = flows("stop", "p", "--json")
    assert (stopped.code, stopped.json["status"], stopped.json["stopReason"]) == (0, "stopped", "user_requested")
    assert flows("run", "flows.py:publish", '{"path": "a.md", "id": 3}', "--id", "p").code == 3
    assert flows("retry", "flows.py:publish", "p").code == 4


def test_a_run_is_started_for_a_worker(flows: Cli) -> None:
    started = flows("start", "flows.py:flow", '{"n": 2}', "--id", "s")
    assert (started.code, started.lines) == (0, ["flow:s"])
    assert flows("start", "flows.py:flow", '{"n": 2}', "--id", "s", "--json").json == {"flowId": "s"}
    worker = flows.start("work", "flows.py:flow", "flows.py:agent")
    with_it = flows.start("tail", "flow:s", "--follow")
    assert with_it.stdout is not None
    assert any("execution.finished.v1" in line for line in with_it.stdout)
    worker.terminate()
    assert worker.wait() == 0
    assert flows("show", "s", "--json").json["output"] == 4


def test_lists_and_shows_take_the_name_with_its_prefix_or_without(flows: Cli) -> None:
    flows("run", "flows.py:agent", "hi", "--id", "same")
    flows("run", "flows.py:flow", '{"n": 1}', "--id", "same")
    flows("run", "flows.py:flow", '{"n": 2}', "--id", "other")
    assert [row[:10].strip() for row in flows("runs").lines[1:]] == ["flow:other", "flow:same", "same"]
    ambiguous = flows("show", "same")
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert "flow:same" in ambiguous.err
    assert flows("show", "flow:same").lines[:3] == [
        "run      same",
        "workflow double",
        "status   completed (completed), done at version 7",
    ]
    shown = flows("show", "oth", "--json").json
    assert (shown["output"], shown["vars"], shown["nodes"]) == (
        4,
        {"out": 4},
        [{"id": "twice", "kind": "function", "visits": 1}],
    )
    assert flows("show", "flow:same", "--at", "4").code == 0
    assert flows("show", "flow:same", "--at", "400").code == 2
    assert [row.split()[3] for row in flows("show", "flow:same", "--events").lines[1:]][-1] == "execution.finished.v1"
    assert flows("show", "flow:same", "--tree", "--json").json["kind"] == "flow"
    assert flows("resume", "flows.py:flow", "same").code == 0
    assert flows("resume", "flows.py:agent", "same").code == 0
    assert flows("doctor").code == 0


@pytest.mark.parametrize("named", HOSTILE)
def test_hostile_and_unknown_ids_are_refused_on_one_line(flows: Cli, named: str) -> None:
    flows("run", "flows.py:flow", '{"n": 1}', "--id", "only")
    commands = [
        *(["show", named], ["why", named], ["tail", named], ["pause", named], ["stop", named]),
        *(["resume", "flows.py:flow", named], ["retry", "flows.py:flow", named]),
        *(["answer", named, "review", "--approve", "--by", "ana"], ["settle", named, "e", "--rerun"]),
    ]
    for command in commands:
        done = flows(*command)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), command
        assert "\x1b" not in done.err


def test_what_only_an_agent_takes_is_refused_of_a_workflow(flows: Cli) -> None:
    flows("run", "flows.py:failing", '{"id": 1}', "--id", "f")
    assert flows("send", "flows.py:failing", "f", "hello").code == 2
    limited = flows("retry", "flows.py:failing", "f", "--max-steps", "3")
    assert (limited.code, limited.err.startswith("steptrail: --max-steps: flows.py:failing is a workflow")) == (2, True)
    flows("run", "flows.py:agent", "hi", "--id", "a")
    answered = flows("answer", "a", "review", "--approve", "--by", "ana")
    assert (answered.code, "is the session of an agent" in answered.err) == (2, True)


def test_a_run_is_exported_as_it_is_stored_without_the_values_of_redacted_keys(flows: Cli) -> None:
    flows("run", "flows.py:publish", '{"path": "secret.md", "id": 3, "deep": [{"ID": "secret"}]}', "--id", "p")
    exported = flows("export", "p")
    header, *lines = map(json.loads, exported.lines)
    assert (header["kind"], header["flow"], header["workflow"]) == ("steptrail.flow", "p", "publish")
    assert (header["events"], [line["version"] for line in lines]) == (9, list(range(1, 10)))
    assert "secret" in exported.out
    redacted = flows("export", "flow:p", "--redact", "path", "--redact", "id", "--redact", "title", "--out", "p.jsonl")
    assert (redacted.code, redacted.lines) == (0, ["wrote p.jsonl"])
    header, _, started, *_ = map(json.loads, (flows.folder / "p.jsonl").read_text().splitlines())
    assert header["redacted"] == ["id", "path", "title"]
    out = "[redacted]"
    assert started["state"]["input"] == {"path": out, "id": out, "deep": [{"ID": out}]}
    assert flows("export", "p", "--as-test", "--agent", "flows.py:agent").code == 2
    assert flows("export", "flow:nobody").code == 2


def test_what_begins_with_a_dash_stands_in_printed_commands_so_that_they_can_be_typed(flows: Cli) -> None:
    (flows.folder / "choosing.py").write_text(
        "from steptrail.workflow import Workflow\n"
        'flow = Workflow("choosing").human("ask", type="choice", options=("-no", "--by")).build()\n',
        encoding="utf-8",
    )
    for name in ("-a", "-b"):
        assert flows("run", "choosing.py", "1", f"--id={name}").code == 4
    (question, *_) = flows("inbox", "--limit", "1", "--json").json
    for command in ("inbox", "runs"):
        (more,) = re.findall(r"`(steptrail [^`]+)`", flows(command, "--limit", "1").err)
        assert "flow:-a" in flows(*told(more)).out
    assert flows(*told(question["answers"][1])).code == 0
    assert flows("resume", "choosing.py", "flow:-b").code == 0
    again = flows("why", "--json", "--", "flow:-b").json["next"].replace("INPUT", "2")
    assert flows(*told(again)).code == 4


def test_the_inbox_says_what_the_data_of_an_answer_has_to_fit(flows: Cli) -> None:
    (flows.folder / "giving.py").write_text(
        "from steptrail.workflow import Workflow\n"
        'flow = Workflow("giving").human("ask", type="input", schema={"type": "integer"}).build()\n',
        encoding="utf-8",
    )
    assert flows("run", "giving.py", "1", "--id", "g").code == 4
    assert '  the data has to fit {"type":"integer"}' in flows("inbox").lines
