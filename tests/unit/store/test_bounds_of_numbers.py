"""A stored number that cannot be is refused when it is read, whichever event holds it."""

import json
from collections.abc import Iterator
from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.domain.shared.events import LARGEST_SCORE
from steptrail.infrastructure.store.core import codec
from tests.golden.streams import FOLDER

FROM_ZERO = {
    *("delay_seconds", "draw", "duration_seconds", "interrupted_seconds", "step_seconds"),
    *("errors", "executions", "message_count", "position", "steps"),
    *("cleared_above", "cleared_calls", "cleared_through", "through_message", "through_step", "tokens_before"),
}
FROM_ONE = {"attempt", "execution", "failures", "number", "ordinal", "segment", "shown_characters", "version"}
UNOPENED = ("execution.started.v1", "segment")
"""A start for a worker in a new session comes before the first segment."""
INSTANTS = {"@", "deadline", "due_at", "expires_at", "until"}
OF_ANY_SIZE = {"value"}
"""A score is whatever somebody says."""
STEPS = {
    "continuation.evaluated.v1": 0,
    "hooks.ran.v1": 0,
    "inference.started.v1": 1,
    "model.switched.v1": 1,
    "output.accepted.v1": 1,
    "output.rejected.v1": 1,
    "session.scored.v1": 1,
}
"""The smallest step: the decision before the first step and its hooks say 0."""


def stored() -> Iterator[tuple[str, dict[str, object]]]:
    for stream in sorted(FOLDER.glob("*.jsonl")):
        for line in stream.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            yield record["type"], record["state"]


def smallest(kind: str, field: str) -> int | None:
    if field == "step":
        return STEPS[kind]
    if (kind, field) == UNOPENED:
        return 0
    if (kind, field) == ("session.scored.v1", "value"):
        return -LARGEST_SCORE
    return 0 if field in FROM_ZERO else 1 if field in FROM_ONE else None


def cases() -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield each event type with one of its numbers, and a stored event that holds it."""
    seen = set[tuple[str, str]]()
    for kind, state in stored():
        for field, value in state.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and field not in INSTANTS | OF_ANY_SIZE and (kind, field) not in seen:
                seen.add((kind, field))
                yield kind, field, state


@pytest.mark.parametrize(("kind", "field", "state"), [pytest.param(*case, id=".".join(case[:2])) for case in cases()])
def test_a_number_below_the_smallest_is_refused(kind: str, field: str, state: dict[str, object]) -> None:
    least = smallest(kind, field)
    if least is None:
        pytest.fail(f"{kind} stores {field}: say here which number is its smallest")
    good, bad = ({**state, field: number} for number in (least, least - 1))
    decoded = codec.decode(kind, json.dumps(good, separators=(",", ":")).encode())[1]
    assert getattr(decoded, field) == least
    with pytest.raises(ValueError, match=field):
        codec.decode(kind, json.dumps(bad, separators=(",", ":")).encode())


def test_the_numbers_that_no_stored_run_holds_are_bounded_as_well() -> None:
    classes = {event.TYPE: event for event in get_args(AgentEvent)}
    assert classes.keys() <= EVENT_TYPES.keys()
    unbounded = [
        f"{kind}.{field.name}"
        for kind, event in classes.items()
        for field in structs.fields(event)
        if (least := smallest_of_class(kind, field.name)) is not None and f"ge={least}" not in str(field.type)
    ]
    assert unbounded == []


def smallest_of_class(kind: str, name: str) -> int | None:
    return STEPS.get(kind) if name == "step" else smallest(kind, name)
