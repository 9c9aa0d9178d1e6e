"""`sql`, `stats` and `views`: what they print of answers that nobody expects, and of read models that are broken."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.infrastructure.store.opening import open_store
from steptrail.models import PriceTable
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing import ScriptedModel
from tests.harness.hands import change_by_hand
from tests.unit.cli.command import Type


@pytest.fixture
def stored(typed: Type) -> Type:
    with Steptrail.open_sync() as trail:
        for name in ("a", "b"):
            trail.run(AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).build(), "hi", session=name)
    return typed


def test_columns_of_one_name_are_a_table_and_no_json(stored: Type) -> None:
    assert stored("sql", "SELECT 1 AS a, 2 AS a").lines == ["a  a", "1  2"]
    refused = stored("sql", "SELECT 1 AS a, 2 AS a", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "two columns are named 'a'" in refused.err


def test_any_value_of_an_answer_is_printed(stored: Type) -> None:
    said = stored("sql", "SELECT 1e999 AS i, NULL AS n, x'00ff' AS b, 'a' || char(27) AS t, 1.5 AS f")
    assert said.lines[1].split() == ["inf", "00ff", "a\\x1b", "1.5"]
    row = json.loads(stored("sql", "SELECT 1e999 AS i, x'00ff' AS b, 'é' AS t", "--json").out)["rows"]
    assert row == [{"i": None, "b": "00ff", "t": "é"}]


def test_an_answer_says_by_which_limit_it_is_cut(stored: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = stored("sql", "SELECT stream FROM executions ORDER BY 1", "--limit", "1")
    assert (cut.lines[1:], cut.err) == (
        ["agent:a"],
        "steptrail: these are the first 1 row, and there are more: `--limit` shows more\n",
    )
    assert stored("sql", "SELECT 1", "--limit", "9" * 18).code == 0
    monkeypatch.setattr("steptrail.infrastructure.views.database.MOST_BYTES", 10)
    cut = stored("sql", "SELECT stream FROM executions ORDER BY 1")
    assert (cut.lines[1:], cut.err) == (
        ["agent:a"],
        "steptrail: these are the first 1 row, and there are more: no answer is larger than 64 MB\n",
    )


async def test_an_answer_says_how_much_another_process_still_has_to_count(stored: Type) -> None:
    other = open_store("sqlite:///steptrail.db")
    await other.acquire(f"projector:runs:{RunsView.version}", owner="another")
    said = await asyncio.to_thread(stored, "sql", "SELECT count(*) FROM executions")
    await other.close()
    assert (said.lines[1], said.code) == ("0", 0)
    assert re.search(r"another process counts this, or this one cannot; \d+ positions of the log", said.err)


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_day_that_no_calendar_has_is_refused_and_one_at_its_end_is_not(stored: Type, option: str) -> None:
    refused = stored("stats", option, "9999-12-31T23:59:59-23:59")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "is not a time" in refused.err
    assert stored("stats", option, "999999w").code == 2
    assert stored("stats", option, "9999-12-31").code == 0
    said = stored("stats", option, "0001-01-01")
    assert said.code == 0
    if option == "--since":
        assert said.lines[0] == "2 runs ended since 0001-01-01, in 2 steps"


def test_broken_read_models_are_told_and_made_anew(stored: Type) -> None:
    stored("stats")
    Path("steptrail.db-views/1.db").write_bytes(b"this is no database" * 1000)
    for words in (["stats"], ["views"], ["sql", "SELECT 1"], ["runs", "--order", "dearest"]):
        refused = stored(*words)
        assert refused.code == 2
        assert refused.err.endswith("1.db are damaged: `steptrail rebuild` makes them anew\n")
    assert stored("rebuild").out == "the read models were made anew: generation 2\n"
    assert stored("sql", "SELECT count(*) FROM executions").lines[1] == "2"


def test_views_say_where_they_are_and_what_could_not_be_read(stored: Type, tmp_path: Path) -> None:
    stored("stats")
    said = stored("views")
    assert said.err == f"steptrail: they are kept in {tmp_path / 'steptrail.db-views'}\n"
    spoil = "UPDATE stored_events SET state = X'00' WHERE stream = 'agent:b' AND version = 3"
    change_by_hand(Path("steptrail.db"), spoil)
    stored("rebuild")
    said = stored("views")
    assert said.lines[1].endswith(" MB  1 damaged")
    assert said.err.endswith("`steptrail doctor` says what is damaged\n")
    assert stored("views", "--json").json[0]["damaged"] == 1


def test_a_small_cost_does_not_look_like_none(typed: Type) -> None:
    prices = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).with_max_cost("5", prices=prices).build()
    with Steptrail.open_sync() as trail:
        trail.run(agent, "hi", session="a")
    assert "cost    $0.00002" in typed("stats").lines
    assert "$0.00002" in typed("runs", "--order", "dearest").lines[1].split()


def test_a_name_that_is_cut_in_lists_is_no_damage_and_is_found(typed: Type) -> None:
    name = "n" * 10_000
    with Steptrail.open_sync() as trail:
        trail.run(AgentBuilder(name).with_model(ScriptedModel(["Yes."])).build(), "hi", session="a")
    assert typed("doctor").code == 0
    assert [row["sessionId"] for row in typed("runs", "--agent", name, "--json").json] == ["a"]
    assert max(map(len, typed("runs").lines)) < 400


def test_an_archive_that_cannot_be_written_leaves_nothing_behind(stored: Type) -> None:
    change_by_hand(
        Path("steptrail.db"), "UPDATE stored_events SET state = X'00' WHERE stream = 'agent:b' AND version = 3"
    )
    change_by_hand(Path("steptrail.db"), "UPDATE streams SET updated_at = 1")
    kept = stored("retain", "--older-than", "1d", "--archive", "old", "--yes")
    assert "it cannot be archived" in kept.out
    assert [each.name for each in Path("old").iterdir()] == ["agent-a.jsonl"]


def test_every_help_fits_a_terminal(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    commands = typed("?").err.partition("(choose from ")[2].partition(")")[0].replace("'", "").split(", ")
    pages = [["--help"], *([command, "--help"] for command in commands)]
    assert len(pages) > 30
    for words in pages:
        said = typed(*words)
        assert (said.code, [line for line in said.lines if len(line) > 80]) == (0, []), words


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--agent", "\udcff"],
        ["runs", "--tenant", "\udcff"],
        ["runs", "--tag", "a=\udcff"],
        ["stats", "--agent", "\udcff"],
        ["sql", "SELECT $1", "\udcff"],
        ["show", "\udcff"],
        ["pause", "a", "--reason", "\udcff"],
    ],
)
def test_bytes_that_are_no_text_are_refused_in_one_line(stored: Type, words: list[str]) -> None:
    refused = stored(*words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "udcff' is not Unicode" in refused.err


def test_the_example_of_a_failure_names_the_store_that_was_named(typed: Type) -> None:
    with Steptrail.open_sync("sqlite:///other.db") as trail:
        lost = AgentBuilder("desk").with_model(ScriptedModel([ValueError("no")])).build()
        trail.run(lost, "hi", session="lost")
    (example,) = re.findall("steptrail why .*", typed("stats", "--store", "sqlite:///other.db").out)
    assert "lost: " in typed(*example.split()[1:]).out
