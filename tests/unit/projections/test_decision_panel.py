"""The votes of a decision are those that the state has of it, whatever came between them."""

from pathlib import Path

import pytest

from steptrail.domain.agent.events import ContinuationEvaluated
from steptrail.domain.agent.evolve import extend, initial
from steptrail.projections.decision_panel import decision_panel
from tests.golden.streams import FOLDER, read


@pytest.mark.parametrize("stream", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_votes_of_each_decision_are_those_that_the_state_has(stream: Path) -> None:
    records, state = read(stream), initial("s")
    for place, record in enumerate(records):
        state = extend(state, [record])
        taken = record.event
        if not isinstance(taken, ContinuationEvaluated) or (taken.phase == "resume" and taken.should_continue):
            continue
        panel, outcome = decision_panel(records[: place + 1], record.version), state.last_continuation_outcome
        assert panel is not None
        assert outcome is not None
        assert panel.votes == outcome.evaluations
