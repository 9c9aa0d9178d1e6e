"""Runs of workflows that earlier versions wrote: every state on the way comes back from a snapshot, and goes on."""

from pathlib import Path

import orjson
import pytest

from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.snapshot import FORMAT, SNAPSHOTS
from tests.golden.flow_stories import STORIES
from tests.golden.flows import FOLDER, folds, read

STREAMS = sorted(FOLDER.glob("*.jsonl"))


def test_there_is_a_stream_of_every_story() -> None:
    assert {stream.stem for stream in STREAMS} >= {f"flow-v1-{name}" for name in STORIES}


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.stem)
def test_every_state_on_the_way_comes_back_and_goes_on_to_the_same_end(stream: Path) -> None:
    records = read(stream)
    state = again = initial(stream.stem)
    whole = evolve_all(state, records)
    for cut, record in enumerate(records, 1):
        state = evolve_all(state, [record])
        again = SNAPSHOTS.load(SNAPSHOTS.dump(evolve_all(again, [record])))
        assert again == state
        assert again.as_of == state.as_of
        assert list(again.envelope.vars.items()) == list(state.envelope.vars.items())
        assert evolve_all(SNAPSHOTS.load(SNAPSHOTS.dump(state)), records[cut:]) == whole


def test_what_the_golden_streams_fold_to_is_what_the_format_stands_for() -> None:
    recorded = FOLDER.parent / "folds" / f"{FORMAT}.json"
    why = (
        f"events fold to something else, or a state has another shape, than when {FORMAT!r} was recorded: snapshots "
        "that are out there hold the old one. Raise FORMAT in domain/flow/snapshot.py and run `python -m "
        "tests.golden.record`"
    )
    assert recorded.exists(), why
    assert folds() == orjson.loads(recorded.read_bytes()), why
