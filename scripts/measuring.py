"""A plugin of pytest that notes which lines and branches of the library the workers of a test run have run.

python -m scripts.measuring
python -m pytest -n 2 -p scripts.measuring

Each worker writes what it saw as JSON into the folder that `STEPTRAIL_MEASURED` names; `coverage_of_layers` adds it up.
The code itself is instrumented: tracing makes the same tests twice as dear, and before Python 3.14 nothing else tells
of branches. So a worker does not run the bytecode that Python keeps, and pytest does not rewrite its assertions. What
is compiled for it is kept beside that bytecode. The first command compiles the library, once for all workers.
"""

import ast
import json
import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from slipcover import Slipcover  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from slipcover.branch import preinstrument  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from slipcover.version import (  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    __version__ as _slipcover,  # pyright: ignore[reportUnknownVariableType]
)

FOLDER = "STEPTRAIL_MEASURED"
"""The variable that names the folder, which exists."""

_SOURCE = str(Path(__file__).parents[1] / "src")
_NOT_MEASURED = ["@overload", r"^\s*\.\.\.$"]


def measured_library(*source: str) -> Slipcover:
    """Return one that measures lines and branches, and reports all files below `source`, also those not imported."""
    # To take its probes out again when they have been hit often, it would look through all functions: dearer than they.
    return Slipcover(branch=True, d_miss_threshold=-1, source=list(source), exclude_also=_NOT_MEASURED)


class Compiled(NamedTuple):
    """A module with marks at its branches, and what of it can be run."""

    code: CodeType
    lines: set[int]
    branches: set[tuple[int, int]]


def compiled(path: str) -> Compiled:
    """Return the module of this file, from what was kept of it unless its text or slipcover is another since."""
    text = Path(path).read_bytes()
    kept = Path(cache_from_source(path, optimization="measured"))
    of = (_slipcover, text)
    try:
        was, found = marshal.loads(kept.read_bytes())  # noqa: S302 - written below
        if was == of:
            return Compiled(*found)
    except (OSError, EOFError, ValueError, TypeError):
        pass
    code = compile(preinstrument(ast.parse(text)), path, "exec")
    made = Compiled(code, set(Slipcover.lines_from_code(code)), set(Slipcover.branches_from_code(code)))
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Workers may write it at the same moment.
    part = kept.with_suffix(f".{os.getpid()}")
    part.write_bytes(marshal.dumps((of, tuple(made))))
    part.replace(kept)
    return made


class Loader(SourceFileLoader):
    """Runs a module with probes in it."""

    def __init__(self, measured: Slipcover, name: str, path: str) -> None:
        super().__init__(name, path)
        self._measured = measured

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, whose lines and branches are then among those to be run."""
        found = compiled(self.path)
        self._measured.code_lines[self.path] = found.lines  # pyright: ignore[reportUnknownMemberType]
        self._measured.code_branches[self.path] = found.branches  # pyright: ignore[reportUnknownMemberType]
        # As a part of other code: otherwise slipcover would look for all lines and branches again.
        exec(self._measured.instrument(found.code, found.code), vars(module))  # noqa: S102


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
            spec.loader = Loader(self._measured, spec.name, spec.origin)
        return spec


# Other plugins of pytest, ours among them, are imported after those of its command line.
if "PYTEST_XDIST_WORKER" in os.environ:
    _measured = measured_library(_SOURCE)
    sys.meta_path.insert(0, Finder(_measured))

    def pytest_sessionfinish() -> None:
        """Write what this worker saw."""
        found = Path(os.environ[FOLDER]) / f"{os.environ['PYTEST_XDIST_WORKER']}.json"
        found.write_text(json.dumps(_measured.get_coverage()), encoding="utf-8")


if __name__ == "__main__":
    for _folder, _, _names in os.walk(_SOURCE, followlinks=True):
        for _name in _names:
            if _name.endswith(".py"):
                compiled(os.path.join(_folder, _name))
