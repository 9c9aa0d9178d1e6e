"""The examples as processes, and what they left in their stores."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from steptrail import Steptrail
from steptrail.events import AgentEvent, Recorded, ToolExecutionStarted
from tests.harness.ready_python import ready_python

__all__ = ["EXAMPLES", "ROOT", "command_of", "environment", "events", "run", "run_example", "starts", "until"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

T = TypeVar("T")


def environment(**given: str) -> dict[str, str]:
    """Return the variables of an example's process: it finds the examples from any directory, and no provider."""
    # Nothing here may reach a provider, whatever the environment of the developer names.
    foreign = ("ANTHROPIC_", "OPENAI_", "STEPTRAIL_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = os.pathsep.join([str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])])
    return {**inherited, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **given}


def run(*command: str | Path, cwd: Path | None = None, **given: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments to its end."""
    return subprocess.run(
        [ready_python(), *map(str, command)], capture_output=True, text=True, cwd=cwd, env=environment(**given)
    )


def command_of(example: str, *arguments: str) -> list[str]:
    """Return the command that runs an example of a folder."""
    return [sys.executable, "-m", f"examples.{example}", *arguments]


def run_example(
    folder: Path, example: str, *arguments: str, exits: int = 0, **given: str
) -> "subprocess.CompletedProcess[str]":
    """Run an example of a folder from another directory."""
    done = run(*command_of(example, *arguments)[1:], cwd=folder, **given)
    assert done.returncode == exits, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def events(store: Path, session: str) -> Sequence[Recorded[AgentEvent]]:
    """Return what is stored of a session."""
    with Steptrail.open_sync(f"sqlite:///{store}") as trail:
        return trail.session(session).events()


def starts(records: Sequence[Recorded[AgentEvent]], tool: str) -> list[tuple[str, int]]:
    """Return effect id and attempt of each time that a tool was started."""
    made = [record.event for record in records if isinstance(record.event, ToolExecutionStarted)]
    return [(each.effect_id, each.attempt) for each in made if each.tool == tool]


def until(look: Callable[[], T], process: "subprocess.Popen[str] | None" = None) -> T:
    """Return what `look` returns once it is something. The time limit of the test ends a wait for what never comes."""
    while not (found := look()):
        assert process is None or process.poll() is None, "the process ended before"
        time.sleep(0.02)
    return found
