"""`whatif`: which runs other settings would have changed, what that would have saved, and what nobody knows."""

from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.testing import call
from steptrail.workflow import Workflow
from tests.harness.hands import change_by_hand
from tests.runner.kit import agent_of
from tests.unit.cli.command import Type

WORK = call("add", a=1, b=2)


@pytest.fixture
def stored(typed: Type) -> Type:
    """A store with a run that answered, one that met its limit, and one that failed."""
    with Steptrail.open_sync() as trail:
        trail.run(agent_of([WORK, WORK, WORK, "done"]).build(), "go", session="long")
        trail.run(agent_of([WORK] * 9).with_max_steps(2).build(), "go", session="limited")
        trail.run(agent_of([call("fail")]).build(), "go", session="failed")
    return typed


@pytest.mark.acceptance("10.5-3")
def test_people_are_shown_each_execution_the_sums_and_the_commands_that_would_tell(stored: Type) -> None:
    said = stored("whatif", "--max-steps", "3", "--error-policy", "retry_all=2")
    assert (said.code, said.err) == (0, "")
    assert [line.split()[0] for line in said.lines[:4]] == ["EXECUTION", "long:1", "failed:1", "limited:1"]
    assert "stops after 3 steps, wrongly  1 step, 15 tokens," in said.lines[1]
    assert said.lines[1].endswith("StepsLimit: Step limit reached: 3/3")
    assert [line.split()[:3] for line in said.lines[5:9]] == [
        ["in", "all", "3"],
        ["same", "0"],
        ["stop", "earlier", "1,"],
        ["unknown", "2:", "nothing"],
    ]
    assert said.lines[-2].startswith("to know failed:1: `steptrail fork failed --at ")
    said = stored("whatif", "--max-steps", "3", "lim", "--limit", "1")
    assert said.lines[-1] == "to know limited:1: `steptrail retry AGENT limited --max-steps 3`"


def test_programs_get_all_of_it(stored: Type) -> None:
    found = stored("whatif", "--max-cost", "0.5", "--agent", "calc", "--since", "1h", "--json").json
    assert (found["executions"], found["unknown"], found["saved"]["tokens"]) == (3, 3, 0)
    (row,) = stored("whatif", "long", "--max-steps", "1", "--json").json["rows"]
    assert (row["answer"], row["step"], row["isWrong"], row["wouldStop"]) == ("stops_earlier", 1, True, "steps_limit")
    assert row["vote"]["context"] == {"currentSteps": 1, "maxSteps": 1}


def test_an_agent_brings_its_limits_and_criteria(stored: Type) -> None:
    code = "from tests.runner.kit import agent_of\nagent = agent_of([]).with_max_steps(1).build()\nflow = None\n"
    Path("strict.py").write_text(code)
    found = stored("whatif", "--like", "strict.py", "--json").json
    assert (found["same"], found["stopsEarlier"]) == (1, 2)


def test_what_cannot_be_asked_is_said_and_nothing_is_left_out(stored: Type) -> None:
    with Steptrail.open_sync() as trail:
        trail.run(Workflow("sum").function("a", lambda _: 1, output="a").build(), session="sum")
    change_by_hand(
        Path("steptrail.db"), "UPDATE stored_events SET state = '{' WHERE stream = 'agent:long' AND version = 9"
    )
    rows = {row["sessionId"]: row for row in stored("whatif", "--max-steps", "9", "--json").json["rows"]}
    assert rows.keys() == {"long", "limited", "failed", "flow:sum"}
    assert "workflow" in rows["flow:sum"]["why"]
    assert (rows["long"]["answer"], rows["long"]["version"]) == ("unknown", 9)
    refused = stored("whatif", "flow:sum", "--max-steps", "9")
    assert (refused.code, "a what-if is about agents alone" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ((), "a what-if needs another setting"),
        (("--error-policy", "retry"), "'retry' is no error policy: there are stop_on_any_error,"),
        (("--error-policy", "retry_all=x"), "'x' is not a whole number"),
        (("--max-cost", "much"), "--max-cost"),
        (("long", "--agent", "calc", "--max-steps", "1"), "by their names, or"),
        (("nope", "--max-steps", "1"), "there is no session 'nope'"),
    ],
)
def test_a_question_that_cannot_be_meant_is_one_line(stored: Type, words: tuple[str, ...], saying: str) -> None:
    refused = stored("whatif", *words)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    assert saying in refused.err
