"""`runs` with filters of the read models, and `stats`, as people and programs read them."""

import io
import json
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.infrastructure.store.core.tables import FORMAT
from steptrail.interfaces.cli.main import main
from steptrail.testing import Reply, ScriptedModel, call

HOSTILE = "\x1b[31mred\x1b[0m\nline"


@tool
def refund(cents: int) -> str:
    """Refund."""
    raise KeyError(cents)


def desk(*replies: Reply, name: str = "desk") -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel(replies)).with_tools(refund)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five runs: three that answered, of two users, one whose tool failed, and one of a name that is dangerous."""
    url = f"sqlite:///{tmp_path_factory.mktemp('asked') / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        for name, user in (("a", "u7"), ("b", "u8"), ("c", "u7")):
            trail.run(desk("Yes.").build(), "Hi", session=name, metadata={"tags": {"user": user}, "tenant": user})
        trail.run(desk(call("refund", cents=5), "Sorry.").build(), "Refund", session="d")
        trail.run(desk("Yes.", name=HOSTILE).build(), "Hi", session="e", metadata={"tags": {HOSTILE: "x=y"}})
    return url


class Asked:
    """Runs commands on the store."""

    def __init__(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.store, self._capsys = store, capsys
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main([*words, "--store", self.store]) == code
        said = self._capsys.readouterr()
        self.err = said.err
        return said.out

    def ids(self, *words: str) -> list[str]:
        return [line.split()[0] for line in self("runs", *words).splitlines()[1:]]


@pytest.fixture
def asked(store: str, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(store, capsys)


@pytest.mark.acceptance("8.2-1")
def test_runs_are_found_by_what_only_the_read_models_know(asked: Asked) -> None:
    assert asked.ids("--tag", "user=u7") == ["c", "a"]
    assert asked.ids("--tag", "user=u7", "--order", "oldest") == ["a", "c"]
    assert asked.ids("--tag", f"{HOSTILE}=x=y") == ["e"]
    assert asked.ids("--tenant", "u8") == ["b"]
    assert asked.ids("--tool", "refund", "--since", "1d") == ["d"]
    assert asked.ids("--tool", "refund", "--effect", "unsafe", "--status", "failed") == ["d"]
    assert asked.ids("--effect", "read") == []
    assert asked.ids("--least", "steps=2") == []
    assert asked.ids("--most", "steps=1", "--agent", "desk") == ["d", "c", "b", "a"]
    assert asked.ids("--error-type", "tool", "--error-class", "builtins:KeyError", "--stop-reason", "error") == ["d"]
    assert asked.ids("--model", "scripted", "--order", "slowest", "--status", "failed") == ["d"]
    assert asked.ids("--resolved-by", "ErrorPolicyCriterion") == ["d"]


def test_a_page_names_the_command_for_the_next_one(asked: Asked) -> None:
    first = asked("runs", "--tag", "user=u7", "--limit", "1").splitlines()
    heads = ["ID", "RUN", "AGENT", "STATUS", "STOP", "REASON", "ERROR", "STEPS", "ACTIVE", "STARTED", "(UTC)"]
    assert first[0].split() == heads
    assert first[1].split()[:5] == ["c", "1", "desk", "completed", "completed"]
    assert asked.err.startswith("steptrail: these are 1 of 2: `steptrail runs --tag user=u7 --limit 1 --after newest.")
    words = asked.err.partition("`steptrail ")[2].partition("`")[0].split()
    assert asked(*words[: words.index("--store")]).splitlines()[1].split()[0] == "a"
    assert asked.err == ""


def test_programs_get_rows_and_where_the_next_page_begins(asked: Asked) -> None:
    page = json.loads(asked("runs", "--tag", "user=u7", "--limit", "1", "--json"))
    assert [(row["stream"], row["tenant"], row["status"]) for row in page["runs"]] == [("agent:c", "u7", "completed")]
    assert page["lag"] == 0
    rest = json.loads(asked("runs", "--tag", "user=u7", "--after", page["next"], "--json"))
    assert ([row["stream"] for row in rest["runs"]], rest["next"]) == (["agent:a"], None)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--tag", "user"), "--tag 'user' is not NAME=VALUE"),
        (("--tag", "user=u7", "--tag", "user=u8"), "--tag 'user' cannot be both 'u7' and 'u8'"),
        (("--least", "steps=1", "--least", "steps=2"), "--least 'steps' cannot be both '1' and '2'"),
        (("--least", "weight=5"), "a run has no 'weight', there are cost, tokens, active, wall, steps, retries"),
        (("--most", "cost=dear"), "--most 'cost=dear': 'dear' is no number"),
        (("--most", "cost=nan"), "the bound nan of cost is no size"),
        (("--order", "oldest", "--after", "newest.1.1"), "is no place in a list of runs in the order 'oldest'"),
        (("--order", "best"), "invalid choice: 'best'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(asked: Asked, words: tuple[str, ...], why: str) -> None:
    assert asked("runs", *words, code=2) == ""
    assert why in asked.err
    assert asked.err.count("\n") == 1


@pytest.mark.acceptance("8.2-2")
def test_stats_say_how_runs_ended_and_what_failed(asked: Asked) -> None:
    said = asked("stats", "--since", "30d")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[0].startswith("5 runs ended since 20")
    assert lines[0].endswith(", in 5 steps")
    assert lines[1].startswith("runs by day 5 to 20")
    assert lines[3:6] == ["STOP REASON RUNS SHARE", "completed 4 80.0 %", "error 1 20.0 %"]
    assert "tokens 50 input, 25 output; 15 of tries that came to nothing" in lines
    (tool_line,) = [line for line in lines if line.startswith("refund 1 1 100.0 % ")]
    assert tool_line.endswith("1 tool builtins:KeyError")
    (failure,) = [line for line in lines if "2 refund builtins:KeyError steptrail why d --execution 1 --store " in line]
    assert asked.ids("--signature", failure.split()[0]) == ["d"]
    assert "█" not in said


def test_the_example_of_a_failure_is_the_run_that_failed_so_though_its_session_went_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(f"sqlite:///{tmp_path / 'runs.db'}", capsys)
    with Steptrail.open_sync(asked.store) as trail:
        trail.run(desk(call("refund", cents=5)).build(), "Refund", session="s")
        trail.run(desk("Yes.", "Yes.").build(), "Thank you", session="s")
    (example,) = [line for line in asked("stats").splitlines() if "refund builtins:KeyError" in line and "why" in line]
    words = shlex.split(example.partition("steptrail ")[2])
    assert "KeyError: 5" in asked(*words[: words.index("--store")])


def test_stats_by_agent_show_a_row_for_each_and_no_name_moves_the_cursor(asked: Asked) -> None:
    said = asked("stats", "--by", "agent")
    rows = [line.split() for line in said.splitlines()]
    assert rows[0][:3] == ["AGENT", "RUNS", "SHARE"]
    assert rows[1][:5] == ["desk", "4", "80.0", "%", "completed"]
    assert rows[2][0].startswith("\\x1b[31mred")
    assert len(rows) == 3
    assert asked("stats", "--by", "agent", "--limit", "1").count("\n") == 2
    assert asked.err == "steptrail: 1 row more: `--limit` shows them\n"


def test_stats_are_of_one_tenant_or_agent_or_time(asked: Asked) -> None:
    assert json.loads(asked("stats", "--tenant", "u7", "--json"))["total"]["runs"] == 2
    assert json.loads(asked("stats", "--agent", "desk", "--json"))["total"]["runs"] == 4
    assert asked("stats", "--until", "2020-01-01") == "no run has ended in this time\n"
    assert asked("stats", "--by", "tool").split()[:6] == ["TOOL", "CALLS", "FAILED", "RATE", "A", "CALL"]
    # Without prices no cost is told, which is not the same as none.
    of_model = [line.split() for line in asked("stats", "--by", "model").splitlines()]
    assert of_model[0] == ["MODEL", "CALLS", "FAILED", "A", "CALL", "TOKENS", "COST"]
    assert (of_model[1][:3], "$" in str(of_model)) == (["scripted", "5", "0"], False)
    assert [line.split()[1] for line in asked("stats", "--by", "day").splitlines()[1:]] == ["5"]


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_bars_if_it_can_show_them(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bool] = []
    for encoding in ("utf-8", "ascii"):
        terminal = Terminal(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["stats", "--store", store]) == 0
        terminal.flush()
        buffer = terminal.buffer
        assert isinstance(buffer, io.BytesIO)
        drawn.append("████████ 80.0 %" in buffer.getvalue().decode(encoding))
    assert drawn == [True, False]


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["stats"], ["runs", "--tenant", "x"]):
        assert main([*words, "--store", f"sqlite:///{tmp_path / 'none.db'}"]) == 2
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.count("\n") == 2


def test_a_store_of_a_newer_format_that_may_be_read_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(f"sqlite:///{tmp_path / 'runs.db'}", capsys)
    with Steptrail.open_sync(asked.store) as trail:
        trail.run(desk("Yes.").build(), "Hi", session="a")
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as hand:
        hand.execute(f"PRAGMA user_version = {FORMAT + 1}")
    assert asked("sql", "SELECT stream, status FROM executions").splitlines()[1].split() == ["agent:a", "completed"]
    assert asked("stats").startswith("1 run ended")
