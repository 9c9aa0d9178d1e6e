"""What front ends, slim states and the command line show of an answer in a type."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.agui import AguiConfig, AguiFold
from steptrail.domain.agent.evolve import initial
from steptrail.interfaces.cli.main import main
from steptrail.lifecycle import ValidationFailed
from steptrail.output import OutputMode, OutputModeName
from steptrail.projections.lifecycle import lifecycle_events
from steptrail.serialization import SlimAgentStateSerializer
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.testing.scenario import given
from steptrail.ui import ui_conversation
from tests.runner.kit import Run, run
from tests.unit.agent.story import agent, asked, ended, opened, rejected, said, step, told as told_meanwhile, typed
from tests.unit.agui.client import Client

BAD, GOOD = '{"number": 7}', '{"number": "7"}'
SOURCE = f"""
from pydantic import BaseModel
from steptrail import AgentBuilder
from steptrail.testing import ScriptedModel

class Invoice(BaseModel):
    number: str

good = AgentBuilder("clerk").with_model(ScriptedModel(['{BAD}', '{GOOD}'])).with_output(Invoice)
bad = AgentBuilder("clerk").with_model(ScriptedModel(['{BAD}'])).with_output(Invoice, retries=0)
"""


class Invoice(BaseModel):
    number: str
    note: str = ""


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Look."""
    return "seen"


async def answered(mode: OutputModeName = "native", script: Sequence[Reply] = (BAD, GOOD)) -> Run:
    tools = [look] if mode == "last" else []
    builder = AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(*tools)
    return await run(builder.with_output(Invoice, mode=mode).build())


async def test_a_conversation_leaves_out_what_only_the_model_is_told() -> None:
    done = await answered()
    assert [message.content for message in ui_conversation(done.result.state).messages] == ["go", BAD, GOOD]
    slim = SlimAgentStateSerializer().serialize(done.result.state)["messages"]
    assert [entry["content"] for entry in slim] == ["go", BAD, GOOD]  # type: ignore[union-attr,index,call-overload]


async def test_the_line_before_the_last_call_is_left_out_too() -> None:
    done = await answered("last", [call("look"), "I know it.", GOOD])
    texts = [message.content for message in ui_conversation(done.result.state).messages if message.role != "tool"]
    assert texts == ["go", "", "I know it.", GOOD]


@pytest.mark.parametrize("mode", ["native", "tool", "last"])
async def test_a_front_end_over_agui_sees_the_same_and_nothing_twice(mode: OutputModeName) -> None:
    scripts: dict[str, list[Reply]] = {
        "native": [BAD, GOOD],
        "tool": [call("final_result", number=7), call("final_result", number="7")],
        "last": [call("look"), "I know it.", BAD, GOOD],
    }
    done = await answered(mode, scripts[mode])
    fold, client = AguiFold(initial("s"), run_id="r", config=AguiConfig()), Client()
    client.take_all(fold.begin(joins=True))
    for record in done.records:
        client.take_all(fold.apply(record))
    client.take_all(fold.finish())
    shown = [message for message in client.said if message["role"] != "tool"]
    assert not any("<output_" in str(message.get("content")) for message in shown)
    late = AguiFold(done.result.state, run_id="r", config=AguiConfig())
    joined = Client()
    joined.take_all(late.begin(joins=True))
    assert [message["id"] for message in joined.said] == [message["id"] for message in client.said]


def test_a_message_that_came_meanwhile_is_shown_once_beside_an_answer_that_was_rejected() -> None:
    before = given(*opened(agent(output=typed(OutputMode.NATIVE))), *step(), asked(output_mode=OutputMode.NATIVE))
    joined = before.and_(told_meanwhile("and this?"))
    after = joined.and_(said(BAD), rejected(), ended())
    fold, client = AguiFold(joined.state, run_id="r", config=AguiConfig()), Client()
    client.take_all(fold.begin(joins=True))
    for record in after.records[len(joined.records) :]:
        client.take_all(fold.apply(record))
    client.take_all(fold.finish())
    assert [message["content"] for message in client.said] == [
        "hello",
        "and this?",
        BAD,
    ]  # as it was when the client joined


async def test_listeners_hear_of_an_answer_that_does_not_fit() -> None:
    done = await answered()
    (failed,) = [event for event in lifecycle_events("s", done.records) if isinstance(event, ValidationFailed)]
    assert (failed.validation_type, failed.errors) == ("output", ("number: Input should be a valid string",))


async def test_a_large_answer_is_kept_beside_its_events(tmp_path: Path) -> None:
    long = "a" * 50_000
    model = ScriptedModel([f'{{"number": "{long}"}}'])
    agent = AgentBuilder("clerk").with_model(model).with_output(Invoice).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        result = await trail.run(agent, "go", session="s")
        assert result.output == Invoice(number=long)
        again = await trail.session("s").result(agent)
        assert again.output == Invoice(number=long)


def told(*words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (folder / "agents.py").write_text(SOURCE)
    try:
        code = main([*words, "--store", f"sqlite:///{folder / 'runs.db'}"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, capsys.readouterr().out


def test_the_command_line_prints_the_answer_and_why_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = told("run", "agents.py:good", "go", "--id", "a", folder=tmp_path, capsys=capsys)
    assert code == 0
    assert '{\n  "number": "7"\n}' in said
    assert "answer rejected: number: Input should be a valid string" in said
    assert '"outputJson":{"number":"7"}' in told(
        "run", "agents.py:good", "go", "--id", "a", "--json", folder=tmp_path, capsys=capsys
    )[1].replace(" ", "").replace("\n", "")
    code, said = told("run", "agents.py:bad", "go", "--id", "b", folder=tmp_path, capsys=capsys)
    assert code == 1
    said = told("why", "b", folder=tmp_path, capsys=capsys)[1]
    assert "decided by  OutputAccepted, which votes forbid" in said
    assert 'last answer {"number": 7}' in said
    assert "to go on    retries=1 or more in `with_output`" in said
    assert "with that it would have continued" in said
    assert "output.rejected" in told("show", "b", "--events", folder=tmp_path, capsys=capsys)[1]
