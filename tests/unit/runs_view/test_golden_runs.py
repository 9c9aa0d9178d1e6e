"""The rows of the golden streams agree with the machines, and the sums with the rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from steptrail.domain.kernel.record import Recorded
from steptrail.projections.runs_view.view import RunsView
from tests.golden import flows, rows
from tests.golden.streams import FOLDER, read
from tests.harness.projecting import entries, joined_log, projected
from tests.harness.runs_view_audit import (
    agrees_with_the_agent,
    agrees_with_the_flow,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)

AGENTS = sorted(FOLDER.glob("*.jsonl"))
FLOWS = sorted(flows.FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_the_rows_of_an_agent_are_what_the_machine_says(path: Path) -> None:
    agrees_with_the_agent(path.stem, read(path), projected(RunsView(), entries(f"agent:{path.stem}", read(path))))


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: path.stem)
def test_the_rows_of_a_workflow_are_what_the_machine_says(path: Path) -> None:
    agrees_with_the_flow(
        path.stem, flows.read(path), projected(RunsView(), entries(f"flow:{path.stem}", flows.read(path)))
    )


@pytest.mark.parametrize("path", [*AGENTS, *FLOWS], ids=lambda path: path.stem)
def test_at_every_place_of_the_log_one_batch_and_one_for_each_entry_have_led_to_the_same_rows(path: Path) -> None:
    kind, records = ("agent", read(path)) if path in AGENTS else ("flow", flows.read(path))
    log = entries(f"{kind}:{path.stem}", records)
    for end in range(1, len(log) + 1):
        one_by_one = projected(RunsView(), log[:end], batches=lambda: 1)
        assert one_by_one.whole() == projected(RunsView(), log[:end]).whole()


def test_the_rows_of_all_together_fit_and_are_summed_up() -> None:
    streams: dict[str, Sequence[Recorded[Any]]] = {f"agent:{path.stem}": read(path) for path in AGENTS}
    streams |= {f"flow:{path.stem}": flows.read(path) for path in FLOWS}
    log = joined_log(streams)
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {(entry.stream, entry.record.version): entry.record.at for entry in log})


def test_what_the_golden_streams_are_counted_as_is_what_the_version_stands_for() -> None:
    recorded = FOLDER / "folds" / f"{rows.FORMAT}.json"
    why = (
        f"events are counted as something else than when {rows.FORMAT!r} was recorded, and read models that are out "
        "there hold the old rows. Raise the version of RunsView and run `python -m tests.golden.record`"
    )
    assert recorded.exists(), why
    assert rows.counted() == orjson.loads(recorded.read_bytes()), why
