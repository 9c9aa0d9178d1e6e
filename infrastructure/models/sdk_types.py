"""The parts of an official SDK that the drivers use, and the parts that each protocol gives them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from steptrail.domain.inference import ModelDelta, ModelReply
from steptrail.domain.json_value import JsonValue


class SdkUrl(Protocol):
    """The parts of a client's address that are used."""

    @property
    def host(self) -> str:
        """The name or number of the machine."""
        ...


class SdkClient(Protocol):
    """The parts of every SDK's asynchronous client that are used."""

    @property
    def base_url(self) -> SdkUrl:
        """Where it sends requests."""
        ...

    @property
    def default_headers(self) -> Mapping[str, object]:
        """The headers that it sends with every request. A value that is no text leaves one out."""
        ...

    @property
    def post(self) -> Callable[..., Awaitable[Any]]:
        """Post a body to a path, and return the response as the caller wants it."""
        ...

    def with_options(self, *, max_retries: int) -> Self:
        """Return a client with the same connections that tries again so often."""
        ...

    def is_closed(self) -> bool:
        """Tell whether its connections are closed."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


class SdkResponse(Protocol):
    """The parts that are used of a response whose body comes piece by piece."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, in letters of any size."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over its body."""
        ...


class SdkStream(Protocol):
    """A stream as an SDK opens it. Its events are read from the response."""

    @property
    def response(self) -> SdkResponse:
        """The response. None of it has been read."""
        ...

    async def close(self) -> None:
        """Close the response, read to its end or not."""
        ...


class Assembly(Protocol):
    """Puts the events of one stream together."""

    is_over: bool
    """Whether the last event has come; later ones are ignored."""

    def add(self, event: JsonValue) -> Iterable[ModelDelta]:
        """Take an event and return what it says for people; an error among the events is raised."""
        ...

    def end(self) -> None:
        """Take `[DONE]`, which is the end of a stream in some protocols."""
        ...

    def body(self) -> JsonValue:
        """Return the body of the same call without streaming. Raises `StreamBroken` when its end is missing."""
        ...


class Turn(Protocol):
    """One reply: what to post for it, and how to read what comes."""

    body: dict[str, JsonValue]
    """The next body to post, without the fields that ask for a stream."""

    def assembly(self) -> Assembly:
        """Return what puts the stream of the answer together."""
        ...

    def take(self, text: str, /) -> ModelReply | None:
        """Read a body; return None when `body` is to be posted again for the rest of the reply."""
        ...


@dataclass
class OneBody:
    """The turn of a protocol in which one body is the whole reply: `assembly` makes what `take` reads."""

    body: dict[str, JsonValue]
    assembly: Callable[[], Assembly]
    take: Callable[[str], ModelReply]
