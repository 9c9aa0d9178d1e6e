"""An agent that answers questions about files of this repository, by a tool that really reads them.

It is shaped to what a very small model does reliably: one tool, an argument that can only be one of the real files,
two worked examples, and a hook that asks for the tool first and for the answer afterwards.
"""

from pathlib import Path
from typing import Literal, get_args

from ledger import Ledger
from model import ModelKind, open_model
from steptrail import Agent, AgentBuilder, HookType, Message, ToolContext, ToolEffect, tool
from steptrail.hooks import CallableHook, HookState
from steptrail.messages import ToolCallPart
from steptrail.models import ModelRequest
from steptrail.testing import Reply, call

__all__ = ["FILES", "LIMIT", "ROOT", "FileTools", "endless_reader", "question", "reader"]

ROOT = Path(__file__).resolve().parents[2]

File = Literal[
    "CONTRIBUTING.md",
    "Makefile",
    "pyproject.toml",
    "domain/agent/evolve.py",
    "runtime/agent/performer.py",
    "interfaces/python/trail.py",
]
FILES: tuple[str, ...] = get_args(File)

LIMIT = 3
"""The steps of the reader that never comes to an answer."""


class FileTools:
    """Tools over the files. Methods are tools too: take them from an instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @tool(effect=ToolEffect.READ, timeout=5.0)
    def count_lines(self, file: File, context: ToolContext) -> int:
        """Count the lines of a file."""
        self._ledger.write("count_lines", context)
        return len((ROOT / file).read_text(encoding="utf-8").splitlines())


def question(file: str) -> str:
    """Return what is asked about a file."""
    return f"How many lines are in {file}?"


def look_first(state: HookState) -> HookState:
    """Ask for the tool in the first model call of an execution, and for the answer after it."""
    looked = any(step.has_tool_calls for step in state.steps)
    return state.with_request(tool_choice="none" if looked else "required")


def reader(kind: ModelKind, ledger: Ledger) -> Agent:
    """Return the agent that answers one question an execution."""
    return (
        _builder("reader", kind, ledger, [reply for file in FILES for reply in (_look(file), _tell)])
        .with_hook(HookType.BEFORE_INFERENCE, CallableHook(look_first))
        .with_max_steps(6)
        .build()
    )


def endless_reader(kind: ModelKind, ledger: Ledger) -> Agent:
    """Return the same without the hook and with nothing but tool calls allowed: only a limit ends it."""
    return (
        _builder("endless", kind, ledger, [_look(file) for file in FILES])
        .with_tool_choice("required", parallel=False)
        .with_max_steps(LIMIT)
        .build()
    )


def _builder(name: str, kind: ModelKind, ledger: Ledger, script: list[Reply]) -> AgentBuilder:
    return (
        AgentBuilder(name)
        .with_model(open_model(kind, script))
        .with_system_prompt("You answer questions about files.")
        .with_examples(*_example("LICENSE", 21), *_example(".gitignore", 18))
        .with_tools(FileTools(ledger).count_lines)
        .with_tool_choice("auto", parallel=False)
    )


def _example(file: str, lines: int) -> tuple[Message, ...]:
    asked = ToolCallPart(id=f"example-{file}", name="count_lines", arguments={"file": file})
    return (
        Message.user(question(file)),
        Message.assistant(tool_calls=(asked,)),
        Message.tool(asked.id, asked.name, str(lines)),
        Message.assistant(f"{file} has {lines} lines."),
    )


def _look(file: str) -> Reply:
    return call("count_lines", file=file)


def _tell(request: ModelRequest) -> str:
    """Say, as the script, what the tool returned."""
    asked = next(m.tool_calls[0] for m in reversed(request.messages) if m.tool_calls)
    found = next(part.text for part in request.messages[-1].parts if part.kind == "tool_result")
    return f"{(asked.arguments or {})['file']} has {found} lines."
