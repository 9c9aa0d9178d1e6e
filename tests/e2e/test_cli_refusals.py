"""Whatever the user gets wrong: exit code 2 and one line that says what to do."""

import pytest

from tests.e2e.cli import Cli
from tests.e2e.conftest import Stored
from tests.unit.cli.command import Typed


def refused(done: Typed) -> str:
    """Return the one line, without the program's name."""
    assert done.code == 2
    assert done.out.count("\n") <= 1  # the id, when the session is known by then
    assert done.err.startswith("steptrail: ")
    assert done.err.count("\n") == 1
    return done.err.removeprefix("steptrail: ").rstrip()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["run"], "AGENT, INPUT"),
        (["run", "agents.py", "hi", "--di", "x"], "unrecognized arguments: --di"),
        (
            ["runs", "--db", "postgresql://app:hunter2@db/runs"],
            "unrecognized arguments: --db postgresql://…@db/runs (see",
        ),
        (["runs", "--status", "tired"], "invalid choice: 'tired'"),
        (["runs", "--limit", "-1"], "--limit"),
        (["tail", "--after", "9" * 19], "has more than 18 digits"),
        (["runs", "--limit", "x" * 10_000], "argument --limit: 'xxx"),
        (["runs", "--store", ""], "the address after --store is empty"),
        (["stop", "s1", "--by", " "], "argument --by: it is empty: say who"),
        (["show", "s1", "--at", "0"], "'0' is not a whole number from 1"),
        (["resume", "agents.py", "s1", "--timeout", "inf"], "'inf' is not a number of seconds above 0"),
        (["settle", "s1", "e1"], "one of the arguments --result --failed --rerun --tell is required"),
        (["settle", "s1", "e1", "--tell", "--rerun"], "not allowed with argument"),
        (["settle", "s1", "e1", "--result", "done"], "'done' is not JSON"),
        (["settle", "s1", "e1", "--result", "NaN"], "'NaN' is not JSON"),
        (["approve", "s1", "a1"], "the following arguments are required: --by"),
        (["approve", "s1", "a1", "--by", "ana", "--edit", "{"], "--edit: '{' is not JSON"),
        (["run", "agent.py", "hi", "--context", "NaN"], "--context: 'NaN' is not JSON"),
        (["start", "agent.py", "hi", "--metadata", "[]"], "--metadata: '[]' is not a JSON object: such as"),
        (["settle", "s1", "e1", "--result", "1e999"], "--result: the number inf has no JSON form"),
        (["settle", "s1", "e1", "--result", "[" * 5000], "--result: it is nested too deep"),
        (["approve", "s1", "a1", "--by", "ana", "--edit", '{"a": "\\ud800"}'], "--edit: at a: text that is not valid"),
        (["approve", "s1", "a1", "--by", "ana", "--edit", "[1]"], "'[1]' is not a JSON object"),
        (["deny", "s1", "a1"], "the following arguments are required: --by"),
        (["run", "agents.py", "hi", "--id", "a b"], "'a b' cannot be a session id"),
        (["run", "agents.py", "hi", "--id", ""], "'' cannot be a session id"),
        (["stop", ""], "the id is empty"),
        (["retain", "--older-than", "1d", "--archive", "", "--yes"], "argument --archive: the path is empty"),
        (["flow", "draw", "flow:r1", "--out", ""], "argument -o/--out: the path is empty"),
        (["flow", "draw", "flow:r1", "--out", "-"], "argument -o/--out: leave it out for the standard output"),
        (["inspect", "--mask", " "], "argument --mask: the key is empty"),
        (["run", "none.py", "hi"], "there is no agent file none.py"),
        (["run", "agents.py:nobody", "hi"], "agents.py has no 'nobody': give agents.py:agent or"),
        (["run", "agents.py:number", "hi"], "agents.py:number is an object of type int: it has to be an Agent"),
        (["run", "agents:number", "hi"], "agents:number is an object of type int"),
        (["run", "no.such.module", "hi"], "cannot import no.such.module: ModuleNotFoundError"),
        (["run", "agents.py", "hi", "--store", "mysql://x"], "the store 'mysql://x' is not understood"),
        (["run", "agents.py", "hi", "--store", "mysql://a:b@x"], "the store 'mysql://…' is not understood"),
        (["run", "agents.py", "hi", "--store", "sqlite:///none/x.db"], "there is no folder"),
    ],
)
def test_given_a_wrong_command_then_one_line_says_so(cli: Cli, words: list[str], why: str) -> None:
    before = cli.files
    assert why in refused(cli(*words))
    assert cli.files == before


def test_given_a_server_that_is_away_then_the_exit_code_says_to_try_again(cli: Cli) -> None:
    done = cli("run", "agents.py", "hi", "--store", "postgresql://a:b@127.0.0.1:1/x")
    assert (done.code, done.out, done.err.count("\n")) == (7, "", 1)
    assert "a@127.0.0.1:1/x cannot be reached" in done.err


@pytest.mark.parametrize("words", [["dance"], ["run", "agents:number", "hi"], ["why", "s1"]])
def test_given_a_python_that_was_started_for_it_then_it_says_the_same(cli: Cli, words: list[str]) -> None:
    started = cli.start(*words)
    out, err = started.communicate()
    assert cli(*words) == Typed(started.returncode, out, err)


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["show", "s1"],
        ["why", "s1"],
        ["tail"],
        ["tail", "-f"],
        ["doctor"],
        ["pause", "s1"],
        ["stop", "s1"],
        ["settle", "s1", "e1", "--tell"],
        ["approve", "s1", "a1", "--by", "ana"],
        ["deny", "s1", "a1", "--by", "ana"],
        ["resume", "agents.py", "s1"],
        ["send", "agents.py", "s1", "hi"],
    ],
)
def test_given_no_store_then_nothing_is_made(cli: Cli, words: list[str]) -> None:
    before = cli.files
    assert "there is no store" in refused(cli(*words))
    assert cli.files == before


@pytest.mark.parametrize(
    "words",
    [
        ["show", "ID"],
        ["why", "ID"],
        ["tail", "ID"],
        ["pause", "ID"],
        ["stop", "ID"],
        ["settle", "ID", "e1", "--tell"],
        ["approve", "ID", "a1", "--by", "ana"],
        ["deny", "ID", "a1", "--by", "ana"],
        ["resume", "agents.py", "ID"],
        ["send", "agents.py", "ID", "hi"],
    ],
)
def test_given_a_store_then_an_id_has_to_fit_one_session(cli: Cli, kept: Stored, words: list[str]) -> None:
    kept.into(cli, *(["run", "agents.py", "hi", "--id", name] for name in ("same-1", "same-2")))
    unknown = refused(cli(*["zzz" if word == "ID" else word for word in words]))
    assert unknown.startswith("there is no session 'zzz' in this store")
    ambiguous = refused(cli(*["same" if word == "ID" else word for word in words]))
    assert ambiguous == "the id 'same' fits 2 sessions (same-1, same-2): give more of it"


def test_given_a_finished_session_then_there_is_nothing_to_pause_or_settle(cli: Cli) -> None:
    cli("run", "agents.py", "hi", "--id", "s1")
    assert refused(cli("pause", "s1")) == "cannot pause session 's1': no execution is open"
    assert "no call with the effect id 's1:9' waits for a verdict" in refused(cli("settle", "s1", "9", "--tell"))


def test_given_a_session_of_n_events_then_it_cannot_be_shown_later(cli: Cli) -> None:
    cli("run", "agents.py:limited", "hi", "--id", "s1")
    version = cli("show", "s1", "--json").json["version"]
    assert (
        refused(cli("show", "s1", "--at", "999"))
        == f"session 's1' has {version} events: --at takes a number up to that"
    )


def test_given_a_run_id_then_it_is_never_taken_for_a_prefix(cli: Cli) -> None:
    cli("run", "agents.py:limited", "hi", "--id", "session-1")
    assert cli("run", "agents.py:limited", "hi", "--id", "session").lines[0] == "session"
    assert {run["sessionId"] for run in cli("runs", "--json").json} == {"session", "session-1"}


def test_given_a_file_that_is_no_store_then_it_is_left_alone(cli: Cli) -> None:
    (cli.folder / "steptrail.db").write_text("my notes, long enough to be taken for a header" * 10, encoding="utf-8")
    before = (cli.folder / "steptrail.db").read_bytes()
    for words in (["runs"], ["run", "agents.py", "hi"], ["doctor"]):
        assert "is not a SQLite database" in refused(cli(*words))
    assert (cli.folder / "steptrail.db").read_bytes() == before


def test_given_help_then_it_is_printed_and_the_exit_code_is_0(cli: Cli) -> None:
    done = cli("run", "--help")
    assert (done.code, done.err) == (0, "")
    assert "Exit codes: 0 completed" in done.out
