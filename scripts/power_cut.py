"""Cut the power at every moment of real runs on SQLite, open what may be left, and write docs/reliability.md.

python -m scripts.power_cut
"""

import sys
import tempfile
from pathlib import Path

from scripts.reliability_page import PAGE, Cut, rewrite
from tests.harness.power_cut import states
from tests.harness.power_cut_audit import DURABILITIES, making, record_run, run_audit


def main() -> int:
    """Go through all states and write the page; 0 when every promise was kept."""
    cuts: list[Cut] = []
    for durability in DURABILITIES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            ops = record_run(folder / "run", durability)
            parts = [("making a store", making(ops), True), ("two sessions at once, twice", ops, False)]
            for name, part, thorough in parts[durability != "full" :]:
                left = states(part, thorough=thorough)
                audit, complaints = run_audit(folder / "run" / "runs.db", left, folder / "left")
                cuts.append(Cut(name, durability, *audit))
                print(cuts[-1], *(complaints if cuts[-1].is_broken else ()), sep="\n", flush=True)
    PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), cuts=cuts), encoding="utf-8")
    return 1 if any(cut.is_broken for cut in cuts) else 0


if __name__ == "__main__":
    sys.exit(main())
