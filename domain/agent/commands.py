"""The commands to a session: requests from outside, in the imperative. Only `decide` accepts or rejects them.

`by` names the person or program that asks. `key` is an idempotency key: a command is accepted once for each key.
"""

from typing import Literal

from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.given_history import in_order
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import FromOutside, OwnersCommand
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.forks import Fork
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.shared.scores import GiveScore
from steptrail.domain.tools import ToolSpec

__all__ = [
    "AnswerCall",
    "Approve",
    "Command",
    "Deny",
    "Fork",
    "GiveScore",
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


class Start(FromOutside, frozen=True, kw_only=True):
    """Open an execution with an input. A session that does not exist is opened with it.

    `history` holds messages from another place, with which a new session begins. `new` rejects a session that exists.
    The entries of `metadata` are added to those of the session. Without a `context` the session keeps the one it has.
    `external_tools` are for this execution alone. `cause` is the id of what led to it, such as a request: where nothing
    is run with the command, its commit names it.
    """

    DOING = "run"
    input: Message
    agent: AgentSnapshot
    worker: str | None
    by: str = "user"
    key: str | None = None
    metadata: dict[str, JsonValue] = {}
    parent: ParentRef | None = None
    history: tuple[Message, ...] = ()
    new: bool = False
    context: JsonValue = None
    external_tools: tuple[ToolSpec, ...] = ()
    cause: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        structs.force_setattr(self, "history", in_order(self.history))

    @property
    def runs(self) -> str | None:
        """The agent that its key stands for. A child has the key of the call that runs it, however it is named now."""
        return self.agent.name if self.parent is None else None


class Retry(FromOutside, frozen=True, kw_only=True):
    """Open an execution that goes on where the last one ended without an answer.

    Its messages stay in the conversation, and its tool calls are not repeated. `limits` and `error_policy` replace
    those of the agent, and `context` replaces that of the session; None keeps them. Without a `worker` the execution is
    pending: a worker begins with it.
    """

    DOING = "retry"
    agent: AgentSnapshot
    worker: str | None
    by: str = "user"
    reason: str | None = None
    key: str | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    context: JsonValue = None


class Send(FromOutside, frozen=True, kw_only=True):
    """Add messages to the conversation of an open execution. With a `context`, only if the execution has the same.

    `external_tools` are for an execution that begins with the message; an open one keeps its own. `cause` is as in
    `Start`.
    """

    DOING = "send to"
    messages: tuple[Message, ...]
    by: str = "user"
    key: str | None = None
    context: JsonValue = None
    external_tools: tuple[ToolSpec, ...] = ()
    cause: str | None = None


class Resume(FromOutside, frozen=True, kw_only=True):
    """Go on with the open execution in a new segment.

    `last_seen` is the instant of the last sign of life of the old segment, in microseconds of UTC. `key` is a new key
    under which the input of the execution came again. `context` replaces the recorded one. `moved` are the streams
    below that rested and go on by now; None where nobody has looked.
    """

    DOING = "resume"
    agent: AgentSnapshot
    worker: str
    last_seen: int
    ended_by: SegmentEnd | None = None
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    moved: tuple[str, ...] | None = None
    by: str = "user"
    key: str | None = None
    context: JsonValue = None


class AnswerCall(FromOutside, frozen=True, kw_only=True):
    """Give the result of the external call `effect_id`, or the `error` with which it failed, at the instant `at`.

    `at` is in microseconds of UTC.
    """

    DOING = "answer a call of"
    effect_id: str
    by: str
    at: int
    result: JsonValue = None
    error: str | None = None
    reason: str | None = None
    key: str | None = None


class Settle(FromOutside, frozen=True, kw_only=True):
    """Give a verdict on the call `effect_id`, whose outcome is unknown."""

    effect_id: str
    by: str
    verdict: Verdict
    result: JsonValue = None
    message: str | None = None
    reason: str | None = None


Command = Start | Retry | Send | Resume | AnswerCall | Settle | Approve | Deny | GiveScore | Fork | OwnersCommand
