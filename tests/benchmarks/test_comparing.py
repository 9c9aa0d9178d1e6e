"""Passes become medians, ratios and growth."""

import sys
from pathlib import Path

import pytest

from benchmarks.growth import SHORTEST, growth, step_costs
from benchmarks.meter import Cost, Pair, between, compared, keeping_bytecode, run_process, stopwatch


def test_a_ratio_is_the_median_of_the_ratios_of_the_passes() -> None:
    # The second pass ran while something else loaded the machine, which slowed both.
    pairs = [
        Pair(Cost(2.0, 1.0), Cost(1.0, 0.5)),
        Pair(Cost(40.0, 20.0), Cost(10.0, 10.0)),
        Pair(Cost(3.0, 1.5), Cost(1.0, 0.5)),
    ]
    found = compared(pairs, units=1000)
    assert (found.wall_ms, found.floor_wall_ms) == (3.0, 1.0)
    assert found.cpu_ms == 1.5
    assert found.floor_cpu_ms == 0.5
    assert found.cpu_ratio == 2.0
    assert found.cpu_range == (2.0, 3.0)


def test_the_floor_of_a_pass_is_the_mean_of_the_one_before_and_the_one_after() -> None:
    assert between(Cost(1.0, 0.5), Cost(3.0, 0.7)) == Cost(2.0, 0.6)


def test_without_a_pass_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no pass"):
        compared([])


def test_readings_at_the_model_calls_become_costs_of_steps() -> None:
    readings = [Cost(10.0, 1.0), Cost(12.0, 1.5), Cost(13.0, 2.5)]
    assert step_costs(readings) == [Cost(2.0, 0.5), Cost(1.0, 1.0)]


def test_growth_compares_steps_from_the_tenth_on_with_the_last() -> None:
    costs = [9.0] * 9 + [1.0] * 10 + [5.0] * 71 + [2.0] * 10
    found = growth(costs)
    assert (found.early, found.late, found.width, found.ratio) == (1.0, 2.0, 10, 2.0)


def test_a_rare_but_costly_step_counts_in_growth() -> None:
    assert growth([1.0] * 99 + [11.0]).ratio == 2.0


@pytest.mark.parametrize("steps", [SHORTEST, 12, 19, 20, 100])
def test_the_windows_of_growth_never_share_a_step(steps: int) -> None:
    costs = [0.0] * steps
    width = growth([1.0] * steps).width
    costs[9 : 9 + width] = [1.0] * width
    costs[-width:] = [3.0] * width
    assert growth(costs).ratio == 3.0


def test_a_run_that_is_too_short_has_no_growth() -> None:
    with pytest.raises(ValueError, match="too few"):
        growth([1.0] * (SHORTEST - 1))


def test_a_stopwatch_counts_what_its_block_did() -> None:
    with stopwatch() as watch:
        assert sum(range(200_000)) == 19_999_900_000
    assert watch.cost.wall > 0
    assert watch.cost.cpu > 0


def test_a_process_is_measured_and_heard() -> None:
    cost, printed = run_process(["sh", "-c", "echo said; exit 3"], accept=[3])
    assert printed == "said\n"
    assert cost.wall > 0


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ended with 2: it broke"):
        run_process(["sh", "-c", "echo it broke >&2; exit 2"])


def test_what_a_process_compiles_is_kept_for_the_next_whatever_holds_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tell = "import steptrail.domain.usage as module; print(module.__cached__)"
    with keeping_bytecode() as environment:
        _, printed = run_process([sys.executable, "-c", tell], environment=environment)
        kept = Path(printed.strip())
        assert kept.exists()
    assert not kept.exists()
