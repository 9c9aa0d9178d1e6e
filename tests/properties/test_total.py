"""The fold takes any event in any phase, and the machine has an answer to any state, however it came about."""

from contextlib import suppress

from hypothesis import given, strategies as st

from steptrail.domain.agent.commands import Send, Settle
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.commands import Pause, Stop, Unpause
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.testing.scenario import SECOND, START
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

COMMANDS = (
    Send(messages=(Message.user("more"),)),
    Pause(by="ana"),
    Unpause(by="ana"),
    Stop(by="ana"),
    Settle(effect_id=f"{SESSION}:1:1:0", by="ana", verdict="rerun"),
)


@examples(200)
@given(lives(forks=True), st.data())
def test_events_in_any_order_fold_to_a_state_that_can_be_asked_anything(life: Life, data: st.DataObject) -> None:
    events: list[AgentEvent] = [record.event for record in life.committed]
    cut = data.draw(st.integers(0, len(events)))
    stray = data.draw(st.lists(st.sampled_from(events), max_size=20))
    records = [Recorded(i, START + i * SECOND, event) for i, event in enumerate([*events[:cut], *stray], 1)]
    state = evolve_all(initial(SESSION), records)
    assert state.version == len(records)
    assert state.phase in Phase
    assert state.status in type(state.status)
    assert state.cumulative_execution_seconds >= 0
    assert state.elapsed_seconds >= 0
    assert len(next_effects(state, state.as_of)) <= 1
    for command in COMMANDS:
        # Whatever it raises beside this is a defect.
        with suppress(CommandRejected):
            assert len(decide(state, command)) <= 2
