"""A score is about a run and no part of it: whenever one comes, the run goes on as it would have without it."""

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import SessionScored
from steptrail.testing.scenario import SECOND
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

SCORED = SessionScored(name="helpful", value=0.5, by="ana", execution=1)


def seen(state: AgentState) -> object:
    """All that anybody goes by: what is due, where the session stands, its row, and the state but for its version."""
    stands, row = AGENT.control.standing(state), structs.replace(AGENT.control.summary(state), version=0)
    return next_effects(state, state.as_of), stands, row, state.phase, state.as_of, state.fold.seen_at, state.messages


@pytest.mark.acceptance("10.7-1")
@examples(60)
@given(lives(forks=True), st.data())
def test_scores_at_any_moment_change_nothing_of_a_life_but_its_versions(life: Life, data: st.DataObject) -> None:
    places = data.draw(st.sets(st.integers(1, max(1, len(life.committed))), max_size=4))
    plain, scored = initial(SESSION), initial(SESSION)
    for record in life.committed:
        event, at = record.event, record.at
        if isinstance(event, SessionScored):
            continue
        plain = evolve_all(plain, [Recorded(plain.version + 1, at, event)])
        scored = evolve_all(scored, [Recorded(scored.version + 1, at, event)])
        if record.version in places:
            scored = evolve_all(scored, [Recorded(scored.version + 1, at + 86_400 * SECOND, SCORED)])
        # A wait says at which version it began.
        if plain.execution is None or not plain.execution.waits:
            assert seen(plain) == seen(scored)
