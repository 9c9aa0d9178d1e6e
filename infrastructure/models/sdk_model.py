"""The common part of the drivers over an official SDK: one client for each loop, one deadline, one way to stream.

The SDK brings the transport, the credentials and the typed errors; its retries are off, because retrying is the error
policy's business and every attempt is recorded. A stream's events are put together to the body that the same call would
have had without streaming, and the same code then reads it.
"""

import asyncio
import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from steptrail.domain.errors import ConfigurationError, MissingExtra, NotStorable, StreamBroken
from steptrail.domain.inference import FinishReason, ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_flag, a_mapping, a_text, a_time
from steptrail.domain.secrets import hide_from_now_on, hide_keys_of, hide_values_of
from steptrail.domain.storable import storable
from steptrail.infrastructure.bounded_http import ASKS_FOR, bounded, certificates
from steptrail.infrastructure.models.errors import ModelReplyInvalid, ModelUnreachable, address_of
from steptrail.infrastructure.models.files import with_bytes
from steptrail.infrastructure.models.leaked_arguments import ShownText
from steptrail.infrastructure.models.prompt_cache import CacheTime
from steptrail.infrastructure.models.sdk_reading import read_stream
from steptrail.infrastructure.models.sdk_types import Turn

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from httpx2 import Response
    from openai import AsyncOpenAI

T = TypeVar("T")
C = TypeVar("C", bound="AsyncOpenAI | AsyncAnthropic")

RESERVED_BY_ALL = frozenset(
    {"extra_body", "extra_headers", "extra_query", "model", "stream", "timeout", "tool_choice", "tools"}
)
"""Parameters that no protocol takes from a user: the request decides them, or they are not part of the body."""


class SdkModel(ABC, Generic[C]):
    """The base of drivers over an SDK. `timeout` is in seconds; a `client` is used as it is, but for its retries.

    A model that takes only text is told of images and PDF in words: it is given `shows_files=False`.

    Raises `MissingExtra` without the package, `ConfigurationError` for what cannot be used, such as a blocking client.
    """

    _package: str
    _driver: str
    _path: str
    _reserved: frozenset[str]
    _streaming: ClassVar[Mapping[str, JsonValue]] = {"stream": True}
    """The fields of the body that ask for a stream."""
    _caches: ClassVar[tuple[CacheTime, ...]] = ("auto",)
    """How long the provider can be asked to keep what it has read."""
    _defaults: ClassVar[Mapping[str, JsonValue]] = {}
    """The parameters that hold unless they are given."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        parameters: Mapping[str, JsonValue] | None = None,
        timeout: float = 60.0,
        client: C | None = None,
        cache: CacheTime | None = "auto",
        shows_files: bool = True,
    ) -> None:
        self._shows_files = a_flag(shows_files, "`shows_files` of a model")
        own = {} if parameters is None else a_mapping(parameters, "the parameters of a model")
        parameters = {**self._defaults, **own}
        if importlib.util.find_spec(self._package) is None:
            raise MissingExtra(type(self).__name__, self._package, self._package)
        refuse_reserved(parameters, self._reserved)
        a_time(timeout, "the timeout of a model")
        if cache is not None and cache not in self._caches:
            known = ", ".join(map(repr, self._caches))
            raise ConfigurationError(f"the cache of {type(self).__name__} is one of {known} or None, not {cache!r}")
        self._cache: CacheTime | None = cache
        for what, text in (("base_url", base_url), ("api_key", api_key)):
            if text is not None:
                a_text(text, f"the {what} of a model")
        try:
            given = {name: storable(value, name) for name, value in parameters.items()}
            self._info = ModelInfo(driver=self._driver, model=model, parameters=given)
        except NotStorable as error:
            raise ConfigurationError(f"the parameters of the model {model!r} are not JSON: {error}") from None
        if client is not None and not iscoroutinefunction(getattr(client, "post", None)):
            msg = f"the client of a model is an async one of the package {self._package!r}, not {type(client).__name__}"
            raise ConfigurationError(msg)
        self._given = None if client is None else cast("C", client.with_options(max_retries=0))
        self._timeout, self._base_url, self._api_key = timeout, base_url, api_key
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}

    def _http(self) -> Any:
        """Return a client of the SDK's kind over HTTP, which reads no more of a response than there is room for."""
        made = importlib.import_module(self._package).DefaultAsyncHttpxClient
        hooks = {"response": [bounded(ModelReplyInvalid, with_streams=True), _keep_the_key]}
        return made(event_hooks=hooks, headers=dict(ASKS_FOR), verify=certificates())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._info.model!r})"

    def describe(self) -> ModelInfo:
        """Return the model's name and parameters."""
        return self._info

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Post one request.

        Raises what the SDK raises, `TimeoutError` at the deadline, `ModelReplyInvalid`, or `ModelFailed`.
        """
        client = await self._client()
        deadline = self._deadline(request)
        turn = self._turn(await with_bytes(request, shows_files=self._shows_files), client.base_url.host)
        while True:
            text = await deadline.keep(self._reached(client, self._post(client, turn.body)))
            if (reply := turn.take(text)) is not None:
                return reply

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Post one request and yield the reply as it is written, and last the reply that `infer` would return.

        The pieces of text together are the text of the reply. Text that begins with `{` comes late, in one piece, when
        a call may follow: it may turn out to be that call's arguments. Raises what `infer` raises, `StreamBroken` for
        a stream that ends too early, or what the transport raises when it breaks.
        """
        client = await self._client()
        deadline = self._deadline(request)
        turn = self._turn(await with_bytes(request, shows_files=self._shows_files), client.base_url.host)
        # A text that begins as JSON is an answer where the provider keeps to a schema.
        may_follow = bool(request.tools) and request.tool_choice != "none" and request.output_mode is None
        shown, has_told = ShownText(may_follow=may_follow), False

        async def within(work: Awaitable[T]) -> T:
            return await deadline.keep(self._read(client, work))

        while True:
            text, assembly = "", turn.assembly()
            stream = await deadline.keep(
                self._reached(client, self._open_stream(client, {**turn.body, **self._streaming}))
            )
            try:
                async with aclosing(read_stream(stream.response, assembly, within)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, str):
                            text = piece
                        elif said := shown.more(piece.text) if piece.kind == "text" else piece.text:
                            has_told = has_told or (piece.kind == "text" and not said.isspace())
                            yield ModelDelta(said, kind=piece.kind)
            finally:
                await stream.close()
            reply = turn.take(text)
            if reply is not None:
                break
        if has_told and not reply.text and reply.finish_reason is FinishReason.STOP:
            raise ModelReplyInvalid("the text that was streamed is not in it")
        if rest := shown.rest(reply.text):
            yield ModelDelta(rest)
        yield reply

    async def close(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    @abstractmethod
    def _turn(self, request: ModelRequest, host: str) -> Turn:
        """Return the turn of a request to a host. Raises `ConfigurationError` for one that cannot be sent."""

    @abstractmethod
    def _open(self, http: Any) -> C:
        """Return a client without retries over one of HTTP. Raises `ConfigurationError` without credentials."""

    def _post(self, client: C, body: Mapping[str, JsonValue]) -> Awaitable[str]:
        """Post a body and return the text of the response; the SDK keeps no time."""
        posted: Awaitable[str] = client.post(self._path, cast_to=str, body=body, options={"timeout": None})
        return posted

    def _open_stream(self, client: C, body: Mapping[str, JsonValue]) -> Awaitable[Any]:
        """Post a body and return the stream of the response; the SDK keeps no time."""
        stream: Any = importlib.import_module(self._package).AsyncStream
        opened: Awaitable[Any] = client.post(
            self._path, cast_to=object, body=body, options={"timeout": None}, stream=True, stream_cls=stream[object]
        )
        return opened

    async def _reached(self, client: C, work: Awaitable[T]) -> T:
        """Wait for a response. Raises `ModelUnreachable` where the SDK has none to show, and what it raises else."""
        try:
            return await work
        except importlib.import_module(self._package).APIConnectionError as error:
            if isinstance(error.__cause__, ModelReplyInvalid):
                raise error.__cause__ from None
            raise ModelUnreachable(self._info.model, str(client.base_url), error) from error
        finally:
            # Servers repeat the key that they refuse. A client that fetches its key has it by now.
            hide_keys_of(str(client.base_url))
            hide_values_of((name, value) for name, value in client.default_headers.items() if isinstance(value, str))
            for key in (getattr(client, "api_key", None), getattr(client, "auth_token", None)):
                if isinstance(key, str):
                    hide_from_now_on(key)

    async def _read(self, client: C, work: Awaitable[T]) -> T:
        """Wait for what comes next of a stream. Raises `StreamBroken` when the connection breaks."""
        try:
            return await work
        except ModelReplyInvalid:
            raise
        except Exception as error:
            where = address_of(str(client.base_url))
            raise StreamBroken(f"the reply of the model {self._info.model!r} at {where} broke off") from error

    def _deadline(self, request: ModelRequest) -> "_Deadline":
        seconds = self._timeout if request.timeout is None else min(self._timeout, max(0.0, request.timeout))
        return _Deadline(self._info.model, seconds)

    async def _client(self) -> C:
        if self._given is not None:
            return self._given
        # Connections belong to the loop they were opened on, and one driver may serve several loops in turn.
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # The SDK and the certificates take longer to load than a session to resume: the loop goes on meanwhile.
            http = await asyncio.to_thread(self._http)
            client = self._clients.setdefault(loop, self._open(http))
            for closed in [each for each in list(self._clients) if each.is_closed()]:
                del self._clients[closed]
        return client


async def _keep_the_key(response: "Response") -> None:
    """Take the key out of a request that is sent on to another place, as HTTP clients do with `Authorization` alone."""
    if response.has_redirect_location:
        here = response.request.url
        there = here.join(response.headers["location"])
        is_as_safe = there.scheme == "https" or (there.scheme, there.port) == (here.scheme, here.port)
        if there.host != here.host or not is_as_safe:
            response.request.headers.pop("x-api-key", None)


def refuse_reserved(parameters: Mapping[str, JsonValue], reserved: frozenset[str]) -> None:
    """Raise `ConfigurationError` for parameters that the request itself decides."""
    if taken := sorted(reserved & parameters.keys()):
        raise ConfigurationError(f"the model parameters {', '.join(taken)} cannot be set: the request decides them")


class _Deadline:
    """One deadline over a whole call: the transport's own limits start anew with every byte."""

    def __init__(self, model: str, seconds: float) -> None:
        self._model, self._seconds = model, seconds
        self._at = asyncio.get_running_loop().time() + seconds

    async def keep(self, work: Awaitable[T]) -> T:
        """Wait for the work, or raise `TimeoutError`."""
        limit = asyncio.timeout_at(self._at)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no reply from the model {self._model!r} within {self._seconds:g} s") from None
