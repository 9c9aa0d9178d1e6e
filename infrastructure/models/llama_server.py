"""llama.cpp's own HTTP server inside this process, one for each (weights, context, threads).

It listens on a free port of the loopback interface, wants a key that only this process knows, writes no line to the
terminal, and stops when its last user lets go of it or the process ends.
"""

import importlib
import json
import secrets
import threading
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue

SAMPLING: Final[Mapping[str, JsonValue]] = {"temperature": 0.0, "seed": 1}
"""Greedy: the same request gives the same reply on the same machine."""

_QUIET: Final = -1
"""Below every level of llama.cpp's log; the levels above write to standard error from native threads."""


_PATIENCE_SECONDS: Final = 120.0
"""For the first word of a server that has just started; a small model needs a tenth of a second."""


class ServerKey(NamedTuple):
    """The settings by which two servers are interchangeable."""

    weights: Path
    context: int
    threads: int


class LlamaServer:
    """A running server; it stops when the last reference to it goes.

    Loading the weights blocks for a moment, and so does the end of the last reference. Raises `ConfigurationError`
    when llama.cpp cannot load the weights.
    """

    def __init__(self, key: ServerKey) -> None:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        self.api_key = secrets.token_urlsafe()
        params = xllamacpp.CommonParams()
        params.verbosity = _QUIET
        params.model.path = str(key.weights)
        params.model_alias = {key.weights.stem}
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self.api_key]
        params.n_ctx = key.context
        params.n_parallel = 1
        params.cpuparams.n_threads = key.threads
        params.cpuparams_batch.n_threads = key.threads
        params.use_jinja = True
        template = files("steptrail.infrastructure.models").joinpath("chat_template.jinja")
        params.chat_template = template.read_text(encoding="utf-8")
        params.sampling.temp = SAMPLING["temperature"]
        params.sampling.seed = SAMPLING["seed"]
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise ConfigurationError(f"llama.cpp cannot load the weights {key.weights}: {error}") from error
        self.address: str = self._server.listening_address
        self.base_url = f"{self.address}/v1"
        self._wait_until_it_works()

    def _wait_until_it_works(self) -> None:
        """Return when the server has answered.

        Its destructor joins a thread that does not hear of a stop until it serves: a server that is let go of before
        that would never end, and hang the whole process with it.
        """
        from urllib.request import ProxyHandler, Request, build_opener

        body = json.dumps({"prompt": "a", "n_predict": 1}).encode()
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        asked = Request(f"{self.address}/completion", data=body, headers=headers)  # noqa: S310 - our own loopback server
        try:
            with build_opener(ProxyHandler({})).open(asked, timeout=_PATIENCE_SECONDS) as answer:
                answer.read()
        except OSError as error:
            raise ConfigurationError(f"the local model server at {self.address} does not answer: {error}") from error


_running: WeakValueDictionary[ServerKey, LlamaServer] = WeakValueDictionary()
_starting = threading.Lock()


def server_for(key: ServerKey) -> LlamaServer:
    """Return the running server of `key`, or start it. Blocks; safe to call from several threads."""
    with _starting:
        server = _running.get(key)
        if server is None:
            server = _running[key] = LlamaServer(key)
        return server
