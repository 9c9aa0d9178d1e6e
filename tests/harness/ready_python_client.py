"""The command of `tests.harness.ready_python`: the stand-in of a process that a server forks. Imports next to nothing.

It is called with the path of the server's socket and the arguments of Python. It ends with the code or the signal with
which the process ended.
"""

import marshal
import os
import signal
import socket
import sys

_SENT = {signal.SIGTERM: signal.SIGTERM, signal.SIGINT: signal.SIGINT, signal.SIGUSR1: signal.SIGKILL}
"""What the process is sent for a signal to the command. Nobody can pass SIGKILL on."""


def _main() -> None:
    # A signal that comes before it is known whom to pass it on to is kept.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(sys.argv[1])
        request = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environb)))
        socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(request)
        with server.makefile("rb") as answers:
            pid = int(answers.readline())
            for number in _SENT:
                signal.signal(number, lambda number, frame: _send(pid, _SENT[signal.Signals(number)]))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SENT)
            # The process holds these now, and whoever reads its output waits for their end.
            os.closerange(0, 3)
            code = int(answers.readline())
    if code < 0:
        if -code in _SENT:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # It has ended, and its code is on the way.


_main()
