"""A Python that has imported the library before it is asked to: a command that is run in the place of `sys.executable`.

Starting Python and importing what an agent needs takes half a second of a processor. The command is a small client.
It hands its arguments, folder, variables and open files to a server (`tests.harness.ready_python_server`), which forks
a process that has all of it. The client ends as that process does and passes SIGTERM, SIGHUP and SIGINT on. When it is
killed, the process is killed a moment later; who kills for good sends `KILL` instead. A test that needs a fresh import
starts `sys.executable`.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

KILL = signal.SIGUSR1
"""Kills the process; the command ends when it is gone."""
VARIABLE = "READY_PYTHON"
"""Tells processes below this one where the commands are."""

_ROOT = Path(__file__).parents[2]
_CLIENT = Path(__file__).with_name("ready_python_client.py")
_SERVER = "from tests.harness.ready_python_server import serve; serve()"


def ready_python() -> str:
    """Return the path of the command, which takes what Python does: `-m module`, `-c code` or a file, and arguments."""
    return str(ready_commands() / "python")


@cache
def ready_commands() -> Path:
    """Return a folder with the commands `python` and `steptrail`. The server ends with the process that called this.

    A process below one that has a server uses that one.
    """
    if (of_a_parent := os.environ.get(VARIABLE)) is not None:
        return Path(of_a_parent)
    folder = Path(tempfile.mkdtemp(prefix="steptrail-ready-"))
    for name, words in (("python", []), ("steptrail", ["-m", "steptrail"])):
        command = folder / name
        # Without site and without variables Python starts in some milliseconds.
        given = [sys.executable, "-I", "-S", str(_CLIENT), str(folder / "socket"), *words]
        command.write_text(f'#!/bin/sh\nexec {" ".join(given)} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(folder / "socket")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Ctrl-C is for whoever runs the tests; the server ends when its input does.
        start_new_session=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the server of ready processes did not start"
    os.environ[VARIABLE] = str(folder)
    atexit.register(_close, server, folder)
    return folder


def _close(server: "subprocess.Popen[bytes]", folder: Path) -> None:
    server.communicate()
    shutil.rmtree(folder)
