"""Encodes the state of a session for snapshots: one line of JSON for the accumulators, one for each message and step.

Messages and steps are decoded when they are first read, because a session goes on without them. So opening a snapshot
is quick however long the session is. What a step and its messages both say is written once, with the messages: it is
two thirds of the text, and takes its time to unpack. `FORMAT` names the version of the fold as well. It must change
when events fold to another state than before, or to a state of another shape; otherwise old snapshots would be taken
for states of the new fold.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import cast

import msgspec
from msgspec import structs
from msgspec.json import decode

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep, ToolExecution
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.machine import SnapshotCodec
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.readable import readable

FORMAT = "agent.41"

_NO_CALL = ToolCallPart(id="", name="")


class _Head(msgspec.Struct, array_like=True):
    messages: int
    steps: int
    ended_at_version: list[int]
    origins: list[MessageOrigin]


class _WrittenStep(msgspec.Struct, array_like=True):
    """A step, without what the message of its reply, at index `said_at`, and those of its calls after it say too.

    None for a step that is written whole.
    """

    step: AgentStep
    said_at: int | None = None


def _items(log: object) -> list[object]:
    if isinstance(log, Log):
        return list(cast("Log[object]", log))
    raise NotImplementedError(f"a snapshot holds no {type(log).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_items)


def lines_of(state: AgentState, *, whole: bool = False) -> list[bytes]:
    """Return the lines of a state. `whole` lines of steps say what the messages say too."""
    fold, encode = state.fold, _ENCODER.encode
    steps: Log[AgentStep] = fold.execution.steps if fold.execution is not None else Log()
    execution = fold.execution and structs.replace(fold.execution, steps=Log())
    rest = structs.replace(fold, messages=Log(), origins=Log(), ended_at_version=Log(), execution=execution)
    lines = [
        encode(_Head(len(fold.messages), len(steps), list(fold.ended_at_version), list(fold.origins))),
        encode(rest),
    ]
    said_at = dict[int, int]()

    # A message that is still encoded belongs to a step that is still encoded: neither has been read.
    def written(message: Message) -> bytes:
        said_at[id(message.parts)] = len(lines) - 2
        return encode(message)

    for line in fold.messages.encoded(0, written):
        lines.append(line)
    if whole:
        lines.extend(encode(_WrittenStep(step)) for step in steps)
    else:
        lines.extend(steps.encoded(0, lambda step: encode(_shortened(step, said_at, fold.messages))))
    return lines


def _shortened(step: AgentStep, said_at: Mapping[int, int], messages: Log[Message]) -> _WrittenStep:
    reply, calls = step.reply, step.tool_executions
    place = said_at.get(id(reply.parts)) if reply is not None else None
    if reply is None or place is None:
        return _WrittenStep(step)
    answers = messages[place + 1 : place + 1 + len(calls)]
    if list(map(attrgetter("call"), calls)) != list(reply.tool_calls) or len(answers) != len(calls):
        return _WrittenStep(step)
    short = list[ToolExecution]()
    for call, answer in zip(calls, answers, strict=True):
        if call.phase is CallPhase.COMPLETED:
            if call.text != answer.text or call.result is None:
                return _WrittenStep(step)
            call = structs.replace(call, text=None, result=None if call.result == call.text else call.result)
        short.append(structs.replace(call, call=_NO_CALL))
    return _WrittenStep(
        structs.replace(step, reply=structs.replace(reply, parts=()), tool_executions=tuple(short)), place
    )


def _step(messages: Log[Message], line: bytes) -> AgentStep:
    written = decode(line, type=readable(_WrittenStep))
    step, place = written.step, written.said_at
    if place is None or step.reply is None:
        return step
    reply = structs.replace(step.reply, parts=messages[place].parts)
    answers = messages[place + 1 : place + 1 + len(step.tool_executions)]
    calls = list[ToolExecution]()
    for call, asked, answer in zip(step.tool_executions, reply.tool_calls, answers, strict=True):
        if call.phase is CallPhase.COMPLETED:
            text = answer.text
            call = structs.replace(call, text=text, result=text if call.result is None else call.result)
        calls.append(structs.replace(call, call=asked))
    return structs.replace(step, reply=reply, tool_executions=tuple(calls))


def _load(lines: Iterable[bytes]) -> AgentState:
    rest = iter(lines)
    first, written = islice(rest, 2)
    head = decode(first, type=readable(_Head))
    of_messages = list(islice(rest, head.messages))
    steps = sum(1 for _ in rest)
    if (len(of_messages), steps) != (head.messages, head.steps):
        said, found = f"{head.messages} messages and {head.steps} steps", f"{len(of_messages)} and {steps}"
        raise ValueError(f"a snapshot of {said} has lines for {found}")
    if len(head.origins) != head.messages:
        raise ValueError(f"a snapshot of {head.messages} messages says where {len(head.origins)} come from")
    fold = decode(written, type=readable(SessionFold), dec_hook=lambda _, items: Log(items))
    fold.messages = Log[Message].written(len(of_messages), lambda: of_messages, partial(decode, type=readable(Message)))
    fold.origins = Log(head.origins)
    fold.ended_at_version = Log(head.ended_at_version)
    if fold.execution is not None:
        fold.execution.steps = Log[AgentStep].written(
            steps, lambda: list(islice(lines, 2 + head.messages, None)), partial(_step, fold.messages)
        )
    return AgentState(fold, as_of=fold.updated_at)


SNAPSHOTS: SnapshotCodec[AgentState] = SnapshotCodec(FORMAT, lines_of, _load)
"""The codec of snapshots of a session."""
