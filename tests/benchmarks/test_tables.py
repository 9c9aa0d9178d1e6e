"""Bars are held or not, tables are straight, and peers that are missing are named."""

import pytest

from benchmarks.bars import Bar, bars_table
from benchmarks.meter import Cost
from benchmarks.peers.__main__ import Contender, peers_table
from benchmarks.tables import table


@pytest.mark.parametrize(("measured", "held"), [(1.9, True), (2.0, True), (2.1, False), (None, None)])
def test_a_bar_is_held_up_to_its_limit(measured: float | None, held: bool | None) -> None:
    assert Bar("step", "x", 2.0, measured).held is held


def test_the_table_of_bars_says_what_was_missed_and_what_was_not_measured() -> None:
    lines = bars_table([Bar("a", "x", 2.0, 1.5), Bar("b", "ms", 200, 301.4), Bar("c", "modules", 0, None)])
    assert lines[1:] == [
        ["a", "<= 2.00x", "1.50x", "yes"],
        ["b", "<= 200 ms", "301 ms", "NO"],
        ["c", "<= 0 modules", "-", "not measured"],
    ]


def test_a_table_is_as_wide_as_its_widest_cells() -> None:
    assert table([["a", "bb"], ["ccc", "d"]]).splitlines() == ["| a   | bb |", "| --- | -- |", "| ccc | d  |"]


def contender(name: str, *walls: float, size: int = 0) -> Contender:
    return Contender(name, "", costs=[Cost(wall, wall / 2) for wall in walls], bytes=size)


def test_a_peer_is_compared_within_each_pass() -> None:
    floor, ours = contender("floor", 0.1, 0.4, 0.1), contender("steptrail", 0.2, 0.8, 0.3, size=500_000)
    peer = contender("peer", 1.0, 4.0, 1.2, size=1_000_000)
    lines = peers_table([floor, ours, peer], steps=100)
    assert lines[1] == ["floor", "1.00", "1.00", "0.50", "0.50", "-"]
    assert lines[2] == ["steptrail", "3.00", "2.00", "1.00", "1.50", "5.0"]
    assert lines[3] == ["peer", "12.00", "10.00", "5.00", "6.00", "10.0"]


def test_a_peer_that_could_not_be_measured_stands_in_the_table_with_the_reason() -> None:
    missing = Contender("peer", "", failed="does not install: no such version")
    lines = peers_table([contender("floor", 1.0), contender("steptrail", 1.0), missing], steps=1)
    assert lines[3][:2] == ["peer", "not measured: does not install: no such version"]
