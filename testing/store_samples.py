"""The material of the contracts of event stores: sample events, commits of them, and a store to try."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, TypeVar

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.kernel.record import Commit, CommitHead
from steptrail.runtime.kernel.ports import EventStore

AT = 1_700_000_000_000_000

Opener = Callable[[], EventStore]
T = TypeVar("T")


class Noted(Event, frozen=True, kw_only=True):
    """A sample event with defaults."""

    TYPE: ClassVar[str] = "test.noted.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"text"})

    text: str = ""
    number: int = 0


class Written(Event, frozen=True, kw_only=True):
    """A sample event with any JSON in it."""

    TYPE: ClassVar[str] = "test.written.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"data"})
    STATE = frozenset({"tags"})

    data: JsonValue = None
    tags: dict[str, JsonValue] = {}


def commit_of(commit_id: str, *events: Event, actor: str = "tester", segment: int = 0) -> Commit:
    """Return a commit of `events`, a microsecond apart."""
    head = CommitHead(commit_id=commit_id, actor=actor, segment=segment)
    return Commit(head, tuple((AT + i, event) for i, event in enumerate(events)))


def run_on(opener: Opener, scenario: Callable[[EventStore], Awaitable[None]]) -> None:
    """Play a scenario on a store of its own."""
    asyncio.run(closing(opener(), scenario))


async def closing(store: EventStore, scenario: Callable[[EventStore], Awaitable[T]]) -> T:
    """Play a scenario on a store, and close that."""
    try:
        return await scenario(store)
    finally:
        await store.close()


def on_a_store(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a method that plays a scenario: it is given a store of its own, and after that its fixtures."""
    this, _, *fixtures = signature(scenario).parameters.values()

    @wraps(scenario)
    def test(self: object, opener: Opener, **given: Any) -> None:
        run_on(opener, partial(scenario, self, **given))

    # pytest reads here which fixtures a test needs.
    opener = Parameter("opener", Parameter.POSITIONAL_OR_KEYWORD)
    test.__signature__ = Signature([this, opener, *fixtures])  # type: ignore[attr-defined]
    return test
