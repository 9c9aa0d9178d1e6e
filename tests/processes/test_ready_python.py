"""The command that stands in for a fresh Python does what that does, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.pids import is_running
from tests.harness.ready_python import KILL, VARIABLE, ready_commands, ready_python

SHOW = """
import os, sys
print(sys.argv[1:], __name__, os.getcwd(), os.environ["WORD"], sys.stdin.read())
print("aside", file=sys.stderr)
sys.exit(3)
"""
WAIT = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def run(python: str, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "WORD": "tea"}
    command = [python, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, input="a line", capture_output=True, text=True)


def waiting() -> "tuple[subprocess.Popen[str], int]":
    process = subprocess.Popen([ready_python(), "-c", WAIT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(
    "way", [["-c", SHOW], ["-m", "shows"], ["shows.py"], ["-P", "shows.py"]], ids=lambda way: way[0]
)
def test_it_does_what_python_does(way: list[str], tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text(SHOW, encoding="utf-8")
    mine, its = (run(python, *way, "one", "two words", cwd=tmp_path) for python in (ready_python(), sys.executable))
    assert (mine.returncode, mine.stdout, mine.stderr) == (its.returncode, its.stdout, its.stderr)
    assert mine.stdout.startswith("['one', 'two words'] __main__ ")
    assert mine.returncode == 3


def test_the_command_line_is_there_under_its_name(tmp_path: Path) -> None:
    done = run(str(ready_commands() / "steptrail"), "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        run(sys.executable, "-m", "steptrail", "runs", cwd=tmp_path).returncode,
        "",
    )


@pytest.mark.parametrize(
    "last",
    ["sys.exit()", "sys.exit(-1)", "sys.exit('no more tea')", "raise KeyboardInterrupt", "1 / 0", "sys.stdout.close()"],
)
def test_it_ends_as_python_does_after_all_that_is_done_at_the_end(last: str, tmp_path: Path) -> None:
    code = (
        "import atexit, sys, threading, time\n"
        "atexit.register(lambda: print('at the end', file=sys.stderr))\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('a thread', file=sys.stderr))).start()\n"
        f"print('not flushed')\n{last}"
    )
    mine, its = (run(python, "-c", code, cwd=tmp_path) for python in (ready_python(), sys.executable))
    assert (mine.returncode, mine.stdout) == (its.returncode, its.stdout)
    told, wanted = mine.stderr.splitlines(), its.stderr.splitlines()
    # A traceback of ours has more lines above its last.
    assert told[-3:] == wanted[-3:]
    assert told[-2:] == ["a thread", "at the end"]


def test_what_cannot_be_written_at_the_end_is_told(tmp_path: Path) -> None:
    command = 'unset PYTHONUNBUFFERED; exec "$0" -c "print(1)" >/dev/full'
    mine, its = (
        subprocess.run(["sh", "-c", command, python], cwd=tmp_path, capture_output=True, text=True)
        for python in (ready_python(), sys.executable)
    )
    assert (mine.returncode, mine.stderr.splitlines()[1:]) == (its.returncode, its.stderr.splitlines()[1:])
    assert "No space left" in mine.stderr


def test_an_exception_is_told_and_a_signal_is_the_end(tmp_path: Path) -> None:
    assert "ZeroDivisionError" in run(ready_python(), "-c", "1 / 0", cwd=tmp_path).stderr
    died = run(ready_python(), "-c", "import os; os.kill(os.getpid(), 9)", cwd=tmp_path)
    assert died.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, -signal.SIGTERM), (KILL, -signal.SIGKILL)], ids=["asked", "killed"]
)
def test_who_ends_the_command_has_ended_the_process(sent: signal.Signals, code: int) -> None:
    process, pid = waiting()
    with process:
        process.send_signal(sent)
        assert process.wait() == code
    assert not is_running(pid)


def test_a_process_does_not_outlive_a_command_that_was_killed() -> None:
    process, _ = waiting()
    with process:
        process.kill()
        assert process.stdout is not None
        # Its end closes the pipe.
        assert process.stdout.read() == ""


def owner_of_a_process() -> int:
    return waiting()[1]


def test_no_process_outlives_whoever_started_it() -> None:
    code = f"import {__name__} as tests; print(tests.owner_of_a_process())"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)]),
    }
    environment.pop(VARIABLE, None)
    # The waiting process holds this pipe, so the end of what is read is its end.
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert int(done.stdout) > 0, done.stderr
