"""The process that forks for `tests.harness.ready_python`. It has no threads, and listens on a socket.

A client sends its three open files with the length of its request, then the request: arguments, folder and variables.
The answers are two lines: the number of the process that was forked, and how it ended.
"""

import atexit
import gc
import marshal
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

from tests.harness.imported import COMMANDS

_IMPORTED_FOR_ALL = (
    *COMMANDS,
    "steptrail.tools.mcp",
    "anyio._backends._asyncio",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.server",
    "openai",
    "pytest",
    "rich.logging",
    "sse_starlette",
    "starlette.applications",
    "uvicorn",
)
"""What takes longest to import of what the processes of tests use."""

_OPTIONS_WITHOUT_A_VALUE = ("-P", "-u")

_ends_with: int | None = None
"""How this process ends, as `Popen.returncode` says it; None as long as nobody knows."""


def serve() -> None:
    """Fork a process for every client until the input ends. In the process itself, run what it was asked for."""
    # The first of all that are to be called at the end is the last that is called.
    atexit.register(_leave)
    for module in _IMPORTED_FOR_ALL:
        import_module(module)
    gc.collect()
    gc.freeze()
    asked = _listen(sys.argv[1])
    _note_the_end(0)
    if asked is not None:
        try:
            _run(*asked)
        except SystemExit as end:
            _note_the_end(end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None))
            raise
        except KeyboardInterrupt:
            _note_the_end(-signal.SIGINT)
            raise
        except BaseException:
            _note_the_end(1)
            raise


def _note_the_end(code: int) -> None:
    global _ends_with
    _ends_with = code


def _leave() -> None:
    """End at once, when threads have ended and all was called that is called at the end.

    All that Python does after that is to take apart what was imported. It writes to each page of what the process has
    in common with the server, and that took six times as long as all else that a command does.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return  # Python says what is wrong with it, and ends as it does then.
    if _ends_with is None:
        return
    if _ends_with < 0:
        signal.signal(-_ends_with, signal.SIG_DFL)
        os.kill(os.getpid(), -_ends_with)
    os._exit(_ends_with)


def _listen(path: str) -> tuple[list[str], str, dict[bytes, bytes]] | None:
    """Return what a forked process is to run, in that process, and None in the server at its end."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    ended, wake = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    os.write(1, b"ready\n")
    clients: dict[int, socket.socket] = {}
    while True:
        watched: list[int | socket.socket] = [0, ended, listener, *clients.values()]
        ready = select.select(watched, [], [])[0]
        if ended in ready:
            with suppress(BlockingIOError):
                os.read(ended, 65536)
        _reap(clients)
        for pid, client in list(clients.items()):
            # A client says nothing more: this is its end.
            if client in ready:
                os.kill(pid, signal.SIGKILL)
        if listener in ready:
            client, _ = listener.accept()
            files, asked = _asked(client)
            pid = os.fork()
            if pid == 0:
                for mine in (client, listener, *clients.values()):
                    mine.close()
                _become(files, ended, wake)
                return asked
            for file in files:
                os.close(file)
            clients[pid] = client
            _tell(client, pid)
        if 0 in ready:
            for pid in clients:
                os.kill(pid, signal.SIGKILL)
            return None


def _asked(client: socket.socket) -> tuple[list[int], tuple[list[str], str, dict[bytes, bytes]]]:
    length, files, _, _ = socket.recv_fds(client, 4, 3)
    parts = bytearray()
    while len(parts) < int.from_bytes(length, "big"):
        parts += client.recv(65536)
    # The other end is a command that the process which started this one has written.
    return files, marshal.loads(bytes(parts))  # noqa: S302


def _become(files: list[int], *others: int) -> None:
    """Take the place of a process that was just started with these files."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in (*files, *others):
        os.close(file)


def _run(arguments: list[str], folder: str, variables: dict[bytes, bytes]) -> None:
    """Do what Python does with these arguments, and let an exception or the end of it end the process."""
    was = set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(variables)
    _open_streams(is_buffered=not os.environ.get("PYTHONUNBUFFERED") and "-u" not in arguments)
    while arguments[0] in _OPTIONS_WITHOUT_A_VALUE:
        del arguments[0]
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    rest = [*given, *(entry for entry in sys.path if entry and entry not in was)]
    match arguments:
        case ["-m", module, *words]:
            sys.path[:] = [folder, *rest]
            sys.argv[:] = [module, *words]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *words]:
            sys.path[:] = ["", *rest]
            sys.argv[:] = ["-c", *words]
            exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))  # noqa: S102
        case [path, *words]:
            sys.path[:] = [os.path.dirname(os.path.abspath(path)), *rest]
            sys.argv[:] = [path, *words]
            runpy.run_path(path, run_name="__main__")
        case _:
            raise ValueError(f"nothing to run: {arguments}")


def _open_streams(*, is_buffered: bool) -> None:
    """Open the three streams anew, because those of the server are of files of another kind."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    out = open(1, "w", closefd=False)  # noqa: SIM115
    out.reconfigure(write_through=not is_buffered)
    sys.stdout = out
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _reap(clients: dict[int, socket.socket]) -> None:
    while clients:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        client = clients.pop(pid)
        _tell(client, os.waitstatus_to_exitcode(status))
        client.close()


def _tell(client: socket.socket, number: int) -> None:
    # One that was killed does not listen.
    with suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(f"{number}\n".encode())


def _ignore(number: int, frame: object) -> None:
    del number, frame
