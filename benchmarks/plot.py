"""The picture: what a step costs over the number of steps, in time and in bytes. Needs the dependency group `bench`."""

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.results import Results, StoreResults

_OURS, _FLOOR = "#1f5fa8", "#b0562c"


def draw(results: Results, path: Path) -> None:
    """Write the picture to `path`; the ending says in which format."""
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("agg")
    # Otherwise the names of parts of an SVG change from run to run, and so would the file.
    matplotlib.rcParams.update({"svg.hashsalt": "steptrail", "font.size": 9})
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, grid = pyplot.subplots(len(results.stores), 3, figsize=(13, 3.8 * len(results.stores)), squeeze=False)
    for axes, store in zip(grid, results.stores, strict=True):
        _lengths(axes[0], store)
        _course(axes[1], axes[2], store)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
    pyplot.close(figure)


def _lengths(axes: Any, store: StoreResults) -> None:
    steps = [figures.steps for figures in store.steps]
    times = [figures.time for figures in store.steps]
    axes.plot(steps, [time.cpu_ms for time in times], "o-", color=_OURS, label="Steptrail, processor")
    axes.plot(steps, [time.wall_ms for time in times], "o:", color=_OURS, label="Steptrail, time")
    axes.plot(steps, [time.floor_cpu_ms for time in times], "s-", color=_FLOOR, label="floor, processor")
    axes.plot(steps, [time.floor_wall_ms for time in times], "s:", color=_FLOOR, label="floor, time")
    axes.set(xscale="log", xlabel="steps in the run", ylabel="ms a step")
    _from_zero(axes)
    axes.set_title(f"{store.name}: a durable step")
    axes.legend(loc="upper center", ncol=2, fontsize=8)


def _course(times: Any, sizes: Any, store: StoreResults) -> None:
    grown = store.growth
    if grown is not None:
        times.plot(grown.points, grown.cpu_ms, "-", color=_OURS, label="processor")
        times.plot(grown.points, grown.wall_ms, ":", color=_OURS, label="time")
        times.legend(loc="upper center", ncol=2, fontsize=8)
        sizes.plot(grown.points, [size / 1000 for size in grown.bytes], "-", color=_OURS)
    for axes, what, unit in ((times, "time", "ms a step"), (sizes, "bytes", "KB of rows a step")):
        axes.set(xlabel="step", ylabel=unit)
        axes.set_title(f"{store.name}: {what} along the longest run")
        _from_zero(axes)


def _from_zero(axes: Any) -> None:
    # A flat line would otherwise be drawn on the frame, and a legend on the lines.
    axes.set_ylim(0, axes.dataLim.y1 * 1.3)
