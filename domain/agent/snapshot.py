"""Encodes the state of a session for snapshots: one line of JSON for the accumulators, one for each message and step.

Messages and steps are decoded when they are first read, and the lines of steps are passed over until then, because a
session goes on without them. So opening a snapshot is quick however long the session is. The line of a step follows
those of its messages: the two have much text in common, and compression finds that only at a short distance. `FORMAT`
names the version of the fold as well. It must change when events fold to another state than before, or to a state of
another shape; otherwise old snapshots would be taken for states of the new fold.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import cast

import msgspec
from msgspec import structs
from msgspec.json import decode

from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.machine import SnapshotCodec
from steptrail.domain.messages import Message
from steptrail.domain.readable import readable

FORMAT = "agent.24"

_A_STEP = b'{"number":'
"""The beginning of the line of every step. No line of a message begins so."""


class _Head(msgspec.Struct, array_like=True):
    messages: int
    steps: int
    ended_at_version: list[int]
    origins: list[MessageOrigin]


def _items(log: object) -> list[object]:
    if isinstance(log, Log):
        return list(cast("Log[object]", log))
    raise NotImplementedError(f"a snapshot holds no {type(log).__name__}")


def _log(_: type, items: list[object]) -> object:
    return Log(items)


_ENCODER = msgspec.json.Encoder(enc_hook=_items)


def _dump(state: AgentState) -> list[bytes]:
    fold, encode = state.fold, _ENCODER.encode
    steps: Log[AgentStep] = fold.execution.steps if fold.execution is not None else Log()
    execution = fold.execution and structs.replace(fold.execution, steps=Log())
    rest = structs.replace(fold, messages=Log(), origins=Log(), ended_at_version=Log(), execution=execution)
    return [
        encode(_Head(len(fold.messages), len(steps), list(fold.ended_at_version), list(fold.origins))),
        encode(rest),
        *_in_turn(list(fold.messages.encoded(0, encode)), list(steps.encoded(0, encode)), steps),
    ]


def _in_turn(messages: list[bytes], written: list[bytes], steps: Iterable[AgentStep]) -> Iterator[bytes]:
    """Yield the messages in order, and each step after its own messages, as far as the counts of messages tell."""
    said = [len(step.tool_executions) + (step.reply is not None) for step in steps]
    done = max(len(messages) - sum(said), 0)
    yield from messages[:done]
    for line, count in zip(written, said, strict=True):
        yield from messages[done : done + count]
        yield line
        done += count
    yield from messages[done:]


def _load(lines: Iterable[bytes]) -> AgentState:
    rest = iter(lines)
    first, written = islice(rest, 2)
    head = decode(first, type=readable(_Head))
    of_messages, steps = list[bytes](), 0
    for line in rest:
        if line.startswith(_A_STEP):
            steps += 1
        else:
            of_messages.append(line)
    if (len(of_messages), steps) != (head.messages, head.steps):
        said, found = f"{head.messages} messages and {head.steps} steps", f"{len(of_messages)} and {steps}"
        raise ValueError(f"a snapshot of {said} has lines for {found}")
    if len(head.origins) != head.messages:
        raise ValueError(f"a snapshot of {head.messages} messages says where {len(head.origins)} come from")
    fold = decode(written, type=readable(SessionFold), dec_hook=_log)
    fold.messages = Log[Message].written(len(of_messages), lambda: of_messages, partial(decode, type=readable(Message)))
    fold.origins = Log(head.origins)
    fold.ended_at_version = Log(head.ended_at_version)
    if fold.execution is not None:
        fold.execution.steps = Log[AgentStep].written(
            steps, partial(_of_steps, lines), partial(decode, type=readable(AgentStep))
        )
    return AgentState(fold, as_of=fold.updated_at)


def _of_steps(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if line.startswith(_A_STEP)]


SNAPSHOTS: SnapshotCodec[AgentState] = SnapshotCodec(FORMAT, _dump, _load)
"""The codec of snapshots of a session."""
