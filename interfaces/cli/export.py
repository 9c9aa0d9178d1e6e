"""`export`: a session as a file that can be read, shared and replayed, as a test that replays it, or as spans."""

import argparse
from functools import partial
from pathlib import Path

from steptrail.domain.agent.events import ExecutionStarted
from steptrail.domain.agent.ids import STREAM_PREFIX as AGENTS
from steptrail.domain.errors import stream_name
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Refusal, writing
from steptrail.interfaces.cli.exporting_spans import add_span_options, spans_exported
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, a_new_file, key, prefix, repeated
from steptrail.interfaces.cli.written_test import module_name, written_test
from steptrail.interfaces.python.loading import load_agent
from steptrail.interfaces.python.recording import FlowRecording, Recording, save_lines
from steptrail.interfaces.python.redaction import redact, redact_flow
from steptrail.interfaces.python.trail import Steptrail

_WARNING = (
    "steptrail: it holds what the run held: prompts, answers, arguments and results. Look at it before you share it; "
    "`--redact KEY` takes values of tools out"
)


def register(commands: Commands) -> None:
    """Add the command."""
    export = commands.add("export", _export, "Write session or run ID as JSON lines or as a test, or send spans.")
    export.add_argument("id", metavar="ID", type=prefix, nargs="?")
    export.add_argument("--out", metavar="FILE", type=a_new_file, help="where to (default: the standard output)")
    redacts = "take out the values of this key in arguments and results of tools, or in runs"
    repeated(export, "--redact", "KEY", redacts, read=key)
    export.add_argument(
        "--as-test",
        action="store_true",
        help="write a test, and the session beside it (default: tests/test_ID.py)",
    )
    export.add_argument("--agent", metavar="AGENT", help="the agent that the test runs")
    add_span_options(export)


def _export(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.otlp is not None:
        return spans_exported(arguments, output)
    if arguments.id is None:
        raise Refusal("ID is missing: only --otlp exports all")
    if arguments.follow or arguments.no_steps or arguments.content or arguments.flavour or arguments.trace_per != "run":
        raise Refusal("--follow, --no-steps, --content, --flavour and --trace-per are for spans: add --otlp")
    if arguments.agent is not None and not arguments.as_test:
        raise Refusal("--agent is for a test: add --as-test")
    recording = in_store(arguments, partial(_read, arguments))
    out: Path | None = arguments.out
    if arguments.as_test:
        if not isinstance(recording, Recording):
            raise Refusal(f"flow:{recording.flow} is a run of a workflow: only sessions of agents become tests")
        return _as_test(arguments, recording, output)
    if out is None:
        for line in recording.lines():
            output.json_text(line.decode().rstrip("\n"))
        return
    with writing(out):
        save_lines(out, recording.lines())
    _told(output, [out], recording)


async def _read(arguments: argparse.Namespace, trail: Steptrail) -> Recording | FlowRecording:
    handle = await trail.find_any(arguments.id)
    records, stream = await handle.history(), handle.stream_id
    if stream.startswith(FLOWS):
        name = (await handle.state()).name
        return redact_flow(FlowRecording(handle.id, name, records), arguments.redact)
    if stream.startswith(AGENTS):
        return redact(Recording(handle.id, records), arguments.redact)
    raise Refusal(f"{stream_name(stream)} is of a kind that cannot be exported")


def _as_test(arguments: argparse.Namespace, recording: Recording, output: Output) -> None:
    if arguments.agent is None:
        started = (event for event in recording.events if isinstance(event, ExecutionStarted))
        recorded = next((event.agent.locator for event in started if event.agent.locator), None)
        hint = f" (it was recorded with {recorded})" if recorded else ""
        raise Refusal(f"--as-test needs --agent AGENT, because what is stored does not choose which code runs{hint}")
    load_agent(arguments.agent)
    test = arguments.out or Path("tests", f"test_{module_name(recording.session)}.py")
    if test.suffix != ".py":
        raise Refusal(f"{test} is no test file: --out takes FILE.py with --as-test")
    if test.exists():
        raise Refusal(f"{test} is there already, and may have been edited: remove it, or choose another --out")
    beside = test.with_suffix(".jsonl")
    with writing(beside):
        recording.save(beside)
    with writing(test):
        save_lines(test, [written_test(recording, test, beside, arguments.agent).encode()])
    _told(output, [test, beside], recording)


def _told(output: Output, files: list[Path], recording: Recording | FlowRecording) -> None:
    if output.as_json:
        who = {"session": recording.session} if isinstance(recording, Recording) else {"flow": recording.flow}
        output.data({**who, "events": len(recording.records), "files": [str(f) for f in files]})
    else:
        for file in files:
            output.line(f"wrote {file}")
    output.note(_WARNING)
