"""A program begins runs, and the command line goes on with them from the same file: that is no other code."""

import subprocess
import sys

import pytest

from tests.e2e.cli import Cli

PROGRAM = """
import asyncio
import multiprocessing
import sys

from steptrail import AgentBuilder, HookType, Steptrail, tool
from steptrail.hooks import CallableHook
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Workflow


class Away(Exception):
    pass


@tool(approval=True, retry=2, retry_on=(Away,))
def pay():
    return "paid"




def look(state):
    return state


def is_paid(seen):
    return seen.get("paid") == "paid"


model = ScriptedModel([call("pay"), "Done."])
agent = AgentBuilder("clerk").with_model(model).with_tools(pay).with_hook(HookType.STOP, CallableHook(look)).build()
flow = Workflow("till").tool("pay", pay, output="paid").gate("paid", when=is_paid).chain("pay", "paid").build()


async def main():
    async with Steptrail.open("sqlite:///steptrail.db") as trail:
        await trail.run(agent, "Pay.", session="a")
        await trail.run(flow, session="f")


def begin():
    asyncio.run(main())


if __name__ == "__main__" and "spawn" in sys.argv:
    process = multiprocessing.get_context("spawn").Process(target=begin)
    process.start()
    process.join()
elif __name__ == "__main__":
    begin()
"""


@pytest.mark.parametrize("command", [["app.py"], ["-m", "app"], ["-c", "import app; app.begin()"], ["app.py", "spawn"]])
def test_what_a_program_has_begun_is_of_the_same_code_on_the_command_line(cli: Cli, command: list[str]) -> None:
    (cli.folder / "app.py").write_text(PROGRAM, encoding="utf-8")
    subprocess.run([sys.executable, *command], cwd=cli.folder, check=True, timeout=600)
    for what, run, asked in (("app.py:agent", "a", "a:1:1:0"), ("app.py:flow", "flow:f", "f:1:pay:1")):
        assert cli("approve", run, asked, "--by", "ana").code == 0
        resumed = cli("resume", what, run, "--strict")
        assert (resumed.code, resumed.err) == (0, "")
        assert "changed" not in resumed.out
