"""The first answer to a question, for somebody whose answer comes second: who gave it, and when."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from steptrail.domain.errors import CommandRejected
from steptrail.domain.instants import instant_text
from steptrail.domain.shared.approvals import NotAsked
from steptrail.domain.shared.commands import Approve, Deny
from steptrail.domain.shared.events import ApprovalDenied, ApprovalGranted
from steptrail.runtime.kernel.ports import EventStore

T = TypeVar("T")
APPROVALS: Sequence[str] = (ApprovalGranted.TYPE, ApprovalDenied.TYPE)


def answer_to_approval(command: Approve | Deny) -> Callable[[Any], str | None]:
    """Return what says, of an event that answers an approval, how it answers that of a command; None for another."""

    def said(event: ApprovalGranted | ApprovalDenied) -> str | None:
        if event.approval_id != command.approval_id:
            return None
        return "granted" if isinstance(event, ApprovalGranted) else "denied"

    return said


async def answered_once(
    answering: Awaitable[T], store: EventStore, stream: str, types: Sequence[str], said: Callable[[Any], str | None]
) -> T:
    """Answer a question. Raises `CommandRejected`, which says who has answered it before, and when, if somebody has.

    `types` are the stored types of answers, and `said` returns what one of them did with the question, in a word. The
    word is empty for an event that asks anew: what came before answered another question.
    """
    try:
        return await answering
    except NotAsked as refused:
        first = await first_answer(store, stream, types, said)
        why = refused.why if first is None else f"{first}, and {refused.once}"
        raise CommandRejected(refused.command, refused.session, why) from None


async def first_answer(
    store: EventStore, stream: str, types: Sequence[str], said: Callable[[Any], str | None]
) -> str | None:
    """Return who has answered a question, how and when, in words; None when nobody has. See `answered_once`."""
    first: str | None = None
    async for _, _, record in store.log(stream=stream, types=types, on_corrupt=lambda _: None):
        if (word := said(record.event)) is not None:
            by = getattr(record.event, "by", None) or (record.head.actor if record.head is not None else "somebody")
            first = f"{by} has {word} it already, at {instant_text(record.at)}" if word else None
    return first
