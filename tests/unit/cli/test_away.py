"""A store that is locked or away, one that is broken, and one that is none have exit codes of their own."""

import json
import sqlite3
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import AppendOutcomeUnknown, StoreLocked
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.interfaces.cli import asking, main as way_in
from steptrail.testing import ScriptedModel
from tests.harness.scarce import largest_file

AGENT = """\
from steptrail import AgentBuilder
from steptrail.testing import ScriptedModel
agent = AgentBuilder("a").with_model(ScriptedModel(["done"])).build()
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        for number in range(20):
            agent = AgentBuilder("a").with_model(ScriptedModel(["x" * 2000])).build()
            trail.run(agent, "hi", session=f"s{number}")
    return url


def test_a_server_that_is_down_is_worth_another_try() -> None:
    assert way_in.main(["runs", "--store", "postgresql://ana@127.0.0.1:1/runs"]) == 7


def test_a_lock_that_is_held_is_worth_another_try(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: object) -> str:
        raise StoreLocked("the store is locked by another process: nothing was written, try again")

    monkeypatch.setattr(asking, "store_of", locked)
    assert way_in.main(["runs", "--store", store]) == 7


def test_no_room_is_worth_another_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    words = ["run", str(tmp_path / "agent.py"), "hi", "--store", f"sqlite:///{tmp_path / 'new.db'}"]
    with largest_file(2_000):
        assert way_in.main(words) == 7
    assert "nothing was written, have that raised and try again" in capsys.readouterr().err
    assert way_in.main(words) == 0


@pytest.mark.parametrize("words", [["runs"], ["why", "s"], ["doctor"]])
def test_no_store_is_a_mistake(words: list[str], tmp_path: Path) -> None:
    assert way_in.main([*words, "--store", f"sqlite:///{tmp_path / 'none.db'}"]) == 2


def test_a_file_that_was_cut_is_what_the_doctor_is_asked_for(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    assert way_in.main(["doctor", "--store", store, "--json"]) == 1
    seen = json.loads(capsys.readouterr().out)
    assert seen["healthy"] is False
    assert any(finding["damage"] for finding in seen["findings"])


def test_a_session_that_is_not_there_is_named_with_the_command_that_lists_those_that_are(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert way_in.main(["why", "nobody", "--store", store]) == 2
    said = "steptrail: there is no session 'nobody' in this store: `steptrail runs` lists the ones there are\n"
    assert capsys.readouterr().err == said


def test_a_write_that_may_have_happened_is_told_with_the_command_that_shows_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: object) -> None:
        raise AppendOutcomeUnknown("the connection broke, and the write may or may not have happened")

    agent, flow = tmp_path / "agent.py", tmp_path / "flow.yaml"
    agent.write_text(AGENT, encoding="utf-8")
    flow.write_text("steptrail: flow/v1\nname: t\nnodes: [{id: a, kind: noop}]\n", encoding="utf-8")
    monkeypatch.setattr(RecorderEventStore, "append", broken)
    assert way_in.main(["send", str(agent), "s1", "and?", "--store", store]) == 8
    assert f"`steptrail show s1 --events --store {store}` shows whether it has" in capsys.readouterr().err
    # The id of a new run does not say yet of what: that of a workflow is shown as `flow:x`.
    assert way_in.main(["run", str(flow), "1", "--id", "x", "--store", store]) == 8
    assert f"`steptrail runs --store {store}` shows whether it has" in capsys.readouterr().err
