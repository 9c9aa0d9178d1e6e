"""Kill a run at every fault point, print what became of it, and write docs/reliability.md.

python -m scripts.crash_matrix [--store sqlite,postgres]    run every cell and write the rows of these stores
python -m scripts.crash_matrix --of workflows               the same for the rows of workflows alone, or of agents
python -m scripts.crash_matrix --check                      fail when the page does not have the rows of the code
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.reliability_page import PAGE, complaints, rewrite
from tests.harness.crash_matrix import SUBJECTS, Row, kill_everywhere, rows, table
from tests.harness.crash_workload import Variant
from tests.harness.flow_workload import FlowVariant
from tests.harness.store_urls import store_to_use_up
from tests.harness.worker_pool import WorkerPool


def main(arguments: Sequence[str]) -> int:
    """Run the matrix and write the page, or with `--check` say whether it has the rows of the code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite", help="stores to run on, separated by commas: sqlite, postgres")
    parser.add_argument("--of", default="agents,workflows", help="what is run: agents, workflows")
    parser.add_argument("--check", action="store_true", help="only look at the page that is there")
    given = parser.parse_args(arguments)
    if not given.check:
        variants = [variant for of in given.of.split(",") for variant in SUBJECTS[of]]
        with tempfile.TemporaryDirectory() as scratch, WorkerPool() as pool:
            lines = [line for name in given.store.split(",") for line in _run(pool, name, Path(scratch), variants)]
        PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), lines=lines), encoding="utf-8")
        print(table(lines))
    found = list(complaints(PAGE.read_text(encoding="utf-8")))
    for complaint in found:
        print(f"docs/reliability.md: {complaint}: run `make crash-matrix`", file=sys.stderr)
    return 1 if found else 0


def _run(pool: WorkerPool, store: str, folder: Path, variants: Sequence[Variant | FlowVariant]) -> list[Row]:
    with store_to_use_up(store, folder) as url:
        cells = [cell for variant in variants for cell in kill_everywhere(pool, url, folder, variant)]
    for cell in cells:
        if not cell.finding.is_good:
            print(f"{store}: {cell}", file=sys.stderr)
    return rows(store, cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
