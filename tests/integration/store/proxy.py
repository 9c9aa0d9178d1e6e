"""A wire between a client and a server of ours that a test can hold and cut."""

import contextlib
import socket
import threading
from collections.abc import Generator


class Proxy:
    """Passes bytes on between those who connect to `port` and the server, until it is told otherwise."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flow = {"requests": threading.Event(), "replies": threading.Event()}
        self.held = b""
        """What has come and is not let through."""
        self.release()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, *directions: str) -> None:
        """Let nothing through: of `requests`, of `replies`, or of both."""
        for direction in directions or self._flow:
            self._flow[direction].clear()

    def release(self) -> None:
        """Let everything through from now on, also what was held."""
        self.held = b""
        for event in self._flow.values():
            event.set()

    def cut(self) -> None:
        """End every connection that there is, and lose what was held of it. New ones are let through."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.release()

    def close(self) -> None:
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                with self._lock:
                    self._sockets += [client, server]
                for source, target, direction in ((client, server, "requests"), (server, client, "replies")):
                    threading.Thread(target=self._pump, args=(source, target, direction), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._flow[direction].is_set():
                    with self._lock:
                        self.held += data
                self._flow[direction].wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextlib.contextmanager
def proxy_to(server_port: int) -> Generator[Proxy]:
    proxy = Proxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()
