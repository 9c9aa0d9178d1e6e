"""`stats`: what all runs of a time come to. It counts what is stored, and changes no run."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Literal

from steptrail.domain.errors import stream_name
from steptrail.interfaces.cli.asking import asked, note_lag
from steptrail.interfaces.cli.going_on import store_given, typed
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, amount, moment, named
from steptrail.interfaces.cli.plots import bar, sparkline
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.asking.stats import GROUPS, FailureGroup, Group, Stats, ToolStats
from steptrail.projections.rendering import dollars, many

_ROWS, _LONGEST_TREND, _WIDEST_BAR, _BESIDE_BAR = 10, 30, 30, 50
_TABLES = ("tool", "model")


def register(commands: Commands) -> None:
    """Add the command."""
    stats = commands.add("stats", _stats, "Say what runs come to: how they end, what they take and cost, what fails.")
    stats.add_argument("--since", type=moment, metavar="TIME", help="ended on that day or later: 12h, 30d, 2026-03-01")
    stats.add_argument("--until", type=moment, metavar="TIME", help="ended on that day or before")
    stats.add_argument("--by", choices=[*GROUPS, *_TABLES], help="one row for each agent, day, kind, tool or model")
    stats.add_argument("--agent", metavar="NAME", help="runs of this agent or workflow")
    stats.add_argument("--tenant", metavar="NAME", help="runs of this tenant")
    stats.add_argument("--limit", type=amount, metavar="N", default=_ROWS, help=f"at most N rows a table ({_ROWS})")


def _stats(arguments: argparse.Namespace, output: Output) -> None:
    group: Literal["agent", "day", "kind"] | None = arguments.by if arguments.by in GROUPS else None
    said = named(arguments, "since", "until", "agent", "tenant")

    async def work(trail: Steptrail) -> tuple[Stats, int]:
        found = await trail.views.stats(by=() if group is None else (group,), **said)
        return found, max((each.erased for each in await trail.views.status() if each.name == "runs"), default=0)

    found, erased = asked(arguments, work)
    if output.as_json:
        output.data(found.to_dict())
        return
    page = _Page(output, found, arguments.limit, store_given(arguments))
    if not found.total.runs:
        page.line("no run has ended in this time")
    elif group is not None:
        page.groups(group)
    elif arguments.by is None:
        page.overview()
        page.failures()
    if arguments.by in (None, "tool"):
        page.tools()
    if arguments.by in (None, "model"):
        page.models()
    if arguments.by is None:
        page.retries()
        page.shadow()
        page.scores()
    note_lag(output, found.lag)
    if erased:
        output.note(f"steptrail: {many(erased, 'erased session')} still in these: `steptrail rebuild` makes them anew")


class _Page:
    """Prints an answer, a table below the other. Each has `limit` rows at most."""

    def __init__(self, output: Output, found: Stats, limit: int, store: str | None) -> None:
        self._output, self._found, self._limit, self._store = output, found, limit, store
        self._width = max(8, min(_WIDEST_BAR, shutil.get_terminal_size().columns - _BESIDE_BAR))
        self._is_first = True

    def line(self, text: str) -> None:
        """Print a line that belongs to no table."""
        self._is_first = False
        self._output.line(text)

    def overview(self) -> None:
        """Print how runs ended, how long they took, and what they cost."""
        total, since = self._found.total, self._found.since
        time = "ended" if since is None else f"ended since {since.date()}"
        self.line(f"{many(total.runs, 'run')} {time}, in {many(total.steps, 'step')}")
        self.line(f"runs by day  {self._trend(self._found.days)}  to {max(self._found.days)}")
        reasons = [
            [reason or "none", f"{runs:,}", self._share(runs, total.runs, max(total.stop_reasons.values()))]
            for reason, runs in total.stop_reasons.items()
        ]
        self._table(["STOP REASON", "RUNS", "SHARE"], reasons, is_whole=True)
        sums = {name: getattr(total, f"{name}_seconds") for name in total.percentiles}
        times = [
            [name, _time(each.p50), _time(each.p90), _time(each.p95), _time(each.p99), _time(sums[name])]
            for name, each in total.percentiles.items()
        ]
        self._table(["TIME", "P50", "P90", "P95", "P99", "IN ALL"], times, is_whole=True)
        self._gap()
        tokens = ", ".join(f"{each:,} {name.replace('_', ' ')}" for name, each in total.tokens.items() if each)
        wasted = f"; {total.wasted_tokens:,} of tries that came to nothing" if total.wasted_tokens else ""
        self.line(f"tokens  {tokens or 'none'}{wasted}")
        if total.unpriced_runs < total.runs or total.cost_usd:
            wasted = f", {dollars(total.wasted_usd)} of it for tries that came to nothing" if total.wasted_usd else ""
            unpriced = f"; {many(total.unpriced_runs, 'run')} without a whole price" if total.unpriced_runs else ""
            self.line(f"cost    {dollars(total.cost_usd)}{wasted}{unpriced}")

    def groups(self, by: str) -> None:
        """Print a row for each group."""
        rows = _sorted(self._found.groups, by)
        heads = [by.upper(), "RUNS", "SHARE", "STOPPED BY", "P50", "P95", "COST A RUN", "ERRORS"]
        largest = max(each.runs for each in rows)
        self._table(heads, [self._group(each, by, largest) for each in rows])

    def tools(self) -> None:
        """Print how calls of tools ended."""
        heads = ["TOOL", "CALLS", "FAILED", "RATE", "A CALL", "ERRORS"]
        self._table(heads, [_tool(each) for each in self._found.tools])

    def models(self) -> None:
        """Print how model calls ended."""
        rows = [
            [
                each.model,
                f"{each.calls:,}",
                f"{each.statuses.get('failed', 0):,}",
                _time(each.seconds / max(1, each.calls)),
                f"{sum(each.tokens.values()):,}",
                _priced(each.cost_usd, each.unpriced_calls, each.calls),
            ]
            for each in self._found.models
        ]
        self._table(["MODEL", "CALLS", "FAILED", "A CALL", "TOKENS", "COST"], rows)

    def retries(self) -> None:
        """Print what tries cost that came to nothing."""
        rows = [
            [
                f"{each.kind} {each.name}",
                each.error_type,
                f"{each.tries:,}",
                _time(each.seconds),
                f"{each.tokens:,}",
                dollars(each.cost_usd),
            ]
            for each in self._found.retries
        ]
        self._table(["TRIES FOR NOTHING", "ERROR", "TRIES", "TIME", "TOKENS", "COST"], rows)

    def failures(self) -> None:
        """Print failures by signature."""
        rows = [
            [
                each.signature,
                f"{each.runs:,}",
                f"{each.calls:,}",
                f"{each.retried:,}",
                each.last_day,
                self._trend(each.days),
                " ".join(part for part in (each.tool, each.error_class or each.error_type) if part),
                self._example(each),
            ]
            for each in self._found.failures
        ]
        self._table(["FAILURE", "RUNS", "CALLS", "TRIED AGAIN", "LAST", "BY DAY", "OF WHAT", "EXAMPLE"], rows)

    def _example(self, of: FailureGroup) -> str:
        if of.sample is None:
            return ""
        # The session may have gone on since, and may have failed otherwise.
        return typed(self._store, "why", stream_name(of.sample), options=("--execution", str(of.ordinal)))

    def scores(self) -> None:
        """Print how runs were scored."""
        rows = [
            [
                each.agent,
                each.name,
                f"{each.scores:,}",
                "" if each.mean is None else f"{each.mean:.3g}",
                ", ".join(f"{label} {count:,}" for label, count in each.labels.items()),
            ]
            for each in self._found.scores
        ]
        self._table(["AGENT", "SCORE", "GIVEN", "MEAN", "LABELS"], rows)

    def shadow(self) -> None:
        """Print what criteria in shadow voted."""
        rows = [[each.criterion, each.vote, f"{each.runs:,}"] for each in self._found.shadow]
        self._table(["IN SHADOW", "VOTE", "RUNS"], rows)

    def _group(self, group: Group, by: str, largest: int) -> list[str]:
        active = group.percentiles["active"]
        reason = next(iter(group.stop_reasons), "")
        return [
            group.by[by],
            f"{group.runs:,}",
            self._share(group.runs, self._found.total.runs, largest),
            f"{reason or 'none'} {_percent(group.stop_reasons.get(reason, 0), group.runs)}",
            _time(active.p50),
            _time(active.p95),
            _priced(group.cost_usd / group.runs, group.unpriced_runs, group.runs),
            f"{group.errors:,}",
        ]

    def _share(self, part: int, whole: int, largest: int) -> str:
        percent = _percent(part, whole)
        return f"{bar(part / largest, self._width)} {percent}" if self._output.draws else percent

    def _trend(self, days: Mapping[str, int]) -> str:
        """Draw amounts by day, all over the same days, so that one trend can be held against another."""
        first, last = (date.fromisoformat(find(self._found.days)) for find in (min, max))
        span = min(_LONGEST_TREND, (last - first).days + 1)
        each = [days.get((last - timedelta(days=ago)).isoformat(), 0) for ago in reversed(range(span))]
        return sparkline(each) if self._output.draws else " ".join(f"{amount:,}" for amount in each)

    def _table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, is_whole: bool = False) -> None:
        if not rows:
            return
        shown = rows if is_whole else rows[: self._limit]
        self._gap()
        self._output.table(heads, shown)
        if len(shown) < len(rows):
            self._output.note(f"steptrail: {many(len(rows) - len(shown), 'row')} more: `--limit` shows them")

    def _gap(self) -> None:
        if not self._is_first:
            self._output.line()
        self._is_first = False


def _sorted(groups: Sequence[Group], by: str) -> list[Group]:
    """Return groups as people look for them: the newest day first, and of all else what is most frequent."""
    named = sorted(groups, key=lambda each: each.by[by], reverse=by == "day")
    return named if by == "day" else sorted(named, key=lambda each: -each.runs)


def _tool(each: ToolStats) -> list[str]:
    errors = ", ".join(f"{runs:,} {error}" for error, runs in each.by_error.items())
    name = each.tool if each.kind == "agent" else f"node {each.tool}"
    took = _time(each.seconds / max(1, each.calls))
    return [name, f"{each.calls:,}", f"{each.errors:,}", _percent(each.errors, each.calls), took, errors]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def _priced(amount: float, unpriced: int, of: int) -> str:
    """Return a cost of which `unpriced` parts of `of` have no price, or no whole one."""
    if unpriced == of and not amount:
        return ""
    return f"{'at least ' if unpriced else ''}{dollars(amount)}"
