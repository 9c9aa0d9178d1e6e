"""`export` in real processes: a session as a file, and as a test that pytest runs without the model."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from steptrail.testing import Recording
from tests.e2e.cli import Cli
from tests.e2e.conftest import Stored
from tests.harness.ready_python import ready_python

SHOP = """
import os
from pathlib import Path

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.testing import ScriptedModel, call


@tool(effect=ToolEffect.READ)
def order(number: int, card: str) -> dict[str, str]:
    with Path("ledger").open("a") as ledger:
        ledger.write("order\\n")
    return {"state": "paid", "card": card}


class Shop(ScriptedModel):
    async def infer(self, request):
        assert "OFFLINE" not in os.environ, "the model was asked"
        return await super().infer(request)


script = [call("order", number=1, card="4242"), "It is paid."]
agent = AgentBuilder("shop").with_model(Shop(script)).with_tools(order).build()
"""


@pytest.fixture
def sold(cli: Cli, kept: Stored) -> Cli:
    """A store with a session of a shop."""
    return kept.into(cli, ["run", "shop.py", "Is order 1 paid?", "--id", "order-1"], shop=SHOP)


def run_tests(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ready_python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "OFFLINE": "1"},
        capture_output=True,
        text=True,
    )


def test_given_a_session_then_export_writes_a_header_and_the_events_as_they_are_stored(sold: Cli) -> None:
    done = sold("export", "order")
    header, *events = [json.loads(line) for line in done.lines]
    assert (done.code, header["session"], header["format"], header["events"]) == (0, "order-1", 1, len(events))
    assert any("hooks" in what for what in header["notCaptured"])
    shown = sold("show", "order-1", "--events", "--json").json
    assert [event["type"] for event in events] == [event["type"] for event in shown]
    assert events[0]["commit"]["id"]


def test_given_a_file_to_write_then_it_is_loaded_as_what_is_stored_and_a_warning_is_given(sold: Cli) -> None:
    done = sold("export", "order-1", "--out", "runs/order.jsonl")
    assert (done.code, done.out) == (0, "wrote runs/order.jsonl\n")
    assert "it holds what the run held" in done.err
    assert Recording.load(sold.folder / "runs" / "order.jsonl").session == "order-1"


def test_given_a_key_to_redact_then_its_values_are_nowhere_in_the_file(sold: Cli) -> None:
    assert "4242" in sold("export", "order-1").out
    redacted = sold("export", "order-1", "--redact", "Card").out
    assert "4242" not in redacted
    assert '"card":"[redacted]"' in redacted
    assert json.loads(redacted.splitlines()[0])["redacted"] == ["Card"]


@pytest.mark.parametrize("words", [["shop.py"], ["shop:agent"], ["shop.py:agent", "--redact", "card"]])
def test_given_a_written_test_then_it_passes_without_model_and_tools(sold: Cli, words: list[str]) -> None:
    done = sold("export", "--as-test", "order-1", "--agent", *words)
    assert (done.code, done.lines) == (0, ["wrote tests/test_order_1.py", "wrote tests/test_order_1.jsonl"])
    ran = run_tests(sold.folder, "tests/test_order_1.py")
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout
    assert sold.ledger == ["order"]


def test_given_a_written_test_then_it_runs_from_any_folder(sold: Cli) -> None:
    sold("export", "--as-test", "order-1", "--agent", "shop.py:agent", "--out", "checks/test_it.py")
    ran = run_tests(sold.folder / "checks", "test_it.py")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (".with_max_steps(1)", "steps_limit"),
        (".with_system_prompt('Be kind.')", "First difference: message 1 (user), role"),
    ],
)
def test_given_an_agent_that_decides_otherwise_then_the_written_test_fails(
    sold: Cli, change: str, reported: str
) -> None:
    sold("export", "--as-test", "order-1", "--agent", "shop.py")
    (sold.folder / "shop.py").write_text(SHOP.replace(".build()", f"{change}.build()"), encoding="utf-8")
    ran = run_tests(sold.folder, "tests/test_order_1.py")
    assert ran.returncode == 1, ran.stdout
    assert reported in ran.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--as-test"], "--as-test needs --agent AGENT"),
        (["--as-test"], "(it was recorded with shop.py)"),
        (["--agent", "shop.py"], "add --as-test"),
        (["--as-test", "--agent", "shops.py"], "there is no agent file shops.py"),
        (["--as-test", "--agent", "shop.py", "--out", "test_x.jsonl"], "is no test file"),
        (["--as-test", "--agent", "shop.py", "--out", "shop.py"], "shop.py is there already"),
        (["--out", "shop.py/x.jsonl"], "cannot be written"),
        (["--redact", ""], "argument --redact: the key is empty"),
        (["--out", ""], "argument --out: the path is empty"),
        (["--out", "-"], "argument --out: leave it out for the standard output; a file of this name is ./-"),
        (["--out", "."], ". cannot be written: it is a folder: name a file in it"),
    ],
)
def test_given_what_cannot_be_meant_then_export_refuses_in_one_line(sold: Cli, words: list[str], why: str) -> None:
    before = sold.files
    done = sold("export", "order-1", *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert why in done.err
    assert sold.files == before


def test_given_an_unknown_id_then_export_refuses(sold: Cli) -> None:
    assert sold("export", "nothing").code == 2
