"""What is written of limits beside their classes is true, and what ships cannot be taken for somebody else."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from steptrail import Limits
from steptrail.domain.continuation.limits import LIMITS
from steptrail.domain.continuation.names import is_reserved


@pytest.mark.parametrize("name", LIMITS)
def test_the_guide_has_a_row_for_every_limit(name: str, root: Path) -> None:
    guide = (root / "docs/guides/limits.md").read_text(encoding="utf-8")
    (row,) = [line for line in guide.splitlines() if line.startswith(f"| `with_{name}(")]
    _, _, counts, _, default, _ = (cell.strip() for cell in row.split("|"))
    assert counts == LIMITS[name].counts
    usual = getattr(Limits(), name)
    assert default == ("none" if usual in (None, ()) else f"{usual:,.0f}")


def criteria_that_ship(modules: dict[str, ModuleType]) -> Iterator[type]:
    for path, module in modules.items():
        if path.startswith("steptrail.domain.continuation"):
            for kind in vars(module).values():
                if isinstance(kind, type) and getattr(kind, "__final__", False) and hasattr(kind, "decide"):
                    yield kind


def test_the_name_of_every_criterion_that_ships_is_reserved(modules: dict[str, ModuleType]) -> None:
    shipped = {kind.__name__ for kind in criteria_that_ship(modules)}
    assert {limit.__name__ for limit in LIMITS.values()} < shipped
    assert {"CallableCriterion", "ContinuationCriteria", "PendingInput", "Shadow", "UserStop"} < shipped
    assert [name for name in sorted(shipped) if not is_reserved(name)] == []
