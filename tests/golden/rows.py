"""The rows of the read models that the golden streams are counted as, for the version of these of that name."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from steptrail.domain.kernel.record import Recorded
from steptrail.projections.kernel.table import Key, Row
from steptrail.projections.runs_view.view import RunsView
from tests.golden import flows, streams
from tests.harness.projecting import entries, projected

FORMAT = f"runs.{RunsView.version}"


def counted() -> dict[str, str]:
    """Return a digest of the rows of every golden stream."""
    logs: dict[str, Sequence[Recorded[Any]]] = {}
    logs |= {f"agent:{path.stem}": streams.read(path) for path in sorted(streams.FOLDER.glob("*.jsonl"))}
    logs |= {f"flow:{path.stem}": flows.read(path) for path in sorted(flows.FOLDER.glob("*.jsonl"))}
    return {stream: _digest(projected(RunsView(), entries(stream, log)).whole()) for stream, log in logs.items()}


def _digest(tables: Mapping[str, Mapping[Key, Row]]) -> str:
    rows = sorted((table, sorted(map(repr, rows.values()))) for table, rows in tables.items())
    return sha256(repr(rows).encode()).hexdigest()
