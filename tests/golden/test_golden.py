"""Logs that earlier versions wrote fold to what they folded to then.

Add files, never edit one: a stream stands for the logs of people who upgrade. When an event type is retired, its
upcaster keeps these tests green.
"""

from pathlib import Path

import orjson
import pytest

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.interfaces.python.other_question import question_of
from steptrail.projections import project_agent_state
from steptrail.projections.what_if import WhatIfAnswer
from steptrail.projections.what_if_fold import WhatIfFold
from tests.golden.streams import FOLDER, lines, outcome, read

STREAMS = sorted(FOLDER.glob("*.jsonl"))
NAMES = [stream.stem for stream in STREAMS]


def test_there_is_a_stream_of_every_kind_and_an_outcome_beside_each() -> None:
    kinds = {
        "completed",
        "failed",
        "retried",
        "crashed-and-resumed",
        "paused",
        "waiting",
        "settled",
        "voted",
        "suspended",
    }
    assert {f"agent-v1-{kind}" for kind in kinds} <= set(NAMES)
    assert sorted(expected.stem for expected in FOLDER.glob("*.json")) == NAMES


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_a_stream_folds_to_what_it_folded_to_when_it_was_written(stream: Path) -> None:
    folded = outcome(project_agent_state(stream.stem, read(stream)))
    assert folded == orjson.loads(stream.with_suffix(".json").read_bytes())


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_every_prefix_of_a_stream_has_a_next_step_or_waits_for_a_command(stream: Path) -> None:
    state = initial(stream.stem)
    for record in read(stream):
        state = evolve_all(state, [record])
        assert state.version == record.version
        due = next_effects(state, state.as_of)
        assert (due == ()) is (state.phase in {Phase.IDLE, Phase.PAUSED})


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_a_stream_that_is_written_again_is_read_as_the_same(stream: Path, tmp_path: Path) -> None:
    copy = tmp_path / stream.name
    copy.write_bytes(b"".join(lines(read(stream))))
    assert read(copy) == read(stream)


NEARER = {"agent-v1-out-of-time", "agent-v1-suspended"}
"""One that met such a limit, and one with a hook that looks at the limits."""


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_limits_that_nothing_comes_near_would_have_changed_nothing(stream: Path) -> None:
    far = question_of({"max_unproductive_segments": 50, "cumulative_timeout": 1e6}, None, None, trusts_tools=True)
    records = read(stream)
    for end in range(1, len(records) + 1):
        fold = WhatIfFold("session", far)
        fold.add(records[:end])
        rows = fold.rows()
        for row in rows:
            is_over = row.status is not None and row.status.is_over
            is_same = (row.answer, row.why) == (WhatIfAnswer.SAME, "")
            assert is_same == (is_over and stream.stem not in NEARER)
