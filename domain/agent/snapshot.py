"""A session's state as bytes, for snapshots: one line of JSON for the accumulators, one for each message and step.

The lines of messages and steps are decoded when somebody looks at them, so reading a snapshot costs next to nothing
however long the session is. A step stands right behind its messages, which say much the same: apart, whoever packs the
lines would not see that. `FORMAT` stands for the fold as well: events that fold to something else than they did, or
to a state of another shape, need another one, or old snapshots would be taken for the new fold.
"""

from collections.abc import Callable, Iterable, Iterator
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

FORMAT = "agent.1"

_A_STEP = b'{"number":'
"""How the line of a step begins, and none of a message."""

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
            *_in_turn(
                [adapters.message.dump_json(each, by_alias=True, exclude_defaults=True) for each in fold.messages],
                [adapters.step.dump_json(each, by_alias=True, exclude_defaults=True) for each in steps],
                steps,
            ),
        ]
    )


def _in_turn(messages: list[bytes], written: list[bytes], steps: Iterable[AgentStep]) -> Iterator[bytes]:
    """Yield the messages in order with each of the steps behind its own, as near as counting them tells."""
    said = [len(step.tool_executions) + (step.reply is not None) for step in steps]
    done = max(len(messages) - sum(said), 0)
    yield from messages[:done]
    for line, count in zip(written, said, strict=True):
        yield from messages[done : done + count]
        yield line
        done += count
    yield from messages[done:]


def _load(data: bytes) -> AgentState:
    counts, written, *lines = data.split(b"\n")
    adapters = _adapters()
    messages, steps, ended = adapters.counts.validate_json(counts)
    of_steps = [line for line in lines if line.startswith(_A_STEP)]
    of_messages = [line for line in lines if not line.startswith(_A_STEP)]
    if (len(of_messages), len(of_steps)) != (messages, steps):
        msg = (
            f"a snapshot of {messages} messages and {steps} steps has lines for {len(of_messages)} and {len(of_steps)}"
        )
        raise ValueError(msg)
    fold = adapters.fold.validate_json(written)
    fold.messages = Log[Message].over(_Undecoded(of_messages, adapters.message.validate_json))
    fold.ended_at_version = Log(ended)
    if fold.execution is not None:
        fold.execution.steps = Log[AgentStep].over(_Undecoded(of_steps, adapters.step.validate_json))
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
