"""Bars and lines of block characters are as long and as high as what they show."""

import pytest

from steptrail.interfaces.cli.plots import bar, sparkline


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1e-9, "▏"), (1 / 16, "▌"), (0.5, "████"), (0.55, "████▍"), (1, "████████"), (7, "████████"), (-1, "")],
)
def test_a_bar_is_as_long_as_its_share(share: float, drawn: str) -> None:
    assert bar(share, 8) == drawn


@pytest.mark.parametrize(
    ("amounts", "drawn"),
    [([], ""), ([0, 0], "▁▁"), ([0, 1, 1000], "▁▂█"), ([7, 3, 0], "█▄▁"), ([5], "█")],
)
def test_a_line_is_as_high_as_its_amounts(amounts: list[float], drawn: str) -> None:
    assert sparkline(amounts) == drawn
