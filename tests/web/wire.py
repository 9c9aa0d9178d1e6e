"""A wire between a client and a server that can be cut or go dead: a proxy that does to connections what it is told."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Wire:
    """Forwards bytes from a port of its own to another one, inside a `with`."""

    def __init__(self, to: int) -> None:
        self._to, self._listening = to, socket.create_server(("127.0.0.1", 0))
        self._changing, self._ends, self._dead = threading.Lock(), set[socket.socket](), set[socket.socket]()
        self.port: int = self._listening.getsockname()[1]

    def cut(self) -> None:
        """Drop every connection that there is; new ones are let through."""
        with self._changing:
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def swallow(self) -> None:
        """Forget every connection that there is without a word: what is sent on it arrives nowhere any more."""
        with self._changing:
            self._dead |= self._ends

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self._to))
            with self._changing:
                self._ends |= {here, there}
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._dead:
                    target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._changing:
            self._ends -= {source}
        source.close()
