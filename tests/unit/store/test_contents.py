"""An event is stored as its state and its content, and both together are the event."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.agent.events import InferenceCompleted, ToolExecutionCompleted
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.kernel.record import CommitHead
from steptrail.domain.messages import TextPart, ToolCallPart
from steptrail.domain.usage import Usage
from steptrail.infrastructure.store.core.blobs import LIMIT, MARK, blob_fault, detach_all, no_blobs, read_record
from steptrail.infrastructure.store.core.codec import apart, decode_state, encode
from steptrail.infrastructure.store.core.contents import encoded_parts, joined
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.testing.store_contract import Noted, Written
from tests.golden.streams import FOLDER, read

AT = 1_700_000_000_000_000

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def test_the_content_of_an_event_has_the_form_of_the_event_and_the_state_has_the_rest() -> None:
    parts = (TextPart(text="I look."), ToolCallPart(id="c1", name="search", arguments={"query": "late"}))
    reply = ModelReply(parts=parts, finish_reason=FinishReason.TOOL_CALLS, usage=Usage())
    state, content = encoded_parts(InferenceCompleted(reply=reply, duration_seconds=1.5))
    assert content is not None
    assert json.loads(content) == {"reply": {"parts": [{"text": "I look."}, {"arguments": {"query": "late"}}]}}
    assert b"look" not in state
    assert b"late" not in state
    kept: dict[str, Any] = json.loads(state)
    assert (kept["reply"]["parts"][1]["id"], kept["reply"]["parts"][1]["name"]) == ("c1", "search")


def test_an_event_that_says_no_word_has_no_content_and_is_stored_as_it_is() -> None:
    for event in (Noted(), Noted(number=7), Written(tags={"a": 1})):
        assert (AT, *encoded_parts(event)) == (*apart(encode(event, AT)), None)


@pytest.mark.parametrize("stream", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_event_of_a_recorded_run_is_its_state_and_its_content(stream: Any) -> None:
    records = read(stream)
    assert records
    for record in records:
        state, content = encoded_parts(record.event)
        assert decode_state(record.event.TYPE, joined(record.event.TYPE, state, content)) == record.event


@given(json_values, st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_any_json_survives_being_parted(data: Any, tags: Any) -> None:
    event = Written(data=data, tags=tags)
    state, content = encoded_parts(event)
    assert decode_state(Written.TYPE, joined(Written.TYPE, state, content)) == event


def test_large_bodies_lie_beside_the_part_that_they_belong_to() -> None:
    event = Written(data="secret" * LIMIT, tags={"open": "tag" * LIMIT})
    ((_, name, at, state, content),), blobs = detach_all([(1, event.TYPE, AT, *encoded_parts(event))])
    assert content is not None
    assert (b"secret" in state, b"secret" in content, b"tagtag" in state) == (False, True, True)
    bodies = dict(blobs)
    assert len(bodies) == 2
    assert read_record(bodies.get, "agent:a", 1, name, at, state, None, content).event == event
    assert blob_fault(content, bodies.get) is None
    assert "is missing" in str(blob_fault(content, no_blobs))


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"reply":[]}', b'{"reply":{"parts":[{}]}}', b'{"reply":{"parts":{}}}', b"\xff", "text", 7],
)
def test_a_content_that_does_not_fit_is_named(content: Any) -> None:
    reply = ModelReply(parts=(TextPart(text="I look."),) * 2, finish_reason=FinishReason.STOP, usage=Usage())
    state, _ = encoded_parts(InferenceCompleted(reply=reply, duration_seconds=1.5))
    with pytest.raises(CorruptRecord, match="record 3 of stream 'agent:a'"):
        read_record(lambda _: None, "agent:a", 3, InferenceCompleted.TYPE, AT, state, None, content)


def test_a_result_that_looks_like_a_reference_to_a_body_is_none() -> None:
    event = ToolExecutionCompleted(position=0, result={"@blobs": []}, duration_seconds=0.1)
    state, content = encoded_parts(event)
    assert content is not None
    assert MARK in content
    assert read_record(no_blobs, "agent:a", 1, event.TYPE, AT, state, None, content).event == event
    assert blob_fault(content, no_blobs) is None


def test_a_commit_without_content_and_one_with_an_empty_content_have_two_digests() -> None:
    head = CommitHead(commit_id="c1", actor="me")
    contents = (None, b"", b"{}")
    assert len({commit_digest(b"", "agent:a", head, [(1, "t", AT, b"{}", content)]) for content in contents}) == 3
