"""Events of the session itself: it began, or began as a fork; messages were added; its metadata changed."""

from enum import StrEnum

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import Message
from steptrail.domain.shared.forks import Forked


class SessionForked(Forked, frozen=True, kw_only=True):
    """A session was opened as a fork. Its past is the first `version` events of `source`, which are not copied.

    `agent` is that of the execution that goes on here; None when none is open.
    """

    TYPE = "session.forked.v1"
    KIND = EventKind.INTENT
    STATE = Forked.STATE | {"agent"}
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
