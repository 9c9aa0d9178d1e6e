"""The idempotency keys of a session: each is noted with its command, so that a repeated command is carried out once."""

from collections.abc import Mapping

from msgspec.structs import replace

from steptrail.domain.base import Value, full_form
from steptrail.domain.digests import digest_of
from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message


class KeyUse(Value, frozen=True):
    """The command that came with a key. `what` is what was `said`, or the name of a command without messages.

    `execution` is the ordinal of the execution that the command began, or of the newest one at that time; once that has
    been retried, of its newest retry. `ran` is the name of the agent or workflow that the command was to run; None when
    it named none.
    """

    execution: int
    what: str
    ran: str | None = None


def with_retry(keys: Mapping[str, KeyUse], ordinal: int) -> dict[str, KeyUse]:
    """Return the keys once an execution has begun that retries the one before it: it counts as what it retries."""
    return {key: replace(use, execution=ordinal) if use.execution == ordinal - 1 else use for key, use in keys.items()}


def said(*messages: Message, context: JsonValue = None) -> str:
    """Return the SHA-256 of messages, and after a line break that of their context, if they have one.

    It is stored with their key to recognise them.
    """
    words = digest_of([full_form(message) for message in messages])
    return words if context is None else f"{words}\n{digest_of(context)}"


def use_of(
    keys: Mapping[str, KeyUse], key: str | None, what: str, *, runs: str | None = None, command: str, session: str
) -> KeyUse | None:
    """Return the earlier use of `key` for the same command; None when the key is new, or is None itself.

    A command without a context is the same as one with the same words and any context. `runs` is the name of the agent
    or workflow that the command is to run; None when it names none, which is the same as any.

    Raises `CommandRejected` when the key was used for something else, because its result would be taken for the result
    of this command.
    """
    if key is None:
        return None
    use = keys.get(key)
    if use is None:
        return None
    why = None
    if what not in {use.what, use.what.partition("\n")[0]}:
        why = "another input, context or command before"
    elif use.ran is not None and runs is not None and use.ran != runs:
        why = f"{shown(use.ran)} before, not {shown(runs)}"
    if why is not None:
        raise CommandRejected(command, session, f"the key {shown(key)} came with {why}: use another key for this one")
    return use
