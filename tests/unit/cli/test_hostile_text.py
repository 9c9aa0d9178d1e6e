"""Whatever a model, a tool or a caller wrote: no command lets it move the cursor, or begin a line of its own."""

import json
import sys
from pathlib import Path

import pytest

from steptrail.interfaces.cli.main import main
from steptrail.interfaces.cli.parser import Commands

HOSTILE = "x\x1b[31m\x1b]0;title\x07\r\nINJECTED\x9b2J\u202ey\x7f\x00z"

AGENTS = f"""
from steptrail import AgentBuilder, OnUnknown, tool
from steptrail.continuation import CallableCriterion
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.usage import Usage
from steptrail.domain.messages import TextPart, ToolCallPart
from steptrail.hooks import CallableHook
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import ApprovalRule

HOSTILE = {HOSTILE!r}


@tool(approval=ApprovalRule(reason=HOSTILE))
def pay(to: str) -> str:
    return HOSTILE


@tool(timeout=0.01, on_unknown=OnUnknown.PARK)
async def wire(to: str) -> str:
    import asyncio

    await asyncio.sleep(60)
    return HOSTILE


@tool
def echo(to: str) -> str:
    return HOSTILE


@tool
def fails(to: str) -> str:
    raise RuntimeError(HOSTILE)


def wild(*calls):
    given = {{HOSTILE: HOSTILE, "to": HOSTILE}}
    parts = [ToolCallPart(id=str(at), name=name, arguments=given) for at, name in enumerate(calls)]
    return ModelReply(parts=(TextPart(text=HOSTILE), *parts), finish_reason=FinishReason.TOOL_CALLS, usage=Usage())


def raises(request):
    raise RuntimeError(HOSTILE)


def scripted(*script):
    model = ScriptedModel(script, name=HOSTILE)
    return AgentBuilder(HOSTILE).with_model(model).with_tools(pay, wire, echo, fails)


TO = dict(to=HOSTILE)
agent = scripted(call("echo", **TO), HOSTILE, HOSTILE)
unknown = scripted(wild(HOSTILE, "echo"), HOSTILE)
failing = scripted(call("fails", **TO))
away = scripted(raises)
asking = scripted(call("pay", **TO), HOSTILE)
denied = scripted(call("pay", **TO), HOSTILE)
parked = scripted(call("wire", **TO), HOSTILE)
judged = scripted(call("echo", **TO), HOSTILE).with_criteria(
    CallableCriterion(lambda state: state.step_count < 1, name=HOSTILE)
)
"""


def commands() -> set[str]:
    registered = Commands()
    from steptrail.interfaces.cli import doctor, export, reading, running, steering, tail, whatif, why

    for group in (running, steering, reading, why, whatif, tail, export, doctor):
        group.register(registered)
    return registered.names


def harmless(printed: str) -> bool:
    # An answer may have lines, and stands at the end.
    lines = printed.partition("\noutput\n")[0].split("\n")
    is_plain = all(c.isprintable() or c in "\n\t" for c in printed)
    return is_plain and not any(line.startswith("INJECTED") for line in lines)


@pytest.mark.slow("runs every command")
def test_no_command_prints_what_a_terminal_obeys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("agents.py").write_text(AGENTS, encoding="utf-8")
    said, typed = list[str](), set[str]()
    by = ["--by", HOSTILE.replace("\0", ""), "--reason", HOSTILE.replace("\0", "")]

    def run(*words: str) -> str:
        code = main(words)
        out, err = capsys.readouterr()
        assert code in range(8), (words, err)
        assert harmless(out), (words, out)
        assert harmless(err), (words, err)
        said.append(out + err)
        typed.add(next(word for word in words if not word.startswith("-")))
        return out

    for name in ("agent", "unknown", "failing", "away", "asking", "denied", "parked", "judged"):
        run("run", f"agents.py:{name}", HOSTILE, "--id", name, "--log", "debug")
    for name in ("asking", "denied", "parked"):
        run("pause", name, *by)
    run("unpause", "asking", *by)
    for name in ("asking", "denied"):
        approval = json.loads(run("why", name, "--json"))["approvals"][0]["id"]
        run("approve" if name == "asking" else "deny", name, approval, *by)
        run("resume", f"agents.py:{name}", name)
    run("settle", "parked", "parked:1:1:0", "--failed", HOSTILE, "--by", HOSTILE)
    run("score", "parked", HOSTILE, HOSTILE, "--comment", HOSTILE, "--by", HOSTILE)
    run("stop", "parked", *by)
    run("retry", "agents.py:failing", "failing", *by)
    run("requeue", "failing", *by)
    for into in ("twin", HOSTILE):
        run("fork", "agent", "--into", into, *by)
    run("show", "twin", "--events")
    run("send", "agents.py:agent", "agent", HOSTILE)
    for words in (["--json"], []):
        for name in ("agent", "unknown", "failing", "away", "asking", "denied", "parked", "judged"):
            run("show", name, *words)
            run("show", name, "--events", *words)
            run("why", name, *words)
        run("show", "agent", "--tree", *words)
        run("show", "agent", "--at", "3", *words)
        run("tail", "agent", *words)
        run("export", "unknown", *words)
        run("runs", *words)
        run("tail", *words)
        run("doctor", *words)
        run("runs", "--agent", HOSTILE, *words)
        run("whatif", "--max-steps", "1", *words)
        run("whatif", "judged", "--max-steps", "9", "--max-tool-calls", "0", *words)
    for words in (["why", HOSTILE], ["run", HOSTILE, HOSTILE], ["runs", "--store", f"sqlite:///{HOSTILE}"], [HOSTILE]):
        run(*words)
    assert any("INJECTED" in each for each in said)
    # A command that is new has to stand here too.
    assert typed >= commands()
