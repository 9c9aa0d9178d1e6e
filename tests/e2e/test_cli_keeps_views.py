"""`work` and `inspect` count what is stored as they go, so that a dashboard that only reads is as new as the log."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import QueryRefused
from steptrail.testing import ScriptedModel
from tests.examples.running import ROOT, environment

FILE = """
from steptrail import AgentBuilder
from steptrail.testing import ScriptedModel

agent = AgentBuilder("desk").with_model(ScriptedModel([lambda request: "Yes."])).build()
"""


@contextmanager
def running(*words: str) -> Generator[None]:
    command = [sys.executable, "-m", "steptrail", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdout=pipe, stderr=pipe) as process:
        try:
            yield
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("command", ["work", "inspect"])
async def test_what_is_stored_is_counted_without_a_question(tmp_path: Path, store_url: str, command: str) -> None:
    (tmp_path / "desk.py").write_text(FILE, encoding="utf-8")
    async with Steptrail.open(store_url) as trail:
        await trail.run(AgentBuilder("desk").with_model(ScriptedModel(["Yes."])).build(), "Hi", session="a")
        with running(command, *([f"{tmp_path / 'desk.py'}:agent"] if command == "work" else []), "--store", store_url):
            async with asyncio.timeout(60):
                while await counted(trail) != [("agent:a", "completed")]:
                    await asyncio.sleep(0.05)


async def counted(trail: Steptrail) -> object:
    try:
        answer = await trail.views.sql("SELECT stream, status FROM executions", fresh=None)
    except QueryRefused:  # nothing is published yet
        return None
    return answer.rows
