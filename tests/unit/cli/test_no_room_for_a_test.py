"""`export --as-test` where there is no room."""

import os
from pathlib import Path

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.testing import ScriptedModel, calls
from tests.harness.scarce import largest_file
from tests.unit.cli.command import Type

AGENT = "from steptrail import AgentBuilder\nfrom steptrail.testing import ScriptedModel\n" + (
    "agent = AgentBuilder('a').with_model(ScriptedModel([])).build()\n"
)


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Look."""
    return "seen"


def test_given_no_room_for_a_test_then_none_is_there_and_the_same_command_writes_it_later(typed: Type) -> None:
    many: list[tuple[str, dict[str, JsonValue]]] = [("look", {})] * 800
    model = ScriptedModel([calls(*many), "done"])
    with Steptrail.open_sync("sqlite:///steptrail.db") as trail:
        trail.run(AgentBuilder("a").with_model(model).with_tools(look).build(), "go", session="long")
    Path("long.py").write_text(AGENT, encoding="utf-8")
    # So there is room for the recording, which is larger than the test.
    Path("test_long.jsonl").symlink_to(os.devnull)
    words = ["export", "long", "--as-test", "--agent", "long.py", "--out", "test_long.py"]
    with largest_file(50_000):
        full = typed(*words)
    assert full.code == 2
    assert "test_long.py cannot be written" in full.err

    again = typed(*words)
    assert (again.code, again.lines[0]) == (0, "wrote test_long.py")
    compile(Path("test_long.py").read_text(encoding="utf-8"), "test_long.py", "exec")
