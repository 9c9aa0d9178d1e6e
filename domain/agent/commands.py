"""Requests from outside, in the imperative. `decide` accepts or rejects them; nothing else does.

`by` names who asks; `key` is an idempotency key: the same command with the same key is accepted once.
"""

from dataclasses import dataclass, field, fields
from typing import Literal, cast

from pydantic import JsonValue

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import NotStorable
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
"""What a person says of a call whose outcome is unknown: it did this, it failed, run it again, tell the model so."""


class _FromOutside:
    """Refuses with `NotStorable`, which names the field, what could be written into the log and not be read again."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for each in fields(cast("Start", self)):
            value = getattr(self, each.name)
            if isinstance(value, (dict, list)):
                # A copy, too: what its giver changes afterwards changes nothing here.
                object.__setattr__(self, each.name, storable(cast("object", value), each.name))
            elif isinstance(value, Message | tuple):
                _check_messages(cast("Message | tuple[Message, ...]", value), each.name)
            elif isinstance(value, str | float):
                storable(value, each.name)
                if each.name == "by" and "\0" in str(value):
                    # It becomes a column of text, which PostgreSQL ends there.
                    raise NotStorable("by", "a name with a NUL")


def _check_messages(given: Message | tuple[Message, ...], where: str) -> None:
    for message in (given,) if isinstance(given, Message) else given:
        storable(message.model_dump(), where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(_FromOutside):
    """Open an execution with an input, and the session with it when there is none.

    `history` is what was said before, elsewhere: only a session that there is not yet can begin with one. With `new` no
    other session is taken. The session's `metadata` has these entries from then on.
    """

    input: Message
    agent: AgentSnapshot
    worker: str
    by: str = "user"
    key: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    parent: ParentRef | None = None
    history: tuple[Message, ...] = ()
    new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(_FromOutside):
    """Open an execution that goes on where the last one came to no answer, with these settings in place of the agent's.

    What was said stays said, and what its tools did stays done.
    """

    agent: AgentSnapshot
    worker: str
    by: str = "user"
    reason: str | None = None
    key: str | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(_FromOutside):
    """Add to the conversation of an open execution."""

    messages: tuple[Message, ...]
    by: str = "user"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_FromOutside):
    """Go on with the open execution in a new segment. `last_seen` is the last sign of life of the old one.

    `key` is one under which its input came again.
    """

    agent: AgentSnapshot
    worker: str
    last_seen: int
    ended_by: SegmentEnd | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    by: str = "user"
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(_FromOutside):
    """Say what a call whose outcome is unknown did, or what is to become of it."""

    effect_id: str
    by: str
    verdict: Verdict
    result: JsonValue = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve(_FromOutside):
    """Say yes to a call that waits for approval, at the instant `at` (microseconds of UTC).

    `arguments` replace the call's as a whole. With a `digest` the yes is to the arguments of that digest and no others.
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
    """Open another session that goes on from this one's past as it is folded here.

    What it brings about begins the new session's stream. `digest` is that of the commit that holds the newest event.
    """

    by: str
    digest: str = ""
    name: str | None = None
    reason: str | None = None
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


Command = Start | Retry | Send | Resume | Settle | Approve | Deny | Fork | OwnersCommand
