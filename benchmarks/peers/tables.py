"""The figures of the peers as tables. Ratios are medians over the passes, each against Steptrail in the same pass.

A peer that syncs as often as Steptrail does by default is compared with that. One that syncs less is compared with
durability `normal`, which promises no more than it does: against `full` the disk would decide, and not the library.
"""

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.peers.child import Figures
from benchmarks.peers.contenders import FLOOR, FULL, NORMAL, Condition, Contender

_ALMOST = 0.9


def rival_of(contender: Contender, everybody: Sequence[Contender], conditions: Sequence[Condition]) -> str:
    """Return with which durability of Steptrail a contender is compared: by its syncs, of one session at a time.

    Sessions at once share syncs, so there they say nothing of what is promised. Where syncs were not counted it is
    `full`.
    """
    if contender.name in {FLOOR, FULL, NORMAL}:
        return FULL
    alone = next((condition for condition in conditions if condition.sessions == 1), None)
    ours = next(each for each in everybody if each.name == FULL)
    if alone is None:
        return FULL
    theirs, needed = contender.syncs_a_step(alone), ours.syncs_a_step(alone)
    return NORMAL if theirs is not None and needed is not None and theirs < needed * _ALMOST else FULL


def condition_table(
    everybody: Sequence[Contender], condition: Condition, conditions: Sequence[Condition]
) -> list[list[str]]:
    """Return the lines of the table of a condition, its head first: those that sync as often before the others."""
    unit = condition.scenario.unit
    head = ["library", "against", f"processor, ms a {unit}", "ratio", f"time, ms a {unit}", "ratio", f"syncs a {unit}"]
    lines = [[*head, f"KB a {unit}", "Steptrail ahead?"]]
    named = {each.name: each for each in everybody}
    for rival in (FULL, NORMAL):
        for one in everybody:
            compared_with = NORMAL if one.name == NORMAL else rival_of(one, everybody, conditions)
            if compared_with != rival:
                continue
            if (why := one.why_not(condition)) is not None:
                lines.append([one.name, f"not measured: {why}", *[""] * 7])
                continue
            lines.append([one.name, *_figures(one, named[rival], condition)])
    return lines


def verdict(
    everybody: Sequence[Contender], condition: Condition, conditions: Sequence[Condition]
) -> dict[str, bool | None]:
    """Return of each peer that syncs as often whether Steptrail is ahead of it in processor time and by the clock.

    None stands for one that was not measured.
    """
    ours = next(each for each in everybody if each.name == FULL)
    return {
        one.name: _is_ahead(one, ours, condition)
        for one in everybody
        if one.name not in {FLOOR, FULL, NORMAL} and rival_of(one, everybody, conditions) == FULL
    }


def promise_table(everybody: Sequence[Contender]) -> list[list[str]]:
    """Return the lines of the table of what is durable, its head first."""
    return [["library", "durable, and when", "version"], *([one.name, one.durable, one.version] for one in everybody)]


def _figures(one: Contender, rival: Contender, condition: Condition) -> list[str]:
    found, syncs = one.found[condition], one.syncs_a_step(condition)
    size = median(figures.bytes for figures in found)
    ahead = None if one.name in {FLOOR, FULL, NORMAL} else _is_ahead(one, rival, condition)
    return [
        "" if one.name == rival.name else rival.name,
        f"{median(figures.cost.cpu for figures in found) * 1000 / condition.total:.2f}",
        _shown(_ratio(one, rival, condition, _cpu)),
        f"{median(figures.cost.wall for figures in found) * 1000 / condition.total:.2f}",
        _shown(_ratio(one, rival, condition, _wall)),
        "-" if syncs is None else f"{syncs:.2f}",
        f"{size / 1000 / condition.total:.1f}" if size else "-",
        {None: "", True: "yes", False: "NO"}[ahead],
    ]


def _is_ahead(one: Contender, ours: Contender, condition: Condition) -> bool | None:
    ratios = [_ratio(one, ours, condition, clock) for clock in (_cpu, _wall)]
    known = [ratio for ratio in ratios if ratio is not None]
    return all(ratio > 1 for ratio in known) if known else None


def _ratio(one: Contender, other: Contender, condition: Condition, clock: Callable[[Figures], float]) -> float | None:
    if one.why_not(condition) is not None or other.why_not(condition) is not None:
        return None
    pairs = zip(one.found[condition], other.found[condition], strict=True)
    return median(clock(mine) / clock(theirs) for mine, theirs in pairs)


def _cpu(figures: Figures) -> float:
    return figures.cost.cpu


def _wall(figures: Figures) -> float:
    return figures.cost.wall


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"
