"""A command that is asked to end by a signal."""

import asyncio
import logging
import signal
import threading
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from steptrail.interfaces.cli.ending import endings, when_asked_to_end
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.main import main
from tests.harness.worker_pool import WorkerPool


def held_up() -> None:
    """Be asked to end, and never return. Called in a worker."""

    async def at_work() -> None:
        when_asked_to_end(lambda: None, endings(), patience=0.01)
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait()

    logging.disable()
    asyncio.run(at_work())


def heard() -> str:
    """Be asked to end, and do so. Called in a worker."""

    async def at_work() -> str:
        ending = asyncio.Event()
        when_asked_to_end(ending.set, endings())
        signal.raise_signal(signal.SIGHUP)
        await ending.wait()
        return "heard"

    return asyncio.run(at_work())


LEAVES_A_HELPER = """
import asyncio
import threading
from pathlib import Path
from steptrail import AgentBuilder, ErrorPolicy, tool
from steptrail.testing import ScriptedModel, call

@tool(timeout=0.05)
async def ask() -> None:
    \"\"\"Ask a server that does not answer.\"\"\"
    await asyncio.to_thread(threading.Event().wait)

@tool
def move() -> None:
    \"\"\"Move the store away.\"\"\"
    Path(__file__).with_name("runs.db").rename(Path(__file__).with_name("moved.db"))

agent = AgentBuilder("a").with_model(ScriptedModel([call("ask"), call("move")])).with_tools(ask, move)
agent = agent.with_error_policy(ErrorPolicy.ignore_tool_errors())
"""


def carried_out(*words: str) -> None:
    """Carry out a command. Called in a worker."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        main(words)


@pytest.mark.parametrize(("steps", "code"), [(1, Exit.LIMITED), (2, Exit.REFUSED)])
def test_given_a_tool_that_left_a_helper_of_the_loop_then_the_command_ends_without_it(
    steps: int, code: Exit, pool: WorkerPool, tmp_path: Path
) -> None:
    """Also a command that comes to no result: in the second step its store is moved away."""
    (tmp_path / "bot.py").write_text(f"{LEAVES_A_HELPER}agent = agent.with_max_steps({steps}).build()")
    given = (str(tmp_path / "bot.py"), "--store", f"sqlite:///{tmp_path / 'runs.db'}")
    assert pool.start(carried_out, "run", *given, "Go.").end().code == code


def test_given_code_that_never_gives_the_loop_back_then_the_process_ends_without_it(pool: WorkerPool) -> None:
    assert pool.start(held_up).end().code == 128 + signal.SIGTERM


def test_given_a_loop_that_hears_the_signal_then_it_ends_as_it_likes(pool: WorkerPool) -> None:
    assert pool.run(heard).answer() == "heard"


def test_given_a_command_that_is_to_outlive_its_terminal_then_the_end_of_that_does_not_end_it() -> None:
    assert endings() == [signal.SIGTERM, signal.SIGHUP]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        assert endings() == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)
