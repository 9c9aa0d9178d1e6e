"""Every event that the fields of its class allow comes back from the store as it was, and has one stored form."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.agent.events import AgentEvent
from steptrail.infrastructure.store.core import codec
from steptrail.infrastructure.store.core.contents import encoded_parts, joined
from tests.properties.stored_values import EVENTS

AT = 1_700_000_000_000_000


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_event_of_any_class_comes_back_as_it_was(kind: type[AgentEvent], data: Any) -> None:
    event = data.draw(EVENTS[kind])
    whole = codec.encode(event, AT)
    assert codec.decode(kind.TYPE, whole) == (AT, event)
    state, content = encoded_parts(event)
    assert (content is None) <= ((AT, state) == codec.apart(whole))
    read = codec.decode_state(kind.TYPE, joined(kind.TYPE, state, content))
    assert read == event
    assert encoded_parts(read) == (state, content)
