"""A snapshot of a workflow is never anything but a shorter way to the same state."""

from hypothesis import given

from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.record import Recorded
from tests.profile import examples
from tests.properties.flow_lives import FLOW_ID, flow_lives


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
