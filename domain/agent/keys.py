"""The idempotency keys of a session: each is noted with its command, so that a repeated command is carried out once."""

import hashlib
import json
from collections.abc import Mapping

from steptrail.domain.base import Value, full_form
from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.messages import Message

__all__ = ["KeyUse", "said", "use_of"]


class KeyUse(Value, frozen=True):
    """The command that came with a key. `what` is the digest of its messages, or the name of a command without any.

    `execution` is the ordinal of the execution that the command began, or of the newest one at that time.
    """

    execution: int
    what: str


def said(*messages: Message) -> str:
    """Return the SHA-256 of messages, in hexadecimal. It is stored with their key to recognise them."""
    whole = [full_form(message) for message in messages]
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def use_of(keys: Mapping[str, KeyUse], key: str | None, what: str, *, command: str, session: str) -> KeyUse | None:
    """Return the earlier use of `key` for the same command; None when the key is new, or is None itself.

    Raises `CommandRejected` when the key was used for something else, because its result would be taken for the result
    of this command.
    """
    if key is None:
        return None
    use = keys.get(key)
    if use is not None and use.what != what:
        why = f"the key {shown(key)} came with another input or command before: use another key for this one"
        raise CommandRejected(command, session, why)
    return use
