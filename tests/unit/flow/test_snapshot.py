"""The state of a workflow as bytes: what is shared stays shared, and what is no state is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.fold import FlowFold, RunFold
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.record import Recorded
from tests.golden.flows import FOLDER, read
from tests.profile import examples
from tests.unit.flow.drawn_lives import FLOW_ID, flow_lives, life_of
from tests.unit.flow.graphs import flow

EXECUTION, VIEWS = (
    [field.name for field in structs.fields(kind)].index(name)
    for kind, name in ((FlowFold, "execution"), (RunFold, "views"))
)


@pytest.fixture(scope="module")
def state() -> FlowState:
    return evolve_all(initial("golden"), read(FOLDER / "flow-v1-branches.jsonl")[:50])


def fan_out(width: int, before: int) -> FlowState:
    """Return the state of a run of a chain of nodes, after which as many branches as `width` have ended."""
    chain = " > ".join(f"c{number}" for number in range(before))
    ways = ", ".join(f"c{before - 1} > b{number}" for number in range(width))
    return evolve_all(initial(FLOW_ID), life_of(flow(f"{chain}, {ways}")))


def buckets(state: FlowState) -> tuple[int, int]:
    """Return how many buckets of variables all views have, and how many of these there are."""
    run = state.run
    assert run is not None
    every = [bucket for view in run.views.values() for row in view.vars._rows for bucket in row]  # pyright: ignore[reportPrivateUsage]
    return len(every), len({id(bucket) for bucket in every})


def test_views_share_what_they_shared_before() -> None:
    state = fan_out(width=100, before=200)
    loaded = SNAPSHOTS.load(SNAPSHOTS.dump(state))
    assert loaded == state
    assert buckets(loaded)[0] == buckets(state)[0] > 100_000
    assert buckets(loaded)[1] <= buckets(state)[1] * 1.1 < 2_000


def test_a_value_is_written_once_and_held_once() -> None:
    state = fan_out(width=20, before=20)
    (written,) = SNAPSHOTS.dump(state)
    assert written.count(b'"value of c3"') == 1
    run = SNAPSHOTS.load([written]).run
    assert run is not None
    held = [run.ended[4].delta.sets["c3"], *(view.vars["c3"] for view in run.views.values())]
    assert len(held) > 20
    assert len({id(value) for value in held}) == 1


def test_the_bytes_of_a_wide_run_grow_with_its_width() -> None:
    once, twice = (len(SNAPSHOTS.dump(fan_out(width, before=100))[0]) for width in (100, 200))
    assert twice < 2.2 * once


@pytest.mark.parametrize("data", [b"", b"null", b"{}", b"[]", b"[" * 100_000, b"\xff", b'["f"]'])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SNAPSHOTS.load([data])


@pytest.mark.parametrize("lines", [[], [b"null", b"null"]])
def test_anything_but_one_line_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match="values to unpack"):
        SNAPSHOTS.load(lines)


def _views(plain: Any) -> Any:
    return plain[EXECUTION][VIEWS]


def _no_such_base(plain: Any) -> None:
    _views(plain)[0][1] = 99


def _no_such_visit(plain: Any) -> None:
    _views(plain)[0][4][0][2] = 99


def _no_such_message(plain: Any) -> None:
    _views(plain)[0][6] = [5, []]


def _no_number(plain: Any) -> None:
    _views(plain)[0][2] = "many"


@pytest.mark.parametrize("change", [_no_such_base, _no_such_visit, _no_such_message, _no_number])
def test_a_view_that_names_what_is_not_there_is_refused(state: FlowState, change: Callable[[Any], None]) -> None:
    plain = json.loads(SNAPSHOTS.dump(state)[0])
    change(plain)
    with pytest.raises(ValueError, match=r".+"):
        SNAPSHOTS.load([json.dumps(plain).encode()])


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), min_size=1, max_size=4))
def test_changed_bytes_are_refused_or_hold_another_state(state: FlowState, changes: list[tuple[int, bytes]]) -> None:
    (data,) = SNAPSHOTS.dump(state)
    for place, other in changes:
        at = place % len(data)
        data = data[:at] + other + data[at + 1 :]
    try:
        SNAPSHOTS.load([data])
    except ValueError:
        pass


@pytest.mark.acceptance("7.2-6")
@examples(60)
@given(flow_lives())
def test_a_run_goes_on_from_any_snapshot_to_the_same_end(records: list[Recorded[FlowEvent]]) -> None:
    whole = evolve_all(initial(FLOW_ID), records)
    state, again = initial(FLOW_ID), initial(FLOW_ID)
    for record in records:
        state = evolve_all(state, [record])
        again = SNAPSHOTS.load(SNAPSHOTS.dump(evolve_all(again, [record])))
        assert again == state
        assert again.as_of == state.as_of
        assert order_of(again) == order_of(state)
    assert again.envelope == whole.envelope
    assert [list(again.envelope.vars), again.output] == [list(whole.envelope.vars), whole.output]


@examples(20)
@given(flow_lives())
def test_a_run_that_goes_on_from_one_snapshot_is_the_same_run(records: list[Recorded[FlowEvent]]) -> None:
    whole = evolve_all(initial(FLOW_ID), records)
    state = initial(FLOW_ID)
    for cut, record in enumerate(records, 1):
        state = evolve_all(state, [record])
        loaded = SNAPSHOTS.load(SNAPSHOTS.dump(state))
        ended = evolve_all(loaded, records[cut:])
        assert ended == whole
        assert order_of(ended) == order_of(whole)
        assert loaded == state


def order_of(state: FlowState) -> list[object]:
    """Return what stands in an order: mappings are equal in any."""
    run = state.run
    if run is None:
        return []
    views = [*run.views.items(), *((visit.number, visit.view) for visit in run.open.values())]
    return [
        [(number, list(view.vars.items())) for number, view in views],
        list(run.ends.items()),
        list(run.marking.tokens),
        list(run.marking.released),
        list(run.open),
        list(run.tasks),
        list(run.views),
    ]
