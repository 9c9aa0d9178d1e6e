"""`flow check`, `flow schema` and `flow draw`: workflows as texts, and what became of one in a run."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steptrail.domain.base import full_form
from steptrail.domain.errors import ConfigurationError, InvalidWorkflow, stream_name
from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import prefix_of
from steptrail.interfaces.cli.exits import Exit, Refusal, writing
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import FORMS, Commands, a_new_file, store_of, use_option
from steptrail.interfaces.python.flow_files import (
    BroughtCode,
    InvalidFlowFile,
    is_flow_file,
    place_and_fault,
    text_of_file,
)
from steptrail.interfaces.python.flow_or_agent import is_flow
from steptrail.interfaces.python.loading import load_runnable, split_reference
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.kinds import KINDS

if TYPE_CHECKING:
    from steptrail.projections.flow_drawing import DrawnFlow
    from steptrail.runtime.agent.agent import AnyAgent
    from steptrail.runtime.flow.workflow import BuiltWorkflow


def register(commands: Commands) -> None:
    """Add the commands."""
    flow = commands.group("flow", "Check, describe or draw a workflow.")

    check = commands.add(
        "check",
        _check,
        "List what is wrong with the workflow FLOW: by line and column in a text, else by place in its definition.",
        exits="Exit codes: 0 nothing but warnings, 1 errors, 2 it cannot be read.",
        within=flow,
    )
    check.add_argument("flow", metavar="FLOW", help=FORMS)
    use_option(check)

    commands.add("schema", _schema, "Print the JSON schema of workflows in YAML or JSON.", within=flow)

    draw = commands.add("draw", _draw, "Draw the workflow in FILE, or what became of it in run ID.", within=flow)
    draw.add_argument("what", metavar="FILE|ID", help=f"{FORMS}; or the id of a run, which flow:ID always is")
    form = draw.add_mutually_exclusive_group()
    form.add_argument(
        "--mermaid", action="store_const", dest="form", const="mermaid", help="in the language of Mermaid"
    )
    form.add_argument("--svg", action="store_const", dest="form", const="svg", help="as a picture")
    draw.add_argument("-o", "--out", metavar="FILE", type=a_new_file, help="where to (default: the standard output)")


def _check(arguments: argparse.Namespace, output: Output) -> int:
    file: str = arguments.flow
    is_text = is_flow_file(file)
    found = _found_in_text(file, arguments.use) if is_text else asyncio.run(_found_in_code(file, arguments.use))
    if output.as_json:
        output.data({"file": file, "diagnostics": [full_form(each) for each in found]})
    else:
        output.lines([place_and_fault(file, each) for each in found] or [f"{file}: nothing is wrong"])
    if is_text and not arguments.use:
        output.note("steptrail: the text alone was checked: --use FILE.py checks how it fits the code")
    return Exit.FAILED if any(each.severity == "error" for each in found) else Exit.OK


def _found_in_text(file: str, use: Sequence[str]) -> Sequence[Diagnostic]:
    from steptrail.infrastructure.flow.loading import check_flow

    return check_flow(text_of_file(file), BroughtCode(use) if use else None)


async def _found_in_code(reference: str, use: Sequence[str]) -> Sequence[Diagnostic]:
    try:
        async with load_runnable(reference, BroughtCode(use)) as given:
            return _a_flow(given, reference, "checked").warnings
    except ConfigurationError as error:
        if isinstance(error.__cause__, InvalidWorkflow):
            return error.__cause__.diagnostics
        raise


def _a_flow(given: "AnyAgent | BuiltWorkflow", reference: str, becomes: str) -> "BuiltWorkflow":
    if not is_flow(given):
        raise Refusal(f"{reference} is an agent, and only workflows are {becomes}: name one, as FILE.py:NAME")
    return given


def _schema(arguments: argparse.Namespace, output: Output) -> None:
    from steptrail.infrastructure.flow.loading import flow_schema

    del arguments
    output.data(flow_schema())


def _draw(arguments: argparse.Namespace, output: Output) -> None:
    form: str | None = arguments.form
    out: Path | None = arguments.out
    if output.as_json and (form is not None or out is not None):
        raise Refusal(f"--json prints the data: leave out {'--out' if form is None else f'--{form}'}")
    head, drawn, of_the_run = asyncio.run(_drawn(arguments))
    if output.as_json:
        output.data({**drawn.to_dict(), **of_the_run})
        return
    match form:
        case "mermaid":
            text = drawn.mermaid()
        case "svg":
            text = drawn.svg()
        case _:
            text = f"{one_line(head)}\n\n{drawn.text()}"
    if out is None:
        output.text(text.rstrip("\n"))
        return
    with writing(out):
        out.write_text(text, encoding="utf-8")
    output.line(f"wrote {out}")


async def _drawn(arguments: argparse.Namespace) -> "tuple[str, DrawnFlow, dict[str, JsonValue]]":
    """Return what to draw, after the words above it and what else its JSON says."""
    from steptrail.projections.flow_graph import drawn_flow

    what: str = arguments.what
    if is_flow_file(what):
        from steptrail.infrastructure.flow.loading import written_flow

        try:
            definition = written_flow(text_of_file(what))
        except InvalidWorkflow as error:
            raise InvalidFlowFile(what, error) from None
        return definition.name, drawn_flow(definition), {}
    if _is_code(what):
        async with load_runnable(what) as given:
            built = _a_flow(given, what, "drawn")
            return built.name, drawn_flow(built.definition), {}
    async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
        handle = await trail.find_any(what)
        if not handle.stream_id.startswith(FLOWS):
            raise Refusal(f"{stream_name(handle.stream_id)} is the session of an agent: only workflows are drawn")
        flow = trail.flow(handle.id)
        state, drawn = await flow.state(), await flow.draw()
        head = f"{stream_name(flow.stream_id)}, {drawn.name}: {state.status.value}"
        return head, drawn, {"flowId": flow.id, "executionId": state.execution_id, "status": state.status.value}


def _is_code(what: str) -> bool:
    """Tell whether a text names a file or a module of Python, and not a run."""
    if prefix_of(what) in KINDS:
        return False
    return "/" in what or "\\" in what or ":" in what or split_reference(what)[0].endswith(".py")
