"""Whole numbers of any length that may be stored come out as they went in, and one odd event hides no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli import running, tail
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.cli.parser import Commands
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ApprovalRule

WEI, LONG = 10**20 + 7, 7 * 10**4298


@tool
def balance(of: int) -> int:
    """Return what there is."""
    return of + 1


@tool(approval=ApprovalRule())
def send(wei: int) -> str:
    """Send it."""
    return "sent"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Steptrail.open_sync() as trail:
        model = ScriptedModel([call("balance", of=WEI), call("send", wei=LONG)])
        agent = AgentBuilder("bank").with_model(model).with_tools(balance, send).build()
        trail.run(agent, "How much?", session="wei", metadata={"account": WEI})
        trail.run(AgentBuilder("plain").with_model(ScriptedModel(["hi"])).build(), "hi", session="plain")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("stored")
def test_show_tail_and_why_keep_them_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(printed(capsys, "show", "wei", "--json"))
    assert shown["metadata"] == {"account": WEI}
    assert shown["stepList"][0]["calls"][0]["result"] == WEI + 1
    assert json.loads(printed(capsys, "why", "wei", "--json"))["approvals"][0]["arguments"] == {"wei": LONG}
    events = json.loads(printed(capsys, "show", "wei", "--events", "--json"))
    assert events[0]["event"]["metadata"] == {"account": WEI}
    for words in (["wei"], []):
        lines = printed(capsys, "tail", "--json", *words).splitlines()
        assert json.loads(lines[0])["event"]["metadata"] == {"account": WEI}
        assert any("plain" in line for line in lines) is not bool(words)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("words", [["--json"], []])
def test_an_event_that_cannot_be_shown_hides_no_other(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(printed(capsys, "tail", *words).splitlines())
    of_record, of_event = vars(tail)["record_data"], vars(tail)["summary_of"]

    def odd_record(record: Recorded[Any]) -> Any:
        return {"odd": object()} if record.version == 3 else of_record(record)

    def odd_summary(stream: str, event: Any) -> str:
        if event.TYPE.startswith("evaluations."):
            raise ValueError("odd")
        return str(of_event(stream, event))

    monkeypatch.setattr(tail, "record_data", odd_record)
    monkeypatch.setattr(tail, "summary_of", odd_summary)
    out = printed(capsys, "tail", *words)
    assert len(out.splitlines()) == whole
    assert ("unreadable" if words else "cannot be shown: ValueError: odd") in out


def test_a_context_keeps_its_long_numbers() -> None:
    commands = Commands()
    running.register(commands)
    parsed = commands.parser.parse_args(["run", "bank.py", "hi", "--context", f'{{"wei": {WEI}}}'])
    assert parsed.context == {"wei": WEI}
