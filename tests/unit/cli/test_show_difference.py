"""`show --from M` tells what has changed since event M, of agents and workflows."""

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Envelope, Update, Workflow
from tests.unit.cli.command import Type


@tool
def look() -> str:
    """Look."""
    return "here"


def note(seen: Envelope) -> Update:
    return Update(set={"noted": True})


@pytest.fixture
def stored(typed: Type) -> Type:
    with Steptrail.open_sync() as trail:
        agent = AgentBuilder("a").with_model(ScriptedModel([call("look"), "there"])).with_tools(look)
        trail.run(agent.build(), "where?", session="s")
        trail.run(Workflow("w").function("note", note).build(), {}, session="f")
    return typed


@pytest.mark.acceptance("8.5-8")
def test_the_difference_of_two_states_is_told_by_path(stored: Type) -> None:
    newest = stored("show", "s", "--json").json["version"]
    lines = stored("show", "s", "--from", "3").lines
    assert lines[0].startswith(f"from event 3 to event {newest}: ")
    assert "~ status: in_progress → completed" in lines
    assert any(line.startswith("+ messages[2]: ") for line in lines)
    told = stored("show", "s", "--at", str(newest), "--from", "3", "--json").json
    assert (told["from"], told["at"], told["isCut"]) == (3, newest, False)
    assert {"path": "status", "kind": "changed", "before": "in_progress", "after": "completed"} in told["changes"]
    assert stored("show", "s", "--at", "3", "--from", "3").lines == ["from event 3 to event 3: 0 changes"]


def test_a_workflow_has_one_too(stored: Type) -> None:
    assert any("noted" in line for line in stored("show", "flow:f", "--from", "2").lines)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "999"], "--from takes a number up to that"),
        (["--at", "999", "--from", "2"], "--at takes a number up to that"),
        (["--from", "2", "--events"], "leave one of them out"),
        (["--from", "2", "--tree"], "leave out --at, --from and --events"),
        (["--from", "0"], "is not a whole number from 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(stored: Type, words: list[str], why: str) -> None:
    done = stored("show", "s", *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
