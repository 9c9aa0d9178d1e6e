"""External calls on the command line: the inbox and `why` say how to answer, and `answer` takes it once."""

import shlex

import pytest

from steptrail import AgentBuilder, Steptrail, external_tool
from steptrail.domain.json_value import JsonValue
from steptrail.testing import ScriptedModel, calls
from steptrail.workflow import Workflow
from tests.unit.cli.command import Type

STORE = "sqlite:///steptrail.db"
RESULT: dict[str, JsonValue] = {"type": "object", "required": ["name"]}
PICK = external_tool("pick", "Pick a file.", {"type": "object"}, result=RESULT)


def waiting() -> None:
    script = ScriptedModel([calls(("pick", {"kind": "png"}), ("pick", {"kind": "pdf"}))])
    agent = AgentBuilder("clerk").with_model(script).with_tools(PICK).build()
    with Steptrail.open_sync(STORE) as trail:
        trail.run(agent, "Pick", session="s")
        trail.run(Workflow("w").human("ask", prompt="Go?").build(), session="f")


def test_the_inbox_and_why_name_the_command_that_answers_and_it_works(typed: Type) -> None:
    typed("doctor")
    waiting()
    (question, *_) = [each for each in typed("inbox", "--json").json if each["kind"] == "external"]
    assert (question["tool"], question["onExpiry"], question["schema"]) == ("pick", "fail_call", RESULT)
    assert 's (clerk) asks for the result of pick {"kind":"png"}' in typed("inbox").out
    told = typed("why", "s")
    assert "waiting after 0 steps for 2 results" in told.out
    assert 'somebody to answer pick {"kind":"png"}: call s:1:1:0, expires' in told.out
    assert (
        "next        `steptrail answer s s:1:1:0 --data JSON --by WHO`, or --failed TEXT in place of --data" in told.out
    )
    done = shlex.split(question["answers"][0].replace("WHO", "ana"))[1:]
    wrong = typed(*[word.replace("JSON", '{"nome": 1}') for word in done])
    assert (wrong.code, "does not fit: 'name' is a required property" in wrong.err) == (2, True)
    answered = typed(*[word.replace("JSON", '{"name": "a.png"}') for word in done])
    assert (answered.code, "recorded; 1 more question is open" in answered.out) == (0, True)
    again = typed(*[word.replace("JSON", '{"name": "b.png"}') for word in done])
    assert (again.code, "ana has settled it already" in again.err) == (2, True)
    # The id of the session stands in front of the effect's, and may be left out.
    assert typed("answer", "s", "1:1:1", "--failed", "no printer", "--notes", "it is out", "--by", "ben").code == 0
    shown = typed("show", "s").out
    assert "a.png" in shown
    assert "no printer" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("s", "1:1:0", "--approve"), "--approve or --reject: it is for a node of a workflow"),
        (("s", "1:1:0", "--data", "1", "--failed", "x"), "with --data JSON or --failed TEXT"),
        (("s", "1:1:0", "--data", "{"), "--data"),
        (("s", "1:1:0", "--data", "1", "--digest", "d"), "--digest: it is for a node of a workflow"),
        (("s", "1:1:7", "--failed", "x"), "open are: s:1:1:0, s:1:1:1"),
        (("s", "1:1:0"), "nothing is answered"),
        (("flow:f", "ask", "--failed", "x"), "--failed: it is for an external call of an agent"),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused_and_says_why(typed: Type, words: tuple[str, ...], said: str) -> None:
    typed("doctor")
    waiting()
    refused = typed("answer", *words, "--by", "ana")
    assert (refused.code, said in refused.err) == (2, True), refused.err
