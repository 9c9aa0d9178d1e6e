"""Large bodies are cut out of an event's JSON and put back where they were."""

import json
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.infrastructure.store.core.blobs import (
    LIMIT,
    Blob,
    attach,
    blob_fault,
    blob_faults,
    detach,
    is_detached,
    no_blobs,
    read_record,
    references,
)
from steptrail.infrastructure.store.core.contents import encoded_parts, joined
from steptrail.testing.store_contract import Noted, Written

AT = 1_700_000_000_000_000

sizes = st.sampled_from([0, 1, 3, LIMIT // 6, LIMIT // 2, LIMIT - 2, LIMIT - 1, LIMIT, LIMIT * 2])
characters = st.sampled_from(["x", "é", "\x00", "🦜", '"'])
texts: st.SearchStrategy[str] = st.builds(str.__mul__, characters, sizes)
values: st.SearchStrategy[JsonValue] = st.recursive(
    texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def state_of(event: Event) -> bytes:
    """Return all of an event as one part."""
    return joined(event.TYPE, *encoded_parts(event))


def kept(blobs: tuple[Blob, ...]) -> dict[bytes, bytes]:
    return {blob.digest: blob.body for blob in blobs}


@given(st.builds(Written, data=values, tags=st.dictionaries(st.sampled_from(["", "a/b", "~", "~1"]), values)))
def test_an_event_comes_back_from_its_light_state_and_its_blobs(event: Event) -> None:
    light, blobs = detach(state_of(event))
    fetch = kept(blobs).get
    assert all(sha256(blob.body).digest() == blob.digest for blob in blobs)
    assert is_detached(light) is bool(blobs)
    assert read_record(fetch, "agent:a", 1, event.TYPE, AT, light, None).event == event
    assert read_record(fetch, "agent:a", 1, event.TYPE, AT, light, None).at == AT
    # Two fields, each of them light or with what is light of it and of what is said of its blobs.
    assert len(light) <= 2 * LIMIT + 300


def test_an_event_of_ordinary_size_is_stored_as_it_is() -> None:
    state = state_of(Written(data="x" * (LIMIT - 40)))
    assert len(state) <= LIMIT
    assert detach(state) == (state, ())
    assert not is_detached(state)


def test_bodies_that_are_each_below_the_limit_stay_in_their_event() -> None:
    state = state_of(Written(data="x" * (LIMIT - 40), tags={"a": "y" * (LIMIT - 40)}))
    assert detach(state) == (state, ())


def test_the_light_state_is_plain_json_that_says_what_stood_where() -> None:
    text = "It was a dark and stormy night. " * 2000
    light, (blob,) = detach(state_of(Written(data=[1, {"a/b": text}], tags={"kept": True})))
    assert blob.body == json.dumps(text).encode()
    assert json.loads(light) == {
        "@blobs": [
            {
                "at": "/data/1/a~1b",
                "digest": sha256(blob.body).hexdigest(),
                "size": len(blob.body),
                "preview": blob.body[:120].decode(),
            }
        ],
        "data": [1, {"a/b": None}],
        "tags": {"kept": True},
    }


@pytest.mark.parametrize(
    ("data", "at"),
    [
        ({"rows": [[i, "x" * 20] for i in range(2000)]}, ["/data/rows"]),
        ([{"text": "x" * LIMIT}, {"text": "y" * LIMIT}], ["/data/0/text", "/data/1/text"]),
        ([f"{i}" * LIMIT for i in range(200)], ["/data"]),
    ],
    ids=["an array that is large as a whole", "large texts in a small array", "more texts than there is room to name"],
)
def test_what_is_cut_out_is_the_smallest_that_is_large(data: JsonValue, at: list[str]) -> None:
    light, _ = detach(state_of(Written(data=data)))
    assert [reference.at for reference in references(light)] == at


def test_the_same_body_is_the_same_blob_wherever_it_stands() -> None:
    text = "x" * LIMIT
    _, first = detach(state_of(Noted(text=text, number=1)))
    _, second = detach(state_of(Written(data=[text])))
    assert first == second


def test_no_field_of_an_event_is_called_like_the_list_of_its_blobs() -> None:
    for cls in EVENT_TYPES.values():
        assert not [field for field in structs.fields(cls) if field.encode_name.startswith("@")]


LIGHT, (BLOB,) = detach(state_of(Noted(text="x" * LIMIT)))
DIGEST = BLOB.digest.hex()


@pytest.mark.parametrize(
    ("state", "bodies", "why"),
    [
        (LIGHT, {}, f"its blob {DIGEST} (/text) is missing"),
        (LIGHT, {BLOB.digest: BLOB.body[:-1]}, f"its blob {DIGEST} (/text) is damaged"),
        (LIGHT, {BLOB.digest: 7}, f"its blob {DIGEST} (/text) is damaged"),
        (LIGHT, {BLOB.digest: BLOB.body.decode()}, f"its blob {DIGEST} (/text) is damaged"),
        (LIGHT.replace(b'"/text"', b'"/text/0"'), {BLOB.digest: BLOB.body}, "its blob has no place '/text/0' in it"),
        (LIGHT.replace(b'"/text"', b'"/a/b"'), {BLOB.digest: BLOB.body}, "its blob has no place '/a/b' in it"),
        (LIGHT.replace(b'"size"', b'"seize"'), {BLOB.digest: BLOB.body}, "what it says of its blobs cannot be read"),
        (LIGHT.replace(b'"digest"', b'"digest'), {BLOB.digest: BLOB.body}, "what it says of its blobs cannot be read"),
        (LIGHT[:-9], {BLOB.digest: BLOB.body}, "what it says of its blobs cannot be read"),
    ],
)
def test_what_cannot_be_put_back_is_named_with_its_record(state: bytes, bodies: dict[bytes, bytes], why: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        read_record(bodies.get, "agent:a", 7, Noted.TYPE, AT, state, None)
    error = caught.value
    assert (error.stream, error.version, error.type_name, error.why) == ("agent:a", 7, Noted.TYPE, why)


def test_a_fault_is_told_without_putting_anything_back() -> None:
    assert blob_fault(LIGHT, {BLOB.digest: BLOB.body}.get) is None
    assert blob_fault(LIGHT, {BLOB.digest: b"other"}.get) == f"its blob {DIGEST} (/text) is damaged"
    assert blob_fault(LIGHT[:20], {BLOB.digest: BLOB.body}.get) == "what it says of its blobs cannot be read"
    assert blob_fault(state_of(Noted()), no_blobs) is None
    assert blob_fault("text", no_blobs) is None


def test_a_blob_that_is_erased_while_all_are_looked_at_is_no_damage() -> None:
    kept, erased = b'"kept"', b'"erased"'
    digests = [sha256(body).digest() for body in (kept, erased)]
    assert [fault.is_damage for fault in blob_faults(digests, {digests[0]: kept, digests[1]: kept}.get, [])] == [
        False,
        True,
    ]
    (fault,) = blob_faults(digests, {digests[0]: kept}.get, [])
    assert (fault.digest, fault.is_damage) == (digests[0].hex(), False)


def test_putting_back_gives_a_state_that_every_reader_of_states_understands() -> None:
    assert json.loads(attach(LIGHT, {BLOB.digest: BLOB.body}.get)) == {"text": "x" * LIMIT}
