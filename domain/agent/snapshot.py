"""A session's state as bytes, for snapshots: one line of JSON for the accumulators, one for each message and step.

The lines of messages and steps are decoded when somebody looks at them, so reading a snapshot costs next to nothing
however long the session is. `FORMAT` stands for the fold as well: events that fold to something else than they did, or
to a state of another shape, need another one, or old snapshots would be taken for the new fold.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple, SupportsIndex, TypeVar, cast, overload

from pydantic import TypeAdapter

from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep
from steptrail.domain.kernel import SnapshotCodec
from steptrail.domain.log import Log
from steptrail.domain.messages import Message

__all__ = ["FORMAT", "SNAPSHOTS"]

FORMAT = "agent.2"

T = TypeVar("T")


class _Adapters(NamedTuple):
    counts: TypeAdapter[tuple[int, int, list[int]]]
    fold: TypeAdapter[SessionFold]
    message: TypeAdapter[Message]
    step: TypeAdapter[AgentStep]


@cache
def _adapters() -> _Adapters:
    # Made when first needed: they would take up a good part of the time that importing Steptrail may take.
    return _Adapters(
        TypeAdapter(tuple[int, int, list[int]]), TypeAdapter(SessionFold), TypeAdapter(Message), TypeAdapter(AgentStep)
    )


def _dump(state: AgentState) -> bytes:
    fold, adapters = state.fold, _adapters()
    steps: Log[AgentStep] = fold.execution.steps if fold.execution is not None else Log()
    return b"\n".join(
        [
            adapters.counts.dump_json((len(fold.messages), len(steps), list(fold.ended_at_version))),
            adapters.fold.dump_json(
                fold, by_alias=True, exclude={"messages": True, "ended_at_version": True, "execution": {"steps"}}
            ),
            *(adapters.message.dump_json(message, by_alias=True) for message in fold.messages),
            *(adapters.step.dump_json(step, by_alias=True) for step in steps),
        ]
    )


def _load(data: bytes) -> AgentState:
    counts, written, *lines = data.split(b"\n")
    adapters = _adapters()
    messages, steps, ended = adapters.counts.validate_json(counts)
    if len(lines) != messages + steps:
        msg = f"a snapshot of {messages} messages and {steps} steps has {len(lines)} lines for them"
        raise ValueError(msg)
    fold = adapters.fold.validate_json(written)
    fold.messages = Log[Message].over(_Undecoded(lines[:messages], adapters.message.validate_json))
    fold.ended_at_version = Log(ended)
    if fold.execution is not None:
        fold.execution.steps = Log[AgentStep].over(_Undecoded(lines[messages:], adapters.step.validate_json))
    return AgentState(fold, as_of=fold.updated_at)


SNAPSHOTS: SnapshotCodec[AgentState] = SnapshotCodec(FORMAT, _dump, _load)
"""How an agent's state is written down and read back."""


class _Undecoded(list[T]):
    """A list whose items are lines until somebody asks for them."""

    def __init__(self, lines: list[bytes], decode: Callable[[bytes], T]) -> None:
        super().__init__(cast("list[T]", lines))
        self._decode = decode

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        item = super().__getitem__(index)
        if isinstance(item, bytes):
            item = self[index] = self._decode(item)
        return item

    def __iter__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self)))
