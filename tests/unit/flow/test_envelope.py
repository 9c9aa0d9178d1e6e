"""The envelope that a function reads: a copy of its own, which costs little."""

import sys
from types import FrameType
from typing import Any

from steptrail.domain.flow.envelope import Artifact, Envelope, NodeError
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message

ROWS: list[JsonValue] = [{"number": number, "name": "tea", "shelves": [1, 2, 3]} for number in range(1_000)]


def made() -> Envelope:
    failed = NodeError(
        node_id="a",
        kind="tool",
        message="no",
        attempt=1,
        visit=1,
        failure=FailureClass.TOOL,
        tier="node",
        at=0,
        details={"tool": "pay"},
    )
    return Envelope(
        input={"rows": [1]},
        vars={"rows": [{"n": 1}]},
        item=[1],
        artifacts=[Artifact(id="a", meta={"pages": [1]})],
        errors=[failed],
        trace={"ids": []},
    )


def test_what_a_function_changes_in_what_it_has_read_changes_nothing_else() -> None:
    envelope, same = made(), made()
    read: list[Any] = [envelope.input["rows"], envelope.vars["rows"][0], envelope.item, envelope.get("rows")[0]]
    read += [envelope.artifacts[0].meta, envelope.errors[0].details, envelope.trace]
    for each in read:
        each.clear()
    assert envelope == same
    assert Envelope(messages=[Message.user("hi")]).messages == (Message.user("hi"),)


def test_a_copy_of_many_rows_takes_a_few_calls_for_each_of_their_lists_and_objects() -> None:
    envelope, calls = Envelope(vars={"rows": ROWS}), [0]

    def note(frame: FrameType, event: str, _: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(note)
    try:
        rows = envelope.get("rows")
    finally:
        sys.setprofile(None)
    assert rows == ROWS
    assert calls[0] < 10 * len(ROWS)
