"""The command of `tests.harness.ready_python`: the stand-in of a process that a server forks. Imports next to nothing.

It is called with the path of the server's socket and the arguments of Python. It ends with the code or the signal with
which the process ended.
"""

import _socket
import marshal
import os
import sys

# `signal` and `socket` themselves make classes of all their numbers, which takes as long as Python takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_SENT: dict[int, int] = {
    _signal.SIGTERM: _signal.SIGTERM,
    _signal.SIGHUP: _signal.SIGHUP,
    _signal.SIGINT: _signal.SIGINT,
    _signal.SIGUSR1: _signal.SIGKILL,
}
"""What the process is sent for a signal to the command. Nobody can pass SIGKILL on."""


def _main() -> None:
    # A signal that comes before it is known whom to pass it on to is kept.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _SENT)
    server = _socket.socket(_socket.AF_UNIX)
    server.connect(sys.argv[1])
    request = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environb)))
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    server.sendall(request)
    pid = _answer(server)
    for number in _SENT:
        _signal.signal(number, lambda number, frame: _send(pid, _SENT[number]))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _SENT)
    # The process holds these now, and whoever reads its output waits for their end.
    os.closerange(0, 3)
    code = _answer(server)
    if code < 0:
        if -code in _SENT:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _answer(server: _socket.socket) -> int:
    """Return the number in the next line."""
    line = b""
    while not line.endswith(b"\n"):
        # The second answer comes after the first was read, or at once when the process is short: a byte at a time.
        if not (byte := server.recv(1)):
            raise ConnectionError("the server of ready processes is gone")
        line += byte
    return int(line)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # It has ended, and its code is on the way.


_main()
