"""A run as JSON: what `steptrail why --json` says of it, masked as its page is, and of a bounded size."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from steptrail.domain.json_value import JsonValue
from steptrail.interfaces.cli.kinds import kind_shown
from steptrail.interfaces.http.inspector.bodies import LARGE, abridged
from steptrail.interfaces.http.inspector.told import asked_text, told
from steptrail.projections.masking import Masking
from steptrail.projections.run_explanation import RunExplanation

_NO_CONTENT: Final = frozenset(
    {
        *("sessionId", "flowId", "name", "executionId", "retryOf", "retriedAs", "worker", "owned", "sameFailure"),
        *("status", "stopReason", "answered", "resolvedBy", "rule", "limit", "crashed", "crash", "damage"),
        *("spent", "events", "notReached", "continuesWith", "wouldContinue", "next", "nextIsFor", "waits"),
        *("attempts", "interrupted", "kept"),
    }
)
"""The keys under which nothing stands that people, models or tools have said."""
_OF_A_VOTE: Final = frozenset({"criterionClass", "criterion", "decision", "stopReason", "step", "version"})
_VOTES: Final = frozenset({"evaluations", "shadowStops", "stubborn"})


def run_json(stream: str, explained: RunExplanation, masking: Masking, store: str | None) -> dict[str, JsonValue]:
    """Return the explanation of a run as JSON, as it may be shown.

    Values of more than 8 kB are cut: `leftOut` has the path of each in this JSON, and its size in characters.
    """
    data = dict(kind_shown(stream).why_data(explained, store))
    head = told(stream, explained, masking, store)
    if asks := [*head.questions, *head.expired]:
        # Both repeat the arguments that people are asked about, which `approvals` has as they may be shown.
        asked = "somebody " + ", and ".join(map(asked_text, asks))
        data |= {"verdict": head.said, "waitsFor": asked}
    elif not masking.shows_values:
        data["verdict"] = head.said
    shown = masking.value(data) if masking.shows_values else {key: _shaped(key, data[key], masking) for key in data}
    cut = abridged(shown, most=LARGE)
    left_out: list[JsonValue] = [{"path": each.path, "size": each.size} for each in cut.left_out]
    return {**json.loads(cut.text), "leftOut": left_out}


def _shaped(key: str, value: JsonValue, masking: Masking) -> JsonValue:
    """Return what is shown of an entry where no value is shown."""
    if key in _NO_CONTENT or key == "verdict":
        return value
    if key in _VOTES:
        votes = cast("Sequence[Mapping[str, JsonValue]]", value or ())
        return [
            {name: said if name in _OF_A_VOTE else masking.value(said) for name, said in vote.items()} for vote in votes
        ]
    return masking.value(value)
