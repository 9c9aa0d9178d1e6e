"""The parts of a driver over an official SDK that each protocol gives it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from steptrail.domain.inference import ModelDelta, ModelReply
from steptrail.domain.json_value import JsonValue


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
