"""Bars and lines of block characters, for a terminal that can show them."""

from collections.abc import Sequence

_BLOCK, _PARTS, _STEPS = "█", " ▏▎▍▌▋▊▉", "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """Return a bar of eighths of characters, `width` characters long for a share of 1. More than nothing is seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(max(eighths, 1) if share > 0 else 0, 8)
    return _BLOCK * whole + _PARTS[part].strip()


def sparkline(amounts: Sequence[float]) -> str:
    """Return a character for each amount, from the lowest for nothing to the highest for the largest of them."""
    most = max(amounts, default=0)
    if most <= 0:
        return _STEPS[0] * len(amounts)
    # What is there at all is told from what is not.
    return "".join(_STEPS[max(1, round(each / most * 7)) if each > 0 else 0] for each in amounts)
