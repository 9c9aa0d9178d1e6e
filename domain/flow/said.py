"""The texts by which the input of a run, and the answer to a question, are recognised when they come again."""

import hashlib

import msgspec

from steptrail.domain.digests import digest_of
from steptrail.domain.flow.commands import AnswerQuestion
from steptrail.domain.flow.events import FlowStarted, HumanAnswered
from steptrail.domain.flow.ids import node_asked_in


def said(event: FlowStarted) -> str:
    """Return the SHA-256 of what the caller gave: input, variables, messages, artifacts and context."""
    given = (event.input, event.vars, event.messages, event.artifacts, event.context)
    return hashlib.sha256(msgspec.json.encode(given, order="deterministic")).hexdigest()


def said_to(to: str, answer: AnswerQuestion | HumanAnswered) -> str:
    """Return what identifies an answer to the node or the request `to` under its key."""
    given = digest_of([answer.choice, answer.approved, answer.data, answer.notes])
    return f"answer {node_asked_in(to)} {given}"
