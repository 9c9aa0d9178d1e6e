"""A trail that was open before a fork: the child is told so, ends its blocks, and leaves what is the parent's alone."""

import subprocess
import sys
from pathlib import Path

import pytest

_BEGIN = """
import asyncio, faulthandler, gc, multiprocessing, os, signal, sqlite3, sys, threading, traceback
from steptrail import AgentBuilder, Steptrail
from steptrail.errors import StoreUnavailable
from steptrail.testing import ScriptedModel

URL = sys.argv[1]

def agent(replies=1):
    return AgentBuilder("a").with_model(ScriptedModel(["done"] * replies)).build()

def in_child(work):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        try:
            work()
            print("child ended", flush=True)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def refused(call):
    try:
        call()
    except StoreUnavailable as error:
        assert "before this process was forked" in str(error), error
        assert "open it again" in str(error), error
        print("refused", flush=True)
"""

BLOCKING = """
with Steptrail.open_sync(URL) as trail:
    trail.run(agent(), "Go.", session="s")
    following = trail.session("s").follow(forever=True)
    next(following)

    def child():
        refused(trail.session("s").state)
        refused(lambda: trail.run(agent(), "Go.", session="t"))
        refused(trail.runs)
        refused(lambda: next(following))
        following.close()
        with trail:
            pass
        trail.close()
        with Steptrail.open_sync(URL) as mine:
            assert mine.session("s").state().status == "completed"

    in_child(child)
    assert trail.run(agent(), "Go.", session="u").status == "completed"
    assert [row.session_id for row in trail.runs()] == ["u", "s"]
"""

ASYNC = """
async def in_the_child(trail, open_blocks):
    asked = (trail.session("s").state(), trail.run(agent(), "Go.", session="t"), trail.runs(), trail.views.status())
    for work in asked:
        try:
            await work
        except StoreUnavailable as error:
            assert "before this process was forked" in str(error), error
            print("refused", flush=True)
    for block in open_blocks:
        await block.__aexit__(None, None, None)
    async with trail:
        pass
    print("child ended", flush=True)

async def main():
    async with Steptrail.open(URL) as trail, trail.subscribe() as entries, trail.follower("f") as follower:
        await trail.run(agent(), "Go.", session="s")
        await trail.views.status()
        await anext(entries)
        following = trail.session("s").follow(forever=True)
        await anext(following)
        pid = os.fork()
        if pid == 0:
            try:
                faulthandler.dump_traceback_later(30, exit=True)
                await in_the_child(trail, (follower, entries, following))
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (await trail.run(agent(), "Go.", session="u")).status == "completed"
        assert [row.session_id for row in await trail.runs()] == ["u", "s"]

asyncio.run(main())
"""

POOL = """
trail = Steptrail.open_sync(URL)
trail.run(agent(), "Go.", session="s")

def work(number):
    faulthandler.dump_traceback_later(30, exit=True)
    try:
        trail.run(agent(), "Go.", session=f"child-{number}")
    except StoreUnavailable as error:
        assert "before this process was forked" in str(error), error
    with trail:
        return "refused"

with multiprocessing.get_context("fork").Pool(2) as pool:
    for said in pool.map(work, range(4)):
        print(said)
assert trail.run(agent(), "Go.", session="u").status == "completed"
trail.close()
"""

# Each child frees all that it inherited, as Python does when a program ends, in the middle of a commit of the parent.
IN_THE_MIDDLE = """
trail = Steptrail.open_sync(URL)
over = threading.Event()

def write():
    for number in range(10_000):
        trail.run(agent(), "Go." * 9_000, session=f"w{number}")
        if over.is_set():
            return

writing = threading.Thread(target=write)
writing.start()
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        del trail
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
over.set()
writing.join()
assert all(row.status == "completed" for row in trail.runs())
assert all(trail.session(row.session_id).state().status == "completed" for row in trail.runs())
trail.close()
with sqlite3.connect(URL.removeprefix("sqlite:///")) as database:
    print(database.execute("PRAGMA integrity_check").fetchone()[0])
"""


# A lock of SQLite's that a reading thread held at the fork would never be free in the child.
BESIDE_READERS = """
trail = Steptrail.open_sync(URL)
trail.run(agent(), "Go.", session="s")
over = threading.Event()

def read():
    while not over.is_set():
        with Steptrail.open_sync(URL) as mine:
            for _ in range(10):
                mine.session("s").state()

reading = [threading.Thread(target=read, daemon=True) for _ in range(2)]
for thread in reading:
    thread.start()
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        with sqlite3.connect(URL.removeprefix("sqlite:///")) as database:
            database.execute("SELECT count(*) FROM streams").fetchone()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
over.set()
for thread in reading:
    thread.join()
trail.close()
print("ok")
"""

TOOLS_OF_A_SERVER = """
from pathlib import Path
from steptrail.testing import call
from steptrail.tools.mcp import McpServer

def clerk(server):
    model = ScriptedModel([call("stock", item="tea"), "done"])
    return AgentBuilder("clerk").with_model(model).with_tools(*server.tools).build()

def in_the_child(server, block_is_left):
    with Steptrail.open_sync(URL) as mine:
        (step, *_) = mine.run(clerk(server), "Go.", session="child").state.steps
    print(step.tool_executions[0].error, flush=True)
    block_is_left()
    with server, Steptrail.open_sync(URL) as mine:
        print(mine.run(clerk(server), "Go.", session="entered").state.steps[0].tool_executions[0].result, flush=True)

FOLDER = Path(URL.removeprefix("sqlite:///")).parent
with McpServer.stdio(sys.executable, ["tests/integration/mcp/shop_server.py", str(FOLDER)], name="shop") as server:
    in_child(lambda: in_the_child(server, lambda: server.__exit__(None, None, None)))
    with Steptrail.open_sync(URL) as trail:
        print(trail.run(clerk(server), "Go.", session="parent").state.steps[0].tool_executions[0].result)
"""

# As Windows and browsers have it.
WITHOUT_FORK = """
import os
del os.fork, os.register_at_fork
from steptrail import AgentBuilder, Steptrail
from steptrail.testing import ScriptedModel

with Steptrail.open_sync("sqlite:///:memory:") as trail:
    print(trail.run(AgentBuilder("a").with_model(ScriptedModel(["done"])).build(), "Go.").output)
"""


def output_of(script: str, folder: Path) -> list[str]:
    # No -W error: newer Pythons warn of every fork beside threads.
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script, f"sqlite:///{folder / 'runs.db'}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(("script", "refusals"), [(BLOCKING, 4), (ASYNC, 4)], ids=["blocking", "async"])
def test_the_child_is_told_and_its_blocks_end(script: str, refusals: int, tmp_path: Path) -> None:
    assert output_of(script, tmp_path) == ["refused"] * refusals + ["child ended"]


def test_the_workers_of_a_pool_are_told_and_their_blocks_end(tmp_path: Path) -> None:
    assert output_of(POOL, tmp_path) == ["refused"] * 4


def test_children_that_are_forked_in_the_middle_of_a_commit_damage_nothing(tmp_path: Path) -> None:
    assert output_of(IN_THE_MIDDLE, tmp_path) == ["ok"]


def test_children_that_are_forked_beside_readers_can_use_sqlite(tmp_path: Path) -> None:
    assert output_of(BESIDE_READERS, tmp_path) == ["ok"]


def test_the_child_is_told_of_the_tools_of_a_server_and_leaves_that_to_the_parent(tmp_path: Path) -> None:
    """A call in the child waited for ever, for the loop that had entered the server."""
    assert output_of(TOOLS_OF_A_SERVER, tmp_path) == [
        "McpServerUnavailable: the MCP server 'shop' was entered before this process was forked: "
        "enter it again in the child",
        "{'tea': 3}",
        "child ended",
        "{'tea': 3}",
    ]


def test_a_system_that_cannot_fork_runs_agents_too(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FORK], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
