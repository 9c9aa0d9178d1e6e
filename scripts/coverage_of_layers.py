"""Print how much of each layer the tests run, lines and branches, and hold it to what pyproject.toml asks for.

python -m scripts.coverage_of_layers FOLDER

The folder holds what the workers of a test run saw, in files of `scripts.measuring`. The numbers in
`[tool.steptrail.coverage]` are percent of lines and branches together; they are raised when more is tested, and never
lowered.
"""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from slipcover import (  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    merge_coverage,  # pyright: ignore[reportUnknownVariableType]
)

_ROOT = Path(__file__).parents[1]
_PACKAGE = Path("src/steptrail")
_SLACK = 2
"""Percent above what is asked for, from where on the number is to be raised."""


class Layer(NamedTuple):
    """What of one layer was run."""

    name: str
    lines: float
    branches: float
    percent: float


def _share(run: int, missing: int) -> float:
    return 100 * run / (run + missing) if run + missing else 100.0


def report_of(folder: Path) -> dict[str, Any]:
    """Return what all workers saw together. Raises `SystemExit` when no worker wrote into the folder."""
    found = sorted(folder.glob("*.json"))
    if not found:
        sys.exit(f"coverage: no worker wrote into {folder}; run pytest with -n 2 -p scripts.measuring")
    report, *others = [json.loads(path.read_text(encoding="utf-8")) for path in found]
    for other in others:
        merge_coverage(report, other)
    return dict(report)


def measured(report: Mapping[str, Any]) -> list[Layer]:
    """Return what the report says of each root folder, by name."""
    sums: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        counted = {name: number for name, number in file["summary"].items() if isinstance(number, int)}
        # The layers are links below src/steptrail; what lies beside them is src.
        below = Path(path).relative_to(_PACKAGE).parts[0]
        sums.setdefault(below if (_ROOT / _PACKAGE / below).is_symlink() else "src", Counter()).update(counted)
    return [
        Layer(
            name,
            _share(of["covered_lines"], of["missing_lines"]),
            _share(of["covered_branches"], of["missing_branches"]),
            _share(of["covered_lines"] + of["covered_branches"], of["missing_lines"] + of["missing_branches"]),
        )
        for name, of in sorted(sums.items())
    ]


def complaints(layers: list[Layer], asked: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each layer of which too little was run, and for each that stands on one side only."""
    found = {layer.name: layer for layer in layers}
    for name in sorted(found.keys() ^ asked.keys()):
        yield f"{name} is in {'the report' if name in found else 'pyproject.toml'} only"
    for name in sorted(found.keys() & asked.keys()):
        if found[name].percent < asked[name]:
            yield f"{name}: {found[name].percent:.1f} percent is less than the {asked[name]} of pyproject.toml"


def numbers_of_the_project() -> dict[str, float]:
    """Return what pyproject.toml asks of each layer, in percent."""
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(settings["tool"]["steptrail"]["coverage"])


def main(report: Mapping[str, Any], asked: Mapping[str, float]) -> int:
    """Print the table of a report; 1 when a layer is below its number."""
    layers = measured(report)
    print(f"{'layer':16}{'lines':>8}{'branches':>10}{'both':>8}{'asked':>8}")
    for layer in layers:
        least = asked.get(layer.name)
        raised = "  raise it" if least is not None and layer.percent >= least + _SLACK else ""
        print(
            f"{layer.name:16}{layer.lines:8.1f}{layer.branches:10.1f}{layer.percent:8.1f}"
            f"{'none' if least is None else least:>8}{raised}"
        )
    missing = list(complaints(layers, asked))
    for each in missing:
        print(f"coverage: {each}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(report_of(Path(sys.argv[1])), numbers_of_the_project()))
