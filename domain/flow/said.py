"""The text by which the input of a run is recognised when it comes again."""

import hashlib

import msgspec

from steptrail.domain.flow.events import FlowStarted


def said(event: FlowStarted) -> str:
    """Return the SHA-256 of what the caller gave: input, variables, messages, artifacts and context."""
    given = (event.input, event.vars, event.messages, event.artifacts, event.context)
    return hashlib.sha256(msgspec.json.encode(given, order="deterministic")).hexdigest()
