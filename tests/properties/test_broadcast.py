"""Whoever is told of a life, from wherever and under whatever configuration, is told what its whole log tells."""

from hypothesis import given, strategies as st

from steptrail.domain.agent.evolve import initial
from steptrail.domain.json_value import JsonValue
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import place_of
from steptrail.projections.broadcast.fold import EnvelopeFold, envelopes_of
from steptrail.projections.lifecycle import LifecycleFold, lifecycle_events
from steptrail.projections.ui.conversation import ui_conversation
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(60)
configs = st.builds(
    BroadcastConfig,
    include_continuation_trace=st.booleans(),
    auto_status_tracking=st.booleans(),
    include_tool_args=st.booleans(),
    form=st.sampled_from(["epic", "reverb"]),
)
WIDEST = BroadcastConfig(include_continuation_trace=True)


@some
@given(lives(), configs)
def test_each_message_has_its_place_and_names_the_one_before(life: Life, config: BroadcastConfig) -> None:
    made = envelopes_of(SESSION, life.committed, config)
    places = [place_of(each.id) for each in made]
    assert places == sorted(set(places))
    assert [each.body["previous"] for each in made] == [None, *(each.id for each in made)][: len(made)]
    assert {(each.id, each.type) for each in made} <= {
        (each.id, each.type) for each in envelopes_of(SESSION, life.committed, WIDEST)
    }


@some
@given(lives(), configs, st.data())
def test_a_fold_that_begins_anywhere_says_the_same_as_soon_as_it_says_that_it_may(
    life: Life, config: BroadcastConfig, data: st.DataObject
) -> None:
    told = lifecycle_events(SESSION, life.committed)
    begin = data.draw(st.integers(0, len(told)))
    whole, late = EnvelopeFold(config), EnvelopeFold(config, is_whole=False)
    for event in told[:begin]:
        whole.apply(event)
    for event in told[begin:]:
        was_settled = late.is_settled
        expected, made = whole.apply(event), late.apply(event)
        if was_settled:
            assert made == expected
        if late.is_settled:
            assert late.last_id == whole.last_id


@some
@given(lives())
def test_no_status_is_told_twice_in_a_row_and_an_end_is_told_of_each_execution(life: Life) -> None:
    statuses = [each.body["data"] for each in envelopes_of(SESSION, life.committed) if each.type == "agent.status"]
    now = "pending"
    for each in statuses:
        assert isinstance(each, dict)
        assert each["previous_status"] == now
        assert each["status"] != now
        now = str(each["status"])
    last = life.states()[len(life.committed)]
    assert now == (last.status if life.committed else "pending")


@some
@given(lives())
def test_the_status_that_was_told_is_that_of_the_session_after_every_event(life: Life) -> None:
    fold, states, told = EnvelopeFold(BroadcastConfig()), life.states(), LifecycleFold(initial(SESSION))
    now: JsonValue = "pending"
    reason: JsonValue = None
    for record in life.committed:
        for made in (each for event in told.apply(record) for each in fold.apply(event)):
            if made.type == "agent.status":
                said = made.body["data"]
                assert isinstance(said, dict)
                now, reason = said["status"], said["stop_reason"]
        shown = ui_conversation(states[record.version])
        assert (now, reason) == (shown.status, shown.stop_reason)
