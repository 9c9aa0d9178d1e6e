"""Tools that really do things: one reads the disk, one writes to it, each declared as what it is.

    python examples/archive.py FOLDER

The model first asks for a folder that does not exist. It is shown the error, and because the error policy ignores
errors of tools, the run goes on and the second attempt succeeds. The copy is keyed: its name is made from the effect
id, so that a copy which is made again after a crash replaces itself. (The model is a script; the tools are real.)
"""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field

from steptrail import Agent, AgentBuilder, ErrorPolicy, Steptrail, ToolContext, ToolEffect, tool
from steptrail.testing import Reply, ScriptedModel, call

__all__ = ["Archive", "archivist"]


class Archive:
    """A folder and its archive, as tools: methods are tools too, taken from an instance."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @tool(effect=ToolEffect.READ, timeout=5.0)
    def largest(
        self,
        folder: Annotated[str, Field(description="below the one that is archived; `.` is that one itself")],
        count: Annotated[int, Field(ge=1, le=10)] = 3,
    ) -> list[dict[str, str | int]]:
        """List the largest files of a folder, with their size in bytes."""
        place = self._folder / folder
        files = sorted((path for path in place.iterdir() if path.is_file()), key=lambda path: -path.stat().st_size)
        return [{"file": path.name, "bytes": path.stat().st_size} for path in files[:count]]

    @tool(effect=ToolEffect.KEYED, timeout=30.0)
    async def copy(self, file: str, context: ToolContext) -> str:
        """Copy a file into the archive."""
        target = self._folder / "archive" / f"{context.effect_id.replace(':', '_')}-{file}"
        await asyncio.to_thread(shutil.copyfile, self._folder / file, target)
        return f"copied to {target.name}"


def archivist(folder: Path, largest: str) -> Agent:
    """Return the agent; `largest` is the file that the script asks to copy."""
    tools = Archive(folder)
    script: list[Reply] = [
        call("largest", folder="attic"),
        call("largest", folder=".", count=1),
        call("copy", file=largest),
        f"{largest} is archived.",
    ]
    return (
        AgentBuilder("archivist")
        .with_model(ScriptedModel(script))
        .with_tools(tools.largest, tools.copy)
        .with_error_policy(ErrorPolicy.ignore_tool_errors())
        .build()
    )


def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder; none where there is no folder."""
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


async def main(folder: Path) -> None:
    """Archive the largest file of `folder`."""
    largest = max(files_of(folder), key=lambda path: path.stat().st_size)
    archive = folder / "archive"
    archive.mkdir(exist_ok=True)
    async with Steptrail.open(f"sqlite:///{archive / 'runs.db'}") as trail:
        result = await trail.run(archivist(folder, largest.name), "Archive the largest file.", key="archive-1")
    for step in result.state.steps:
        for made in step.tool_executions:
            print(f"{made.name}: {made.status.value}: {made.error.message if made.error else made.result}")
    print(result.status.value, result.output)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not files_of(Path(sys.argv[1])):
        sys.exit("use: python examples/archive.py FOLDER, a folder with a file in it")
    asyncio.run(main(Path(sys.argv[1]).resolve()))
