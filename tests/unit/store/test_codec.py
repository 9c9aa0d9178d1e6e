"""Events become bytes and come back, or the error says why not."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from msgspec import field, structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import ExecutionResumed, ExecutionStarted
from steptrail.domain.base import full_form
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CorruptRecord, RecordTooNew
from steptrail.domain.inference import ModelInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES, UPCASTERS, Event, EventKind, Upcast, register_upcaster
from steptrail.domain.messages import (
    MediaPart,
    Message,
    MessageRole,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.storable import storable
from steptrail.domain.version import VERSION
from steptrail.infrastructure.store.core import codec
from steptrail.infrastructure.store.core.blobs import no_blobs, read_record
from steptrail.testing.store_contract import Noted, Written

AT = 1_700_000_000_000_000


def fields_without_defaults(part: Part) -> set[str]:
    return {each.name for each in structs.fields(part) if each.required}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
notes = st.builds(Noted, text=st.text(), number=st.integers())
writings = st.builds(Written, data=json_values, tags=st.dictionaries(st.text(), json_values, max_size=4))


class Spoken(Event, frozen=True, kw_only=True):
    """Holds a union that is told apart by a tag with a default."""

    TYPE: ClassVar[str] = "test.spoken.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"message", "aside", "notes"})

    message: Message | None = None
    aside: str = ""
    notes: dict[str, str] | None = {}  # noqa: RUF012


class Renamed(Event, frozen=True, kw_only=True):
    """Stores a field under another name."""

    TYPE: ClassVar[str] = "test.renamed.v2"
    KIND = EventKind.FACT
    STATE = frozenset({"tool_name"})

    tool_name: str = field(name="toolName")


@given(notes | writings, st.integers(min_value=0, max_value=10**16 - 1))
def test_an_event_comes_back_as_it_was(event: Event, at: int) -> None:
    assert codec.decode(event.TYPE, codec.encode(event, at)) == (at, event)


@given(notes | writings, st.integers(min_value=0, max_value=10**16 - 1))
def test_the_state_is_plain_json_with_the_instant_in_front(event: Event, at: int) -> None:
    state = codec.encode(event, at)
    assert next(iter(json.loads(state).items())) == ("@", at)
    assert state[:5] == b'{"@":'
    assert state[21:22] in b",}"


def test_a_field_that_holds_its_default_is_not_written() -> None:
    assert codec.encode(Noted(), AT) == b'{"@":1700000000000000}'
    assert codec.encode(Noted(number=1), AT) == b'{"@":1700000000000000,"number":1}'


def test_the_parts_of_a_message_are_told_apart_again() -> None:
    parts = (TextPart(text="a"), ToolCallPart(id="1", name="t", arguments={"a": None}), ReasoningPart(text="r"))
    event = Spoken(message=Message(role=MessageRole.ASSISTANT, parts=parts), notes=None)
    assert codec.decode(Spoken.TYPE, codec.encode(event, AT)) == (AT, event)
    assert b"aside" not in codec.encode(event, AT)


@pytest.mark.parametrize(
    "part",
    [
        TextPart(text=""),
        ToolCallPart(id="", name=""),
        ToolResultPart(call_id="", name="", text=""),
        MediaPart(uri="", mime_type=""),
        ReasoningPart(text=""),
        ProviderPart(provider="", data=None),
    ],
    ids=lambda part: part.kind,
)
def test_a_part_is_stored_with_its_tag_and_without_what_holds_its_default(part: Part) -> None:
    event = Spoken(message=Message(role=MessageRole.ASSISTANT, parts=(part,)))
    stored = codec.encode(event, AT)
    assert json.loads(stored)["message"]["parts"][0].keys() == {"kind", *fields_without_defaults(part)}
    assert codec.decode(Spoken.TYPE, stored) == (AT, event)


def test_the_settings_of_a_run_are_stored_also_where_they_hold_their_defaults() -> None:
    agent = AgentSnapshot(name="a", model=ModelInfo(driver="d", model="m"), fingerprint="f")
    started = ExecutionStarted(
        execution_id="s:1",
        ordinal=1,
        segment=1,
        worker="w",
        input=Message.user("Go."),
        agent=agent,
        by="user",
        library=VERSION,
    )
    resumed = ExecutionResumed(
        segment=2,
        worker="w",
        ended_by=SegmentEnd.CRASH,
        was_productive=True,
        agent=agent,
        by="user",
        interrupted_seconds=0.0,
        library=VERSION,
    )
    for event in (started, resumed):
        assert json.loads(codec.encode(event, AT))["agent"]["limits"] == full_form(Limits())


def test_a_field_is_stored_under_its_alias() -> None:
    event = Renamed(tool_name="search")
    assert codec.encode(event, AT) == b'{"@":1700000000000000,"toolName":"search"}'
    assert codec.decode(Renamed.TYPE, codec.encode(event, AT)) == (AT, event)


@pytest.mark.parametrize("at", [-1, 10**16])
def test_an_instant_outside_of_its_width_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match="microseconds"):
        codec.encode(Noted(), at)


def test_what_is_nested_as_deep_as_a_value_from_outside_may_be_comes_back() -> None:
    data: JsonValue = None
    for depth in range(100):
        data = {"a": data} if depth % 2 else [data]
    event = Written(data=storable(data))
    assert codec.decode(event.TYPE, codec.encode(event, AT)) == (AT, event)


def test_a_record_that_is_nested_deeper_than_python_can_follow_is_named() -> None:
    state = b'{"data":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with pytest.raises(CorruptRecord, match="nested too deeply"):
        read_record(no_blobs, "agent:a", 7, Written.TYPE, AT, state, None)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        codec.encode(Noted(text="\ud800"), AT)


@pytest.mark.parametrize(
    ("type_name", "state", "why"),
    [
        ("test.noted.v1", b"", "truncated"),
        ("test.noted.v1", b'{"number":', "truncated"),
        ("test.noted.v1", b'{"number":"many"}', "number: Expected `int`, got `str`"),
        ("test.noted.v1", b'{"colour":1}', "colour: There is no such field"),
        ("test.noted.v3", b"{}", "newer version of Steptrail: this one reads 'test.noted' up to v1"),
        ("test.never", b"{}", "'test.never' is not known here"),
        ("test.never.v1", b"{}", "'test.never.v1' is not known here"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_with_the_reason(type_name: str, state: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        read_record(no_blobs, "agent:a", 7, type_name, AT, state, None)
    error = caught.value
    assert (error.stream, error.version, error.type_name) == ("agent:a", 7, type_name)
    assert why in error.why
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("type_name", "state", "is_too_new"),
    [
        ("test.noted.v2", b"{}", True),
        ("test.never.v1", b"{}", True),
        ("test.noted.v1", b'{"colour":1}', True),
        ("test.noted.v0", b"{}", False),
        ("test.never", b"{}", False),
        ("test.noted.v1", b'{"number":"many"}', False),
    ],
)
def test_a_type_or_a_field_that_a_newer_version_may_have_is_no_damage(
    type_name: str, state: bytes, is_too_new: bool
) -> None:
    with pytest.raises(CorruptRecord) as caught:
        read_record(no_blobs, "agent:a", 7, type_name, AT, state, None)
    assert isinstance(caught.value, RecordTooNew) is is_too_new


@pytest.mark.parametrize("at", [-1, 10**16, "text", 1.5, None, True])
def test_an_instant_that_is_none_is_named(at: Any) -> None:
    with pytest.raises(CorruptRecord, match=r"the instant .* is not a number of microseconds"):
        read_record(no_blobs, "agent:a", 7, Noted.TYPE, at, b"{}", None)


@pytest.mark.parametrize(
    ("encoded", "why"),
    [(b"", "instant"), (b'{"number":1}', "instant"), (b'{"@":17000000000000xx}', "invalid literal")],
)
def test_an_event_without_an_instant_in_front_is_refused(encoded: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        codec.decode(Noted.TYPE, encoded)


@pytest.fixture
def upcasters() -> Iterator[None]:
    before = dict(UPCASTERS)
    yield
    UPCASTERS.clear()
    UPCASTERS.update(before)


def _from_v0(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"text": payload.get("words", "")}


def _broken(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    raise KeyError(sorted(payload)[0])


@pytest.mark.usefixtures("upcasters")
class TestUpcasting:
    def test_a_retired_type_is_read_as_its_successor(self) -> None:
        register_upcaster("test.noted.v0", _from_v0, "test.noted.v1")
        register_upcaster("test.scribbled.v1", lambda payload: {"words": payload["w"]}, "test.noted.v0")
        assert codec.decode("test.noted.v0", b'{"@":1700000000000000,"words":"a"}') == (AT, Noted(text="a"))
        assert codec.decode("test.noted.v0", b'{"@":1700000000000000}') == (AT, Noted())
        assert codec.decode("test.scribbled.v1", b'{"@":1700000000000000,"w":"b"}') == (AT, Noted(text="b"))

    def test_asking_for_a_type_finds_what_is_read_as_it(self) -> None:
        register_upcaster("test.noted.v0", _from_v0, "test.noted.v1")
        register_upcaster("test.scribbled.v1", _from_v0, "test.noted.v0")
        assert codec.stored_names(["test.noted.v1"], []) == ("test.noted.v0", "test.noted.v1", "test.scribbled.v1")
        assert codec.stored_names([], ["test.noted.v2"]) == ()

    def test_asking_for_a_type_finds_what_a_newer_version_stored(self) -> None:
        there = ["test.noted.v0", "test.noted.v2", "test.noted.v10", "test.written.v1", "test.never.v1", "odd", b"x"]
        assert codec.stored_names(["test.noted.v1"], there) == ("test.noted.v1", "test.noted.v10", "test.noted.v2")

    def test_a_number_of_any_size_survives(self) -> None:
        register_upcaster("test.noted.v0", lambda payload: payload, "test.noted.v1")
        state = b'{"@":1700000000000000,"number":%d}' % 2**70
        assert codec.decode("test.noted.v0", state) == (AT, Noted(number=2**70))

    def test_an_event_may_say_itself_what_it_was_called(self) -> None:
        class Moved(Event, frozen=True, kw_only=True):
            TYPE: ClassVar[str] = "test.moved.v2"
            KIND = EventKind.FACT
            CONTENT = frozenset({"text"})
            UPCASTS: ClassVar[Mapping[str, Upcast]] = {"test.moved.v1": _from_v0}
            text: str

        assert codec.decode("test.moved.v1", b'{"@":1700000000000000,"words":"a"}') == (AT, Moved(text="a"))

    def test_a_failing_upcaster_is_told(self) -> None:
        register_upcaster("test.noted.v0", _broken, "test.noted.v1")
        with pytest.raises(CorruptRecord, match="its upcaster failed with KeyError: 'w'"):
            read_record(no_blobs, "agent:a", 1, "test.noted.v0", AT, b'{"w":1}', None)

    def test_a_circle_ends(self) -> None:
        register_upcaster("test.a", _from_v0, "test.b")
        register_upcaster("test.b", _from_v0, "test.a")
        with pytest.raises(CorruptRecord, match="not known"):
            read_record(no_blobs, "agent:a", 1, "test.a", AT, b"{}", None)

    def test_a_name_has_one_meaning(self) -> None:
        with pytest.raises(ValueError, match="in use"):
            register_upcaster("test.noted.v1", _from_v0, "test.written.v1")
        register_upcaster("test.noted.v0", _from_v0, "test.noted.v1")
        with pytest.raises(ValueError, match="upcast already"):
            register_upcaster("test.noted.v0", _from_v0, "test.noted.v1")
        assert "test.noted.v0" not in EVENT_TYPES
