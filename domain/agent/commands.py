"""The commands to a session: requests from outside, in the imperative. Only `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from dataclasses import dataclass, field, fields
from typing import Literal, cast

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.base import full_form, made
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import OwnersCommand
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.storable import storable

__all__ = [
    "Approve",
    "Command",
    "Deny",
    "Fork",
    "Resume",
    "Retry",
    "Send",
    "Settle",
    "Start",
    "Verdict",
]

Verdict = Literal["completed", "failed", "rerun", "tell"]
"""A person's verdict on a call whose outcome is unknown: it completed, it failed, run it again, or tell the model that
its outcome is unknown."""


class _FromOutside:
    """The base of commands with data from outside. Raises `NotStorable` for data that could not be read back."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(cast("Start", self)):
            value = getattr(self, each.name)
            if isinstance(value, (dict, list)):
                # This is also a copy: the command does not change when the caller changes its own data afterwards.
                object.__setattr__(self, each.name, storable(cast("object", value), each.name))
            elif isinstance(value, Message | tuple):
                object.__setattr__(self, each.name, _as_stored(cast("Message | tuple[Message, ...]", value), each.name))
            elif isinstance(value, str | float):
                storable(value, each.name)
                if each.name == "by" and "\0" in str(value):
                    # It becomes a column of text, which PostgreSQL ends there.
                    raise NotStorable("by", "a name with a NUL")


def _as_stored(given: Message | tuple[Message, ...], where: str) -> Message | tuple[Message, ...]:
    """Return checked copies of messages."""
    if isinstance(given, tuple):
        return tuple([_copy(message, where) for message in given])
    return _copy(given, where)


def _copy(message: Message, where: str) -> Message:
    form = storable(full_form(message), where)
    try:
        return made(Message, cast("dict[str, JsonValue]", form))
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(_FromOutside):
    """Open an execution with an input. A session that does not exist is opened with it.

    `history` holds messages from another place, with which a new session begins. `new` rejects a session that exists.
    The entries of `metadata` are added to those of the session. Without a `context` the session keeps the one it has.
    """

    input: Message
    agent: AgentSnapshot
    worker: str | None
    by: str = "user"
    key: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    parent: ParentRef | None = None
    history: tuple[Message, ...] = ()
    new: bool = False
    context: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(_FromOutside):
    """Open an execution that goes on where the last one ended without an answer.

    Its messages stay in the conversation, and its tool calls are not repeated. `limits` and `error_policy` replace
    those of the agent, and `context` replaces that of the session; None keeps them.
    """

    agent: AgentSnapshot
    worker: str
    by: str = "user"
    reason: str | None = None
    key: str | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    context: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(_FromOutside):
    """Add messages to the conversation of an open execution. With a `context`, only if the execution has the same."""

    messages: tuple[Message, ...]
    by: str = "user"
    key: str | None = None
    context: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_FromOutside):
    """Go on with the open execution in a new segment.

    `last_seen` is the instant of the last sign of life of the old segment, in microseconds of UTC. `key` is a new key
    under which the input of the execution came again. `context` replaces the recorded one.
    """

    agent: AgentSnapshot
    worker: str
    last_seen: int
    ended_by: SegmentEnd | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    by: str = "user"
    key: str | None = None
    context: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(_FromOutside):
    """Give a verdict on the call `effect_id`, whose outcome is unknown."""

    effect_id: str
    by: str
    verdict: Verdict
    result: JsonValue = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(_FromOutside):
    """Say yes to a call that waits for approval, at the instant `at` (microseconds of UTC).

    `arguments` replace those of the call as a whole. With a `digest` the yes holds only for arguments of that digest.
    """

    approval_id: str
    by: str
    at: int
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    digest: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny(_FromOutside):
    """Say no to a call that waits for approval, at the instant `at` (microseconds of UTC)."""

    approval_id: str
    by: str
    at: int
    reason: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(_FromOutside):
    """Open another session that goes on from the past of this one, up to the folded state.

    The events that follow begin the stream of the new session. `digest` is that of the commit with the newest event of
    this past.
    """

    by: str
    digest: str = ""
    name: str | None = None
    reason: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


Command = Start | Retry | Send | Resume | Settle | Approve | Deny | Fork | OwnersCommand
