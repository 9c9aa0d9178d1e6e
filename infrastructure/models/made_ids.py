"""An id for a tool call that a provider gave none: made of the reply, so that reading it again makes the same one."""

import hashlib
import json

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_text


def call_id_of(given: JsonValue, *, reply: JsonValue, place: int, name: str) -> str:
    """Return the id that a call came with, or make one: of the reply's id, its place among the calls, and its name."""
    if (call_id := as_text(given)) is not None:
        return call_id
    told = json.dumps([reply if isinstance(reply, str) else None, place, name])
    return f"call_{hashlib.sha256(told.encode()).hexdigest()[:16]}"
