"""What the model says and the tool returns, step by step: the same words for every library that is measured.

Standard library only, because the peers run in environments that hold nothing of ours. A text depends on its step
alone, has the same length at every step, and is made before any clock starts.
"""

import random
from functools import cache

TOOL = "lookup"
QUESTION = "Compare each shipment with its invoice and tell me which of them disagree."
ANSWER = "Two shipments disagree with their invoices."

_REPLY, _QUERY, _RESULT = 200, 64, 500
_VOCABULARY = (
    "pallet invoice weight carrier harbour customs signed missing total crate ledger receipt agrees differs between "
    "and the of in was found again later number column entry note checked open closed held late partial complete"
)


def warm(steps: int) -> None:
    """Make every text of a run of `steps` steps."""
    for step in range(1, steps + 1):
        reply_text(step)
        arguments(step)
        tool_result(step)


@cache
def reply_text(step: int) -> str:
    """Return what the model says beside its tool call: 200 characters."""
    return _words(f"reply {step}", _REPLY)


@cache
def _query(step: int) -> str:
    return _words(f"query {step}", _QUERY)


def arguments(step: int) -> dict[str, str | int]:
    """Return the arguments of the tool call: about 100 bytes as JSON."""
    return {"step": step, "table": "shipments", "query": _query(step)}


@cache
def tool_result(step: int) -> str:
    """Return what the tool returns: 500 characters."""
    return _words(f"result {step}", _RESULT)


def _words(seed: str, length: int) -> str:
    choose, words = random.Random(seed).choice, _VOCABULARY.split()
    text = choose(words)
    while len(text) < length:
        text += " " + choose(words)
    return text[:length]
