"""The code of an agent prints what it likes, and the JSON of a command stays JSON."""

from pathlib import Path

from tests.unit.cli.command import Type

AGENT = """
from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

print("the file is read")

@tool(effect=ToolEffect.READ)
def look() -> str:
    \"\"\"Look.\"\"\"
    print("the tool looks")
    return "tea"

agent = AgentBuilder("shop").with_model(ScriptedModel([call("look"), "Tea."])).with_tools(look)
"""


def test_given_an_agent_that_prints_when_json_is_asked_for_then_its_words_stand_beside_it(typed: Type) -> None:
    Path("chatty.py").write_text(AGENT, encoding="utf-8")
    done = typed("--json", "run", "chatty.py", "What is there?", "--id", "s")
    assert (done.json["status"], done.json["output"]) == ("completed", "Tea.")
    assert "the file is read\n" in done.err
    assert "the tool looks\n" in done.err


def test_given_an_agent_that_prints_when_people_ask_then_its_words_stand_among_the_answer(typed: Type) -> None:
    Path("talking.py").write_text(AGENT, encoding="utf-8")
    done = typed("run", "talking.py", "What is there?", "--id", "s")
    assert {"the file is read", "the tool looks", "Tea."} <= set(done.lines)
