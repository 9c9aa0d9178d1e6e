"""Bars are held or not, tables are straight, and peers that are missing are named."""

import json
from pathlib import Path

import pytest

from benchmarks.bars import Bar, bars_table
from benchmarks.meter import Cost
from benchmarks.peers.__main__ import Compared, Found, save
from benchmarks.peers.child import Figures
from benchmarks.peers.contenders import FLOOR, FULL, NORMAL, Condition, Contender
from benchmarks.peers.scenarios import Scenario
from benchmarks.peers.tables import condition_table, verdict
from benchmarks.tables import table


@pytest.mark.parametrize(("measured", "held"), [(1.9, True), (2.0, True), (2.1, False), (None, None)])
def test_a_bar_is_held_up_to_its_limit(measured: float | None, held: bool | None) -> None:
    assert Bar("step", "x", 2.0, measured).held is held


def test_the_table_of_bars_says_what_was_missed_and_what_was_not_measured() -> None:
    found = [Bar("a", "x", 2.0, 1.5, (1.25, 1.75)), Bar("b", "ms", 200, 301.4), Bar("c", "%", 0.5, absent="no clock")]
    assert bars_table(found)[1:] == [
        ["a", "<= 2.00x", "1.50x", "1.25 to 1.75x", "yes"],
        ["b", "<= 200 ms", "301 ms", "", "NO"],
        ["c", "<= 0.50%", "-", "", "not measured: no clock"],
    ]


def test_a_table_is_as_wide_as_its_widest_cells() -> None:
    assert table([["a", "bb"], ["ccc", "d"]]).splitlines() == ["| a   | bb |", "| --- | -- |", "| ccc | d  |"]


ALONE, MANY = Condition(1, 100, 0), Condition(64, 10, 2)


def contender(name: str, *passes: tuple[float, float], syncs: int | None = 200, size: int = 0) -> Contender:
    """Return one with the processor time and the time by the clock of each pass, the same under both conditions."""
    figures = [Figures(Cost(wall, cpu), syncs, size) for cpu, wall in passes]
    return Contender(name, "", found={ALONE: figures, MANY: figures})


def everybody(*peers: Contender) -> list[Contender]:
    floor = contender(FLOOR, (0.05, 0.1), (0.1, 0.4))
    ours = contender(FULL, (0.1, 0.2), (0.2, 0.8), size=500_000)
    return [floor, ours, contender(NORMAL, (0.1, 0.1), (0.1, 0.1), syncs=2), *peers]


def lines(*peers: Contender, condition: Condition = ALONE) -> dict[str, list[str]]:
    return {line[0]: line[1:] for line in condition_table(everybody(*peers), condition, [ALONE, MANY])[1:]}


def test_a_peer_is_compared_within_each_pass() -> None:
    found = lines(contender("peer", (0.4, 1.0), (0.6, 4.0), size=1_000_000))
    assert found["peer"] == [FULL, "5.00", "3.50", "25.00", "5.00", "2.00", "10.0", "yes"]
    assert found[FLOOR] == [FULL, "0.75", "0.50", "2.50", "0.50", "2.00", "-", ""]
    assert found[FULL] == ["", "1.50", "1.00", "5.00", "1.00", "2.00", "5.0", ""]


def test_a_peer_that_syncs_less_stands_apart_and_is_compared_with_durability_normal() -> None:
    often, seldom = contender("often", (1.0, 1.0), (1.0, 1.0)), contender("seldom", (1.0, 1.0), (1.0, 1.0), syncs=100)
    for condition in (ALONE, MANY):
        found = lines(seldom, often, condition=condition)
        assert list(found) == [FLOOR, FULL, "often", NORMAL, "seldom"]
        assert (found["often"][0], found["seldom"][0]) == (FULL, NORMAL)
        assert list(verdict(everybody(seldom, often), condition, [ALONE, MANY])) == ["often"]


def test_where_syncs_are_not_counted_everybody_is_compared_with_the_default() -> None:
    found = lines(contender("peer", (1.0, 1.0), (1.0, 1.0), syncs=None))
    assert found["peer"][0] == FULL
    assert found["peer"][5] == "-"


def test_figures_of_a_workflow_are_for_each_of_its_three_nodes() -> None:
    flows = Condition(1, 100, 0, Scenario.WORKFLOW)
    peers = everybody(contender("peer", (0.6, 1.2), (0.6, 1.2), syncs=600))
    for one in peers:
        one.found[flows] = one.found[ALONE]
    head, *rest = condition_table(peers, flows, [flows])
    assert (head[2], head[6]) == ("processor, ms a node", "syncs a node")
    assert next(line for line in rest if line[0] == "peer")[2:7:2] == ["2.00", "4.00", "2.00"]
    assert str(flows).startswith("100 runs of a workflow of 3 nodes, one after another")


@pytest.mark.parametrize(("cpu", "wall", "ahead"), [(0.3, 1.0, True), (0.3, 0.1, False), (0.05, 1.0, False)])
def test_to_be_ahead_takes_both_clocks(cpu: float, wall: float, ahead: bool) -> None:
    peer = contender("peer", (cpu, wall), (cpu, wall))
    assert verdict(everybody(peer), ALONE, [ALONE, MANY]) == {"peer": ahead}


def test_a_peer_that_could_not_be_measured_stands_in_the_table_with_the_reason() -> None:
    missing = contender("peer", (1.0, 1.0), (1.0, 1.0))
    missing.failed[MANY] = "database is locked"
    assert lines(missing, condition=MANY)["peer"][0] == "not measured: database is locked"
    assert verdict(everybody(missing), MANY, [ALONE, MANY]) == {"peer": None}
    assert verdict(everybody(missing), ALONE, [ALONE, MANY]) == {"peer": True}


def test_both_scenarios_are_written_down_and_reported(tmp_path: Path) -> None:
    works = [Compared(scenario, everybody(), [ALONE, MANY]) for scenario in Scenario]
    found = Found(code={"commit": "abc"}, machine={"cores": "2"}, passes=2, compared=works, no_slow_disk=None)
    text = save(found, tmp_path)
    assert [line for line in text.splitlines() if "durable:" in line] == [
        "## What each makes durable: agent",
        "## What each makes durable: workflow",
    ]
    assert (tmp_path / "peers.md").read_text() == text
    written = json.loads((tmp_path / "peers.json").read_bytes())["scenarios"]
    assert list(written) == ["agent", "workflow"]
    assert [one["name"] for one in written["workflow"]["contenders"]] == [FLOOR, FULL, NORMAL]
