"""Golden streams of workflows: runs as an earlier version wrote them, in `flow_runs/`.

Add files, never edit one. `folds/<format>.json` holds a digest of the states of each, for the format of snapshots of
that name.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import orjson

from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.snapshot import FORMAT, SNAPSHOTS
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.history import typed_records
from tests.golden.streams import stored_in

__all__ = ["FOLDER", "FORMAT", "folds", "read"]

FOLDER = Path(__file__).parent / "flow_runs"


def read(stream: Path) -> Sequence[Recorded[FlowEvent]]:
    """Return the records of a run."""
    return typed_records(FLOW, stored_in(stream))


def folds() -> dict[str, str]:
    """Return a digest of every state on the way through every golden stream."""
    digests: dict[str, str] = {}
    for stream in sorted(FOLDER.glob("*.jsonl")):
        seen, state = sha256(), initial(stream.stem)
        for record in read(stream):
            state = evolve_all(state, [record])
            seen.update(orjson.dumps(orjson.loads(SNAPSHOTS.dump(state)[0]), option=orjson.OPT_SORT_KEYS))
        digests[stream.stem] = seen.hexdigest()
    return digests
