"""A process is killed at every named point of the runner; another one goes on, and nothing is lost or done twice."""

from collections import Counter
from pathlib import Path

import pytest

from steptrail.domain.tools import OnUnknown, ToolEffect
from tests.harness.crash_matrix import kill_everywhere
from tests.harness.crash_workload import VARIANTS, Variant
from tests.harness.worker_pool import WorkerPool

SIDE_BY_SIDE = {(ToolEffect.KEYED, OnUnknown.TELL), (ToolEffect.UNSAFE, OnUnknown.PARK)}
HERE = [each for each in VARIANTS if not each.concurrent or (each.effect, each.on_unknown) in SIDE_BY_SIDE]
CELLS = [*(("sqlite", variant) for variant in HERE), ("postgres", VARIANTS[-1])]
"""What a server does differently it does at every point, and for every effect class. The last has a person answer."""
APPENDS = ("before-append", "after-append")
TOOLS = ("before-tool", "after-tool")


@pytest.mark.parametrize(("store_url", "variant"), CELLS, indirect=["store_url"], ids=str)
def test_a_run_killed_at_any_point_goes_on_in_another_process(
    store_url: str, variant: Variant, tmp_path: Path, pool: WorkerPool
) -> None:
    # What opens a run and what ends it, and with each variant that follows the next two appends. All die at a tool. Of
    # the other points one variant dies at those before something, and the next one at those after, a time later.
    turn = HERE.index(variant)
    cells = kill_everywhere(pool, store_url, tmp_path, variant, points=APPENDS, most=2, later=2 * turn)
    others = [point for point in variant.points if point not in (*APPENDS, *TOOLS)][turn % 2 :: 2]
    cells += kill_everywhere(pool, store_url, tmp_path, variant, points=(*TOOLS, *others), most=1, later=turn)
    assert [cell for cell in cells if not cell.finding.is_good] == []
    killed = Counter(cell.fault.point for cell in cells)
    assert killed == Counter({**dict.fromkeys((*TOOLS, *others), 1), **dict.fromkeys(APPENDS, 2)})
