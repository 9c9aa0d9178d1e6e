"""What the examples share: which model speaks, and what the end of a run is to a shell.

Without `--model` a script speaks, so that every example runs anywhere, and the output says that it does.
"""

import argparse
import asyncio
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import NoReturn

from steptrail import RunResult, SteptrailError
from steptrail.errors import SessionBusy
from steptrail.messages import ToolResultPart
from steptrail.models import AnthropicModel, ModelDriver, ModelRequest, OpenAIModel
from steptrail.testing import Reply, ScriptedModel

__all__ = [
    "add_model_option",
    "choose_model",
    "exit_code",
    "finish",
    "folder",
    "port",
    "seconds",
    "tool_results",
    "who_speaks",
]


def folder(text: str) -> Path:
    """Read the option that names a folder, which may still have to be made."""
    place = Path(text)
    if (found := next(each for each in (place, *place.absolute().parents) if each.exists())) and not found.is_dir():
        raise argparse.ArgumentTypeError(f"{found} is a file, not a folder")
    return place


def port(text: str) -> int:
    """Read the option that names a port; 0 is a free one."""
    if not 0 <= (number := int(text)) <= 65_535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text}")
    return number


def seconds(text: str) -> float:
    """Read the option that says how long something takes."""
    if not 0 <= (number := float(text)) <= 86_400:
        raise argparse.ArgumentTypeError(f"this is a number of seconds, up to a day, not {text}")
    return number


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """Add `--model`."""
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a real model, such as gpt-5-mini (OPENAI_API_KEY, OPENAI_BASE_URL) or claude-sonnet-4-5 "
        "(ANTHROPIC_API_KEY); without it a script speaks and no key is needed",
    )


def choose_model(name: str | None, script: Sequence[Reply]) -> ModelDriver:
    """Return the model of that name, or one that speaks the script."""
    if name is None:
        return ScriptedModel(script)
    return AnthropicModel(name) if name.startswith("claude") else OpenAIModel(name)


def who_speaks(name: str | None) -> str:
    """Say in one line which model it is."""
    return f"model: {name}" if name else "model: a script, not a model; `--model gpt-5-mini` asks a real one"


def tool_results(request: ModelRequest, tool: str) -> list[str]:
    """Return what a tool has said in the conversation so far, for a script that speaks of it."""
    parts = [part for message in request.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, ToolResultPart) and part.name == tool]


def exit_code(result: RunResult) -> int:
    """Return what `steptrail run` would: 0 answered, 1 failed, 3 stopped by a limit or a guard, 4 not over yet."""
    if result.state.is_open:
        return 4
    if result.status == "failed":
        return 1
    return 0 if result.answered or result.stop_reason == "completed" else 3


def finish(main: Coroutine[object, object, int]) -> NoReturn:
    """Run an example, and end with its exit code: what cannot be done is one line, and 5 if another process runs it."""
    try:
        sys.exit(asyncio.run(main))
    except KeyboardInterrupt:
        said, code = "interrupted; the same command goes on", 4
    except (SteptrailError, OSError) as error:
        said, code = str(error), 5 if isinstance(error, SessionBusy) else 2
    print(said, file=sys.stderr)
    sys.exit(code)
