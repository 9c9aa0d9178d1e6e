"""The bill of a run and of each run below it: its own tokens and cost, and those with all below it.

They are counted over all executions of each, from the read models, since a tree has any number of events.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.counting import SHORTLY_SECONDS, Counting
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import dollars, few, many
from steptrail.projections.runs_view.tables import TOKENS

_MOST_NAMES: Final = 3
"""How many names of one depth are told."""


class RunBill(NamedTuple):
    """Tokens, and dollars where prices are recorded.

    `is_least` tells that not all is counted, and `is_unpriced` that some of the tokens have no price.
    """

    tokens: int = 0
    dollars: float | None = None
    is_least: bool = False
    is_unpriced: bool = False

    def plus(self, other: "RunBill") -> "RunBill":
        """Return both together."""
        known = [each for each in (self.dollars, other.dollars) if each is not None]
        without = any(each.tokens and each.dollars is None for each in (self, other))
        return RunBill(
            tokens=self.tokens + other.tokens,
            dollars=sum(known) if known else None,
            is_least=self.is_least or other.is_least,
            is_unpriced=self.is_unpriced or other.is_unpriced or without,
        )

    def __str__(self) -> str:
        least, so_much = "at least " if self.is_least else "", "at least " if self.is_unpriced else ""
        cost = "" if self.dollars is None else f", {so_much}{dollars(self.dollars)}"
        return f"{least}{many(self.tokens, 'token')}{cost}"


class TreeBill(NamedTuple):
    """The bills of a tree by their streams; a stream that is not counted yet has none.

    `percent` is how much of the log is counted, None when all is.
    """

    own: Mapping[str, RunBill]
    whole: Mapping[str, RunBill]
    percent: int | None = None


async def tree_bill(
    trail: Steptrail,
    counting: Counting,
    access: Access,
    row: RunSummary,
    below: Sequence[tuple[int, RunSummary]],
    *,
    is_cut: bool,
) -> TreeBill | None:
    """Return the bill of a run with those below it, each with its depth; None where nothing is below or counted.

    `is_cut` tells that there are more below than those.
    """
    if not below:
        return None
    streams = [row.stream, *(each.stream for _, each in below)]

    async def question(_: object) -> Sequence[Sequence[Any]]:
        tokens = " + ".join(TOKENS)
        named = ", ".join(f"${number}" for number in range(1, len(streams) + 1))
        return (
            await trail.views.sql(
                f"SELECT stream, CAST(sum({tokens}) AS bigint), sum(cost_usd), "  # noqa: S608
                "sum(CASE WHEN is_unpriced THEN 1 ELSE 0 END), count(*), count(cost_usd) "
                f"FROM executions WHERE stream IN ({named}) GROUP BY stream",
                *streams,
                fresh=None,
            )
        ).rows

    found = await counting.ask(access, question, patience=SHORTLY_SECONDS)
    if not found.answer:
        return None
    own = {
        stream: RunBill(
            tokens=int(tokens),
            dollars=None if cost is None else float(cost),
            is_unpriced=bool(unpriced) or 0 < priced < runs,
        )
        for stream, tokens, cost, unpriced, runs, priced in found.answer
    }
    return TreeBill(own, _whole(own, row, below, is_cut=is_cut), found.percent)


def _whole(
    own: Mapping[str, RunBill], row: RunSummary, below: Sequence[tuple[int, RunSummary]], *, is_cut: bool
) -> Mapping[str, RunBill]:
    """Return each bill with those below it: of a tree that is walked, what follows deeper is below."""
    unknown = RunBill(is_least=True)
    bills = [(0, row.stream), *((depth, each.stream) for depth, each in below)]
    whole: dict[str, RunBill] = {}
    sums: list[RunBill] = []
    # From the last on: `sums` has, for each depth, what stands there without a run above it yet.
    for depth, stream in reversed(bills):
        under = sums[depth + 1] if len(sums) > depth + 1 else RunBill()
        bill = own.get(stream, unknown).plus(under)
        del sums[depth + 1 :]
        sums += [RunBill()] * (depth + 1 - len(sums))
        sums[depth] = sums[depth].plus(bill)
        whole[stream] = bill._replace(is_least=bill.is_least or is_cut)
    return whole


def way_down(row: RunSummary, below: Sequence[tuple[int, RunSummary]]) -> str:
    """Return the names of a tree, each depth behind the one above it: `desk \u203a checker \u203a mailer`."""
    names: dict[int, dict[str, None]] = {0: {row.name: None}}
    for depth, each in below:
        names.setdefault(depth, {})[each.name] = None
    return " \u203a ".join(few(list(named), _MOST_NAMES) for _, named in sorted(names.items()))
