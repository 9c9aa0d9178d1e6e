"""The rows of runs say what the machine says of any life, however the log is cut, delivered or forgotten."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec
from hypothesis import given, strategies as st

from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    SessionForked,
    StepStarted,
)
from steptrail.domain.flow.events import FlowStarted, NodeOpened
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.store.core import codec
from steptrail.infrastructure.store.core.contents import encoded_parts, joined
from steptrail.projections.kernel.table import Scalar
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing.scenario import SECOND, START
from tests.harness.projecting import Tables, entries, joined_log, projected, projected_in_pieces
from tests.harness.runs_view_audit import (
    agrees_with_the_agent,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives
from tests.properties.stored_values import EVENTS, FLOW_EVENTS

STREAM = f"agent:{SESSION}"


def _streams(life: Life) -> dict[str, Sequence[Recorded[AgentEvent]]]:
    """Return the session of a life, and beside it the fork in which it goes on, if it does."""
    own = list(takewhile(lambda record: not isinstance(record.event, SessionForked), life.committed))
    return {STREAM: own, "agent:fork": life.committed[len(own) :]}


@examples(150)
@given(lives())
def test_the_rows_of_an_agent_are_what_the_machine_says(life: Life) -> None:
    agrees_with_the_agent(SESSION, life.committed, projected(RunsView(), entries(STREAM, life.committed)))


@examples(60)
@given(lives(), st.data())
def test_the_rows_are_right_at_every_place_of_the_log(life: Life, data: st.DataObject) -> None:
    records = life.committed[: data.draw(st.integers(0, len(life.committed)))]
    agrees_with_the_agent(SESSION, records, projected(RunsView(), entries(STREAM, records)))


@examples(80)
@given(st.data())
def test_rows_fit_their_tables_and_sums_are_those_of_the_rows(data: st.DataObject) -> None:
    life, other = data.draw(lives(forks=True)), data.draw(lives())
    log = joined_log(_streams(life) | {"agent:other": other.committed})
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {(entry.stream, entry.record.version): entry.record.at for entry in log})


@examples(80)
@given(st.data())
def test_cuts_lost_memories_and_repeats_change_nothing(data: st.DataObject) -> None:
    life, other = data.draw(lives(forks=True)), data.draw(lives())
    turns = iter(data.draw(st.lists(st.sampled_from([STREAM, "agent:other"]), max_size=200)))
    log = joined_log(_streams(life) | {"agent:other": other.committed}, turns)
    # It may end anywhere: a row that an entry changes and does not put again differs until the next one puts it.
    log = log[: data.draw(st.integers(0, len(log)))]
    whole = projected(RunsView(), log)
    assert projected_in_pieces(RunsView(), log, data).whole() == whole.whole()


@examples(150)
@given(st.data())
def test_events_of_any_kind_and_in_any_order_make_rows_that_databases_can_hold(data: st.DataObject) -> None:
    agents = [data.draw(EVENTS[kind]) for kind in (ExecutionStarted, StepStarted, InferenceStarted, InferenceCompleted)]
    agents += data.draw(st.lists(st.sampled_from(list(EVENTS)).flatmap(EVENTS.__getitem__), max_size=20))
    flows = [data.draw(FLOW_EVENTS[kind]) for kind in (FlowStarted, NodeOpened)]
    flows += data.draw(st.lists(st.sampled_from(list(FLOW_EVENTS)).flatmap(FLOW_EVENTS.__getitem__), max_size=20))
    log = joined_log({"agent:a": _recorded(agents), "flow:f": _recorded(flows)})
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    for value in _values(tables):
        if isinstance(value, str):
            assert "\0" not in value
            assert len(value.encode()) <= 4_000


@examples(60)
@given(lives(forks=True), st.data())
def test_events_of_a_life_in_another_order_make_rows_that_databases_can_hold(life: Life, data: st.DataObject) -> None:
    events = [record.event for record in life.committed]
    cut = data.draw(st.integers(0, len(events)))
    stray = data.draw(st.lists(st.sampled_from(events), max_size=20))
    tables = projected(RunsView(), entries(STREAM, _recorded([*events[:cut], *stray])))
    fits_its_tables(tables)
    refers_to_what_is_there(tables)


def _recorded(events: Sequence[Event]) -> list[Recorded[Event]]:
    return [Recorded(version, START + version * SECOND, event) for version, event in enumerate(events, 1)]


def _values(tables: Tables, *, but: str = "") -> Iterator[Scalar]:
    for rows in tables.whole().values():
        for row in rows.values():
            yield from (value for name, value in row.items() if name != but)


CANARY, NUMBER = "canary", 987_654_321


@examples(60)
@given(lives(forks=True))
def test_no_content_of_any_event_is_in_any_row_except_for_templates(life: Life) -> None:
    records = [Recorded(each.version, each.at, _with_canaries(each.event)) for each in life.committed]
    assert any(CANARY in str(record.event) for record in records)
    tables = projected(RunsView(), entries(STREAM, records))
    for value in _values(tables, but="template"):
        assert value != NUMBER
        assert not (isinstance(value, str) and CANARY in value), value


def _with_canaries(event: Event) -> Event:
    """Return the event with every text and number in its content replaced."""
    state, content = encoded_parts(event)
    if content is None:
        return event
    told = msgspec.json.encode(_replaced(msgspec.json.decode(content)))
    return codec.decode_state(event.TYPE, joined(event.TYPE, state, told))


_NAMES = frozenset({"id", "kind", "mime_type", "name", "role"})
"""Fields of messages that are no content by themselves, though messages are."""


def _replaced(value: JsonValue, name: str = "") -> JsonValue:
    match value:
        case dict():
            return {inner: _replaced(each, inner) for inner, each in value.items()}
        case list():
            return [_replaced(inner) for inner in value]
        case str():
            return value if name in _NAMES else CANARY
        case bool() | None:
            return value
        case _:
            return NUMBER
