"""The thread behind a blocking trail: what ends a program reaches the caller, and a trail that is dropped ends it."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, HookType, Steptrail, tool
from steptrail.continuation import CallableCriterion
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.state import AgentState
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.hooks import CallableHook
from steptrail.testing import Reply, ScriptedModel, call

Ending = Callable[[], None]

_HOLDS_A_BLOCK = """
def rows():
    with Steptrail.open_sync(URL) as trail, trail.subscribe("now") as entries:
        yield trail.runs()
        yield from entries

held = rows()
next(held)
"""
_CLOSES_LATE = """
class Service:
    def __init__(self):
        self.trail = Steptrail.open_sync(URL)
        self.trail.runs()

    def __del__(self):
        try:
            self.trail.runs()
        except StoreUnavailable as error:
            print(error)
        self.trail.close()

service = Service()
"""
_CLOSES_LATE_IN_A_LOOP = """
class Service:
    def __init__(self):
        self.trail = Steptrail.open(URL)
        asyncio.run(self.trail.runs())

    def __del__(self):
        asyncio.run(self.trail.close())

service = Service()
"""

_IS_CLOSED_AT_EXIT = """
import atexit
from steptrail import AgentBuilder, Steptrail
from steptrail.telemetry import Telemetry
from steptrail.testing import ScriptedModel

class Processor:
    def on_end(self, span): pass
    def shutdown(self): print("the spans are sent")

trail = Steptrail.open_sync(URL, telemetry=Telemetry(processor=Processor()))
atexit.register(print, "all is closed")
atexit.register(trail.close)
trail.run(AgentBuilder("a").with_model(ScriptedModel(["done"])).build(), "Go.", session="s")
assert trail.views.stats().total.runs == 1
"""
_IS_CLOSED_BY_WHAT_WAS_SAID_BEFORE = """
import atexit
held = []
atexit.register(print, "all is closed")
atexit.register(lambda: [trail.close() for trail in held])

from steptrail import AgentBuilder, Steptrail
from steptrail.testing import ScriptedModel

held.append(Steptrail.open_sync(URL))
held[0].run(AgentBuilder("a").with_model(ScriptedModel(["done"])).build(), "Go.", session="s")
"""
_IS_CLOSED_AT_EXIT_UNUSED = """
import atexit
from steptrail import Steptrail

trail = Steptrail.open_sync(URL)
atexit.register(print, "all is closed")
atexit.register(trail.close)
"""
_WORKS_TO_ITS_END = """
import threading
from steptrail import AgentBuilder, Steptrail, tool
from steptrail.testing import ScriptedModel, call

@tool
def stock() -> int:
    \"\"\"Count what is left.\"\"\"
    return 3

def agent():
    return AgentBuilder("a").with_model(ScriptedModel([call("stock"), "done"])).with_tools(stock).build()

def work():
    is_ending.wait()
    result = trail.run(agent(), "Go.", session="last")
    print(result.output, result.state.steps[0].tool_executions[0].result)
    trail.close()

is_ending = threading.Event()
trail = Steptrail.open_sync(URL)
trail.run(agent(), "Go.", session="first")
"""
_IN_A_THREAD = f"""{_WORKS_TO_ITS_END}
threading.Thread(target=work).start()
threading._register_atexit(is_ending.set)
"""
_IN_A_POOL = f"""{_WORKS_TO_ITS_END}
from concurrent.futures import ThreadPoolExecutor
ThreadPoolExecutor().submit(work)
threading._register_atexit(is_ending.set)
"""
_ASKS_ITS_HELPERS = f"import asyncio\n{_IN_A_THREAD}".replace("def stock", "async def stock").replace(
    "return 3",
    "await asyncio.get_running_loop().getaddrinfo('localhost', 80)\n    return await asyncio.to_thread(len, 'tea')",
)
_AS_PYTHON_3_12 = """
import threading
really = threading.Thread.start

def start(thread):
    if threading._SHUTTING_DOWN:
        raise RuntimeError("can't create new thread at interpreter shutdown")
    really(thread)

threading.Thread.start = start
"""


def leave() -> None:
    sys.exit(3)


def interrupt() -> None:
    raise KeyboardInterrupt


def builder(*replies: Reply) -> AgentBuilder:
    return AgentBuilder("a").with_model(ScriptedModel(list(replies) or ["done"]))


def from_a_hook(end: Ending) -> tuple[Agent, None]:
    def hook(state: HookState) -> HookState:
        end()
        return state

    return builder().with_hook(HookType.AFTER_STEP, CallableHook(hook)).build(), None


def from_a_criterion(end: Ending) -> tuple[Agent, None]:
    def votes(state: object) -> bool:
        end()
        return True

    return builder().with_criteria(CallableCriterion(votes)).build(), None


def from_a_driver(end: Ending) -> tuple[Agent, None]:
    def replies(request: ModelRequest) -> str:
        end()
        return "done"

    return builder(replies).build(), None


def from_a_listener(end: Ending) -> tuple[Agent, Callable[[Sequence[Recorded[AgentEvent]]], None]]:
    def told(records: Sequence[Recorded[AgentEvent]]) -> None:
        end()

    return builder().build(), told


@pytest.mark.parametrize("where", [from_a_hook, from_a_criterion, from_a_driver, from_a_listener])
@pytest.mark.parametrize(("end", "error"), [(leave, SystemExit), (interrupt, KeyboardInterrupt)])
def test_what_ends_a_program_reaches_the_caller_in_the_blocking_api_as_in_the_async_one(
    where: Callable[[Ending], tuple[Agent, Callable[[Sequence[Recorded[AgentEvent]]], None] | None]],
    end: Ending,
    error: type[BaseException],
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    agent, on_commit = where(end)

    async def in_a_loop() -> None:
        async with Steptrail.open(url) as trail:
            await trail.run(agent, "Go.", session="async", on_commit=on_commit)

    with pytest.raises(error):
        asyncio.run(in_a_loop())
    with Steptrail.open_sync(url) as trail:
        with pytest.raises(error):
            trail.run(agent, "Go.", session="sync", on_commit=on_commit)
        assert trail.run(builder().build(), "Go.", session="after").output == "done"
        stored = [trail.session(each).state() for each in ("async", "sync")]
        assert _without_names(stored[0]) == _without_names(stored[1])


def test_other_threads_go_on_when_one_of_them_ends_the_program() -> None:
    ending, _ = from_a_hook(leave)
    seen: list[str] = []
    with Steptrail.open_sync("sqlite:///:memory:") as trail, trail.subscribe("now") as entries:
        other = threading.Thread(target=lambda: seen.append(next(entries).id))
        other.start()
        with pytest.raises(SystemExit):
            trail.run(ending, "Go.", session="ends")
        other.join()
    assert seen == ["ends"]


def test_ctrl_c_still_ends_a_run_after_another_has_ended_so(tmp_path: Path) -> None:
    ending, _ = from_a_hook(leave)
    release = threading.Event()

    @tool
    def interrupt_us() -> str:
        """Send what Ctrl-C sends."""
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(30)
        return "too late"

    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        with pytest.raises(SystemExit):
            trail.run(ending, "Go.", session="ends")
        with pytest.raises(KeyboardInterrupt):
            trail.run(builder(call("interrupt_us")).with_tools(interrupt_us).build(), "Go.", session="s")
        assert trail.session("s").state().status == "paused"
    release.set()


def test_a_dropped_trail_warns_and_frees_its_threads_and_descriptors(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))

    def use(name: str) -> threading.Thread:
        trail = Steptrail.open_sync(f"sqlite:///{tmp_path / name}")
        trail.run(builder().build(), "Go.", session="s")
        return _newest_thread()

    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'first'}") as warm:
        warm.runs()
    before, threads = descriptors(), threading.active_count()
    dropped: list[threading.Thread] = []
    with pytest.warns(ResourceWarning, match="dropped without being closed") as warned:
        dropped.extend(use(f"runs-{number}.db") for number in range(5))
    assert len(warned) == 5
    for thread in dropped:
        thread.join()
    gc.collect()
    # A thread of an earlier test may have ended meanwhile.
    assert descriptors() <= before
    assert threading.active_count() <= threads


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (_HOLDS_A_BLOCK, ""),
        (_CLOSES_LATE, "this program ends, and its threads have ended: close the trail before\n"),
        (_CLOSES_LATE_IN_A_LOOP, ""),
    ],
    ids=["a block is open", "it is closed late", "it is closed late in a loop"],
)
def test_a_program_ends_that_comes_to_its_trail_when_python_has_ended_the_threads(
    left: str, said: str, tmp_path: Path
) -> None:
    imports = "import asyncio\nfrom steptrail import Steptrail\nfrom steptrail.errors import StoreUnavailable\n"
    program = f"{imports}URL = 'sqlite:///{tmp_path / 'runs.db'}'\n{left}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


@pytest.mark.parametrize("python", ["", _AS_PYTHON_3_12], ids=["here", "where no thread can begin any more"])
@pytest.mark.parametrize(
    ("left", "said"),
    [
        (_IS_CLOSED_AT_EXIT, "the spans are sent\nall is closed\n"),
        (_IS_CLOSED_BY_WHAT_WAS_SAID_BEFORE, "all is closed\n"),
        (_IS_CLOSED_AT_EXIT_UNUSED, "all is closed\n"),
        (_IN_A_THREAD, "done 3\n"),
        (_IN_A_POOL, "done 3\n"),
        (_ASKS_ITS_HELPERS, "done 3\n"),
    ],
    ids=[
        "closed at the end",
        "by what was registered before",
        "unused",
        "a thread goes on",
        "a pool goes on",
        "it asks",
    ],
)
def test_a_program_whose_main_thread_has_ended_runs_and_closes_its_trail(
    left: str, said: str, python: str, tmp_path: Path
) -> None:
    """Python runs nothing on its executors any more by then, and 3.12 begins no thread."""
    program = f"{python}URL = 'sqlite:///{tmp_path / 'runs.db'}'\n{left}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")
    assert not list(tmp_path.glob("runs.db-wal"))


def test_a_session_keeps_the_trail_it_came_from() -> None:
    trail = Steptrail.open_sync("sqlite:///:memory:")
    trail.run(builder().build(), "Go.", session="s")
    session = trail.session("s")
    del trail
    gc.collect()
    assert session.state().status == "completed"
    thread = _newest_thread()
    with pytest.warns(ResourceWarning, match="dropped without being closed"):
        del session
    thread.join()


def _newest_thread() -> threading.Thread:
    return next(thread for thread in reversed(threading.enumerate()) if thread.name == "steptrail-loop")


def _without_names(state: AgentState) -> tuple[object, ...]:
    return state.status, state.version, [each.status for step in state.steps for each in step.tool_executions]
