"""Idempotency keys of a session: what each came with, so that the same is done once and something else is refused."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from steptrail.domain.errors import CommandRejected, shown
from steptrail.domain.messages import Message

__all__ = ["KeyUse", "said", "use_of"]


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What came with a key: `what` is the digest of what was said, or the name of another command.

    `execution` is the ordinal of the execution that it began, or was the newest when it came.
    """

    execution: int
    what: str


def said(*messages: Message) -> str:
    """Return what stands for messages beside their key: a SHA-256, in hexadecimal."""
    whole = [message.model_dump(mode="json") for message in messages]
    text = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def use_of(keys: Mapping[str, KeyUse], key: str | None, what: str, *, command: str, session: str) -> KeyUse | None:
    """Return the use of a key that came with the same before; None for a new one, or none at all.

    Raises `CommandRejected` when it came with something else: its result would be taken for an answer to this.
    """
    if key is None:
        return None
    use = keys.get(key)
    if use is not None and use.what != what:
        why = f"the key {shown(key)} came with another input or command before: use another key for this one"
        raise CommandRejected(command, session, why)
    return use
