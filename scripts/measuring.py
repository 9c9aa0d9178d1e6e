"""A plugin of pytest that notes which lines and branches of the library the workers of a test run have run.

python -m pytest -n 2 -p scripts.measuring

Each worker writes what it saw as JSON into the folder that `STEPTRAIL_MEASURED` names; `coverage_of_layers` adds it up.
The code itself is instrumented: tracing makes the same tests twice as dear, and before Python 3.14 nothing else tells
of branches. So a worker compiles the library anew, where pytest would have rewritten its assertions.
"""

import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from slipcover import Slipcover  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from slipcover.importer import (  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    SlipcoverLoader,
)

__all__ = ["FOLDER", "Finder", "measured_library"]

FOLDER = "STEPTRAIL_MEASURED"
"""The variable that names the folder, which exists."""

_SOURCE = str(Path(__file__).parents[1] / "src")
_NOT_MEASURED = ["@overload", r"^\s*\.\.\.$"]


def measured_library(*source: str) -> Slipcover:
    """Return one that measures lines and branches, and reports all files below `source`, also those not imported."""
    # To take its probes out again when they have been hit often, it would look through all functions: dearer than they.
    return Slipcover(branch=True, d_miss_threshold=-1, source=list(source), exclude_also=_NOT_MEASURED)


class Finder:
    """Imports the library instrumented."""

    def __init__(self, measured: Slipcover) -> None:
        self._measured = measured

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what loads a module of the library, and None for any other."""
        if name.partition(".")[0] != "steptrail":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = SlipcoverLoader(self._measured, spec.loader, spec.origin)
        return spec


# Other plugins of pytest, ours among them, are imported after those of its command line.
if "PYTEST_XDIST_WORKER" in os.environ:
    _measured = measured_library(_SOURCE)
    sys.meta_path.insert(0, Finder(_measured))

    def pytest_sessionfinish() -> None:
        """Write what this worker saw."""
        found = Path(os.environ[FOLDER]) / f"{os.environ['PYTEST_XDIST_WORKER']}.json"
        found.write_text(json.dumps(_measured.get_coverage()), encoding="utf-8")
