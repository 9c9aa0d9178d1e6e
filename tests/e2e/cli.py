"""The command line in real processes, in a folder of its own with a file of agents."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from steptrail.interfaces.cli.main import main
from tests.harness.ready_python import KILL, ready_python
from tests.harness.worker_pool import WorkerPool
from tests.unit.cli.command import Typed

AGENTS = """
import asyncio
import os
from pathlib import Path

from steptrail import AgentBuilder, ErrorPolicy, Limits, OnUnknown, ToolEffect, tool
from steptrail.messages import CitationPart, TextPart
from steptrail.models import FinishReason, ModelReply, PriceTable, Usage
from steptrail.testing import ScriptedModel, call, calls
from steptrail.tools import ApprovalRule, SubagentTool


def note(word: str) -> None:
    with Path("ledger").open("a") as ledger:
        ledger.write(word + "\\n")


@tool(effect=ToolEffect.READ)
def first() -> str:
    note("first")
    return "one"


@tool(effect=ToolEffect.READ, concurrent=False)
async def gated() -> str:
    note("gated")
    while not Path(os.environ.get("GATE", "open")).exists():
        await asyncio.sleep(0.01)
    return "two"


@tool(effect=ToolEffect.READ)
def third() -> str:
    note("third")
    return "three"


@tool(timeout=0.05, on_unknown=OnUnknown.PARK)
async def wire(amount: int) -> str:
    await asyncio.sleep(60)
    return "sent"


@tool(approval=ApprovalRule(reason="moves money"))
def pay(cents: int) -> str:
    note(f"paid-{cents}")
    return f"paid {cents}"


def scripted(name, *script, delay=0.0):
    model = ScriptedModel(script, delay=delay)
    return AgentBuilder(name).with_model(model).with_tools(first, gated, third, wire, pay)


agent = scripted("greeter", call("first"), "hello", "hello again").build()
failing = scripted("failing", RuntimeError("the model is\\ngone"))
limited = scripted("limited", call("first"), "never said").with_max_steps(1)
prices = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
priced = (
    scripted("priced", call("first"), call("first"), "never said")
    .with_max_cost("0.00004", prices=prices)
    .with_max_tokens(15, shadow=True)
)
steps = scripted("steps", calls(("first", {}), ("gated", {}), ("third", {})), "all three")
slow = scripted("slow", "at last", delay=60.0).with_limits(Limits(stop_grace=0.0))
source = CitationPart(uri="https://tea.example/late", title="Late\\x1b[31m tea", quote="It is late.", provider="p")
said = (TextPart(text="Tea is late."), source, source)
cited = ModelReply(parts=said, finish_reason=FinishReason.STOP, usage=Usage())
citing = scripted("citing", cited)
parked = scripted("parked", call("wire", amount=5), "wired")
asking = scripted("asking", call("pay", cents=900), "All settled.")
flaky = scripted("flaky", TimeoutError("too slow"), "second try").with_error_policy(ErrorPolicy.retry_all(2))
noisy = scripted("noisy", "\\x1b[2Jwiped")
desk = scripted("desk", call("greeter", prompt="greet"), "greeted").with_tools(SubagentTool(agent))
sales = scripted("sales", call("asking", prompt="pay"), "paid").with_tools(SubagentTool(asking.build()))
number = 7
"""


def carried_out(folder: str, words: Sequence[str], environment: Mapping[str, str]) -> Typed:
    """Carry out a command in this process, which has no other work, and return its end. Called in a worker."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with TemporaryFile() as out, TemporaryFile() as err:
        for file, stream in ((out, sys.stdout), (err, sys.stderr)):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
        try:
            code = int(main(words))
        except SystemExit as end:
            code = int(end.code or 0)
        texts = list[str]()
        for file, stream in ((out, sys.stdout), (err, sys.stderr)):
            stream.flush()
            file.seek(0)
            texts.append(file.read().decode())
        return Typed(code, *texts)


class Cli:
    """Runs `steptrail` in `folder`, on its own store there or on `store`.

    A command that is carried out to its end has a process of its own that was forked by `pool`, where all is imported
    already. What `start` returns stands for one that was forked too; it is killed at the end, if it still runs.
    """

    def __init__(self, folder: Path, pool: WorkerPool, store: str | None = None) -> None:
        self.folder, self.pool = folder, pool
        self._variables = {} if store is None else {"STEPTRAIL_STORE": store}
        (folder / "agents.py").write_text(AGENTS, encoding="utf-8")
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *words: str, **variables: str) -> Typed:
        return self.pool.run(carried_out, str(self.folder), words, _environment(self._variables | variables)).answer()

    def start(self, *words: str, **variables: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [ready_python(), "-m", "steptrail", *words],
            cwd=self.folder,
            env=_environment(self._variables | variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def on_a_terminal(self, *words: str) -> list[str]:
        """Return the lines that a terminal shows of a command that ends with code 0."""
        mine, its = pty.openpty()
        # A Python that was started for it: one that was forked has no terminal of its own.
        command, environment = [sys.executable, "-m", "steptrail", *words], _environment(self._variables)
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=its, stdout=its, stderr=its)
        os.close(its)
        seen = b""
        # The other end is closed when the process is gone, which is an error on Linux and an end elsewhere.
        with open(mine, "rb", buffering=0) as terminal, suppress(OSError):
            while piece := terminal.read(4096):
                seen += piece
        assert process.wait() == 0, seen
        return seen.decode().replace("\r\n", "\n").splitlines()

    @property
    def ledger(self) -> list[str]:
        ledger = self.folder / "ledger"
        return ledger.read_text(encoding="utf-8").split() if ledger.exists() else []

    @property
    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if "__pycache__" not in path.parts
        }

    def close(self) -> None:
        for process in self._started:
            process.send_signal(KILL)
            process.communicate()


def until(process: "subprocess.Popen[str]", text: str) -> list[str]:
    """Read the output up to the line that holds `text`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came: {lines}, {process.stderr and process.stderr.read()}")


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "STEPTRAIL_STORE"}
    return {**kept, **variables}
