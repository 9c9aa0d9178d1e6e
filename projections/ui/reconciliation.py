"""How a front end joins the messages that were streamed to it with the stored conversation.

The stored conversation wins. It lacks only the errors that were shown while the run went on: they stay where they were
shown. The rules stand in the guide for front ends, and as cases that every client runs.
"""

from collections.abc import Iterator, Mapping

from steptrail.domain.kernel.given import a_kind_of
from steptrail.projections.ui.models import UiConversation, UiMessage


def reconcile(shown: UiConversation, stored: UiConversation) -> UiConversation:
    """Return the messages to show of a session, given those that are shown and those that are stored of it.

    A stored conversation that is older than the shown one is ignored. Doing it twice is doing it once.
    """
    for given in (shown, stored):
        a_kind_of(UiConversation, given, "what is reconciled")
    if stored.version < shown.version:
        return shown
    kept = _errors(shown, stored)
    return stored.model_copy(update={"messages": tuple(_woven(stored, kept))}) if kept else stored


def _errors(shown: UiConversation, stored: UiConversation) -> dict[str | None, list[UiMessage]]:
    """Return the errors that only the front end knows, by the id of the stored message that they follow."""
    known = {message.id for message in stored.messages}
    of_calls = {key: message.id for message in stored.messages if (key := _call(message)) is not None}
    after: str | None = None
    kept: dict[str | None, list[UiMessage]] = {}
    for message in shown.messages:
        if message.id in known:
            after = message.id
        elif message.metadata is not None and message.metadata.status_type == "error":
            kept.setdefault(after, []).append(message)
        else:
            after = _match(message, of_calls) or after
    return kept


def _call(message: UiMessage) -> str | None:
    """Return what a tool message says of its call: the model's id for it, or else the name of the tool."""
    if message.role != "tool" or message.metadata is None:
        return None
    return message.metadata.tool_call_id or message.metadata.tool_name


def _match(message: UiMessage, of_calls: Mapping[str, str]) -> str | None:
    call = _call(message)
    return of_calls.get(call) if call is not None else None


def _woven(stored: UiConversation, kept: Mapping[str | None, list[UiMessage]]) -> Iterator[UiMessage]:
    yield from kept.get(None, ())
    for message in stored.messages:
        yield message
        yield from kept.get(message.id, ())
