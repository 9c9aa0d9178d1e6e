"""Events of the session itself: it began, or began as a fork; messages were added; its metadata changed."""

from enum import StrEnum

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.base import Count, Positive
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import ExecutionStatus


class SessionForked(Event, frozen=True, kw_only=True):
    """A session was opened as a fork. Its past is the first `version` events of `source`, which are not copied.

    `digest` is that of the commit with the last of those events, in hexadecimal. `status`, `executions` and `steps` (of
    the last execution) describe that past, for lists that read no other session. So do `agent`, that of the execution
    that goes on here, None when none is open, and `metadata`, with what the past has.
    """

    TYPE = "session.forked.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"agent", "by", "digest", "metadata", "name", "reason", "source"})
    name: str
    source: str
    version: Positive
    digest: str
    by: str
    reason: str | None = None
    status: ExecutionStatus
    executions: Count
    steps: Count
    metadata: dict[str, JsonValue] = {}
    agent: AgentSnapshot | None = None


class MessageSource(StrEnum):
    """The source of messages that are added to the conversation."""

    INPUT = "input"
    """A caller or an operator, by a command."""
    HOOK = "hook"
    """A hook of the agent."""


class MessagesAppended(Event, frozen=True, kw_only=True):
    """Messages were added to the conversation. During a step they wait for its end.

    `by` names the caller, the operator or the hook. `key` is the command's idempotency key.
    """

    TYPE = "messages.appended.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"messages"})
    STATE = frozenset({"by", "key"})
    messages: tuple[Message, ...]
    source: MessageSource = MessageSource.INPUT
    by: str
    key: str | None = None

    @property
    def counts_as(self) -> EventKind:
        """The messages of a hook are a fact of the owner; other messages come from outside."""
        return EventKind.FACT if self.source is MessageSource.HOOK else self.KIND


SessionEvent = SessionForked | MessagesAppended
