"""A session's state as bytes, for snapshots: one line of JSON for the accumulators, one for each message and step.

The lines of messages and steps are decoded when somebody looks at them, so reading a snapshot costs next to nothing
however long the session is. A step stands right behind its messages, which say much the same: apart, whoever packs the
lines would not see that. `FORMAT` stands for the fold as well: events that fold to something else than they did, or
to a state of another shape, need another one, or old snapshots would be taken for the new fold.
"""

from collections.abc import Iterable, Iterator
from functools import cache, partial

from pydantic import TypeAdapter

from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import AgentStep
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.machine import SnapshotCodec
from steptrail.domain.messages import Message

__all__ = ["FORMAT", "SNAPSHOTS"]

FORMAT = "agent.12"

_A_STEP = b'{"number":'
"""How the line of a step begins, and none of a message."""

# Made when first needed: they would take up a good part of the time that importing Steptrail may take, and whoever goes
# on with a session looks at no step.


@cache
def _counts() -> TypeAdapter[tuple[int, int, list[int]]]:
    return TypeAdapter(tuple[int, int, list[int]])


@cache
def _folds() -> TypeAdapter[SessionFold]:
    return TypeAdapter(SessionFold)


@cache
def _messages() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


@cache
def _steps() -> TypeAdapter[AgentStep]:
    return TypeAdapter(AgentStep)


def _dump(state: AgentState) -> bytes:
    fold = state.fold
    steps: Log[AgentStep] = fold.execution.steps if fold.execution is not None else Log()
    return b"\n".join(
        [
            _counts().dump_json((len(fold.messages), len(steps), list(fold.ended_at_version))),
            _folds().dump_json(
                fold, by_alias=True, exclude={"messages": True, "ended_at_version": True, "execution": {"steps"}}
            ),
            *_in_turn(
                list(fold.messages.encoded(0, partial(_messages().dump_json, by_alias=True))),
                list(steps.encoded(0, partial(_steps().dump_json, by_alias=True, exclude_defaults=True))),
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
    messages, steps, ended = _counts().validate_json(counts)
    of_steps = [line for line in lines if line.startswith(_A_STEP)]
    of_messages = [line for line in lines if not line.startswith(_A_STEP)]
    if (len(of_messages), len(of_steps)) != (messages, steps):
        msg = (
            f"a snapshot of {messages} messages and {steps} steps has lines for {len(of_messages)} and {len(of_steps)}"
        )
        raise ValueError(msg)
    fold = _folds().validate_json(written)
    if len(fold.origins) != messages:
        msg = f"a snapshot of {messages} messages says where {len(fold.origins)} come from"
        raise ValueError(msg)
    fold.messages = Log[Message].written(of_messages, _messages().validate_json)
    fold.ended_at_version = Log(ended)
    if fold.execution is not None:
        fold.execution.steps = Log[AgentStep].written(of_steps, lambda line: _steps().validate_json(line))
    return AgentState(fold, as_of=fold.updated_at)


SNAPSHOTS: SnapshotCodec[AgentState] = SnapshotCodec(FORMAT, _dump, _load)
"""How an agent's state is written down and read back."""
