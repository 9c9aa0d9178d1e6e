"""`erase` and `retain`, and the sentence of every command that is asked for an erased session."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.interfaces.cli.main import main
from steptrail.testing import ManualClock
from tests.runner.kit import agent_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a store with a session that ended long ago, and a fork of it."""

    async def made() -> None:
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        async with Steptrail.open(address, clock=clock) as trail:
            await trail.run(agent_of(["hello"]).build(), "hi", session="chat-1")
            await trail.session("chat-1").fork(session="fork-1")
            await trail.run(agent_of(["hello"]).build(), "hi", session="chat-2")

    address = f"sqlite:///{tmp_path / 'runs.db'}"
    asyncio.run(made())
    return address


def told(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    code = main(command)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_command_says_in_one_sentence_that_a_session_was_erased(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    erase = ("--store", url, "erase", "chat-2", "--by", "ana", "--reason", "asked to")
    assert told(capsys, *erase, "--dry-run")[1].endswith("1 session would be erased; nothing was done\n")
    code, out, _ = told(capsys, *erase)
    assert (code, out.splitlines()[-2:]) == (0, ["1 session erased", "no bytes of erased sessions remain"])
    for command in (["show"], ["why"], ["tail"], ["export"], ["show", "--events"], ["show", "--tree"], ["stop"]):
        code, out, err = told(capsys, "--store", url, *command, "chat-2")
        assert (code, out) == (2, "")
        assert err.startswith("steptrail: session 'chat-2' was erased by ana on 20")
        assert err.endswith("UTC: asked to\n")
        assert err.count("\n") == 1
    assert told(capsys, *erase)[0] == 2
    assert "chat-2" not in told(capsys, "--store", url, "runs")[1]
    assert told(capsys, "--store", url, "doctor")[0] == 0


def test_what_is_in_the_way_is_named_and_cascade_takes_it_along(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    erase = ("--store", url, "--json", "erase", "chat-1", "--by", "ana", "--reason", "asked to")
    code, _, err = told(capsys, *erase)
    assert code == 2
    assert "fork-1 was begun by it or goes on from its past" in err
    code, out, _ = told(capsys, *erase, "--cascade")
    assert (code, {each["id"] for each in json.loads(out)["erased"]}) == (0, {"chat-1", "fork-1"})


def test_retain_lists_and_erases_only_when_it_is_told_to(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    retain = ("--store", url, "--json", "retain", "--older-than", "1m", "--status", "completed")
    listed = json.loads(told(capsys, *retain)[1])
    assert (listed["dryRun"], listed["remains"]) == (True, None)
    assert {each["id"] for each in listed["erased"]} == {"chat-1", "chat-2", "fork-1"}
    assert json.loads(told(capsys, *retain, "--dry-run")[1]) == listed
    erased = json.loads(told(capsys, *retain, "--yes")[1])
    assert (erased["dryRun"], erased["erased"]) == (False, listed["erased"])
    assert json.loads(told(capsys, *retain)[1])["erased"] == []


def test_retain_that_erased_nothing_says_nothing_of_bytes_that_it_did_not_look_for(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    retain = ("--store", url, "retain", "--older-than", "1min", "--yes")
    assert told(capsys, *retain)[1].endswith("3 sessions erased\nno bytes of erased sessions remain\n")
    assert told(capsys, *retain) == (0, "0 sessions erased\n", "")


def test_words_that_cannot_be_meant_are_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, why in (
        (["erase"], "erase needs the ID of a session, --by and --reason"),
        (["erase", "chat-1", "--by", "ana"], "erase needs the ID of a session, --by and --reason"),
        (["erase", "chat-1", "--by", " ", "--reason", "x"], "argument --by: it is empty: say who"),
        (["erase", "chat-1", "--finish"], "--finish is about what was erased before"),
        (["erase", "--finish", "--dry-run"], "--finish removes what remains, and --dry-run does nothing"),
        (["retain", "--older-than", "90"], "'90' is no age: give 30min, 12h, 90d or 2w"),
        (["retain", "--older-than", "0d"], "'0d' is no age"),
        (["retain", "--older-than", "9d", "--yes", "--dry-run"], "--yes erases and --dry-run does not"),
    ):
        code, _, err = told(capsys, "--store", url, *command)
        assert code == 2
        assert why in err
    assert told(capsys, "--store", url, "erase", "--finish")[:2] == (0, "no bytes of erased sessions remain\n")
