"""The filters and orders of `runs` that the read models answer. Each row is one run: one execution of a stream."""

import argparse
from collections.abc import Callable, Collection

from steptrail.domain.errors import stream_name
from steptrail.domain.tools import ToolEffect
from steptrail.interfaces.cli.asking import asked, note_lag
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Parser, named, prefix
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.interfaces.python.asking_runs import RunsPage
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.asking.filters import MEASURES, Measure, RunFilter, RunOrder
from steptrail.projections.asking.runs import RunCount, RunRow
from steptrail.projections.rendering import dollars

_WORDS = {
    "tenant": "of this tenant",
    "model": "that began with this model",
    "tool": "in which a call of this tool, or a visit of this node, did not complete",
    "error_type": "that failed with this type of error",
    "error_class": "that failed with an error of this class, such as builtins:KeyError",
    "signature": "that failed like this; `steptrail stats` shows signatures",
    "resolved_by": "whose end this criterion decided",
}
_MEASURES: dict[str, Measure] = {str(measure): measure for measure in MEASURES}
_OFTEN = ("tag", "least", "most", "score")
VIEW_FILTERS = (*_WORDS, "effect", "root", *_OFTEN, "order")
"""The names of these filters, and `order`, among the parsed arguments."""


def add_filters(runs: Parser) -> None:
    """Add the options to the command `runs`."""
    group = runs.add_argument_group(
        "filters and orders of the read models", "with one of these each row is a run, and not a session"
    )
    for name, says in _WORDS.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="NAME", help=says)
    effects = [effect.value for effect in ToolEffect]
    group.add_argument("--effect", choices=effects, help="in which a call of this effect class did not complete")
    group.add_argument("--root", type=prefix, metavar="ID", help="that session ID began, or any run below it")
    group.add_argument("--tag", action="append", metavar="NAME=VALUE", help="with this tag; may be said again")
    sizes = ", ".join(MEASURES)
    group.add_argument("--least", action="append", metavar="MEASURE=N", help=f"with N at least, of {sizes}")
    group.add_argument("--most", action="append", metavar="MEASURE=N", help="with N at most, of the same")
    says = "with such a score, as helpful>=0.5, tone=formal, or helpful for any; may be said again"
    group.add_argument("--score", action="append", metavar="CONDITION", help=says)
    group.add_argument("--order", choices=[order.value for order in RunOrder], help="which runs come first")


def needs_views(arguments: argparse.Namespace) -> bool:
    """Whether the command was given anything that only the read models answer."""
    return any(getattr(arguments, name) is not None for name in VIEW_FILTERS)


def list_asked(
    arguments: argparse.Namespace, output: Output, *, next_page: Callable[[argparse.Namespace, str], str]
) -> None:
    """List the runs that the filters of the command find; `next_page` returns the command for those after a place."""

    async def found(trail: Steptrail) -> tuple[RunsPage, RunCount | None]:
        page = await trail.views.runs(
            await _filter(trail, arguments), arguments.order or RunOrder.NEWEST, arguments.limit, arguments.after
        )
        return page, await page.count() if page.next is not None else None

    page, count = asked(arguments, found)
    if output.as_json:
        output.data(
            {
                "runs": [row.to_dict() for row in page.rows],
                "next": page.next,
                "asOf": page.as_of,
                "lag": page.lag,
            }
        )
        return
    is_priced = any(row.cost_usd is not None for row in page.rows)
    cost = ["COST"] if is_priced else []
    heads = ["ID", "RUN", "AGENT", "STATUS", "STOP REASON", "ERROR", "STEPS", "ACTIVE", *cost, "STARTED (UTC)"]
    output.table(heads, [_cells(row, is_priced=is_priced) for row in page.rows])
    if page.next is not None:
        output.note(f"steptrail: these are {len(page.rows)} of {count}: `{next_page(arguments, page.next)}` goes on")
    note_lag(output, page.lag)


async def _filter(trail: Steptrail, arguments: argparse.Namespace) -> RunFilter:
    async def stream(name: str | None) -> str | None:
        return None if name is None else (await trail.find_any(name)).stream_id

    return RunFilter(
        waits_for=arguments.waiting_for,
        parent=await stream(arguments.parent),
        root=await stream(arguments.root),
        tags=_pairs(arguments.tag, "--tag"),
        least=_sizes(arguments.least, "--least"),
        most=_sizes(arguments.most, "--most"),
        scores=arguments.score or (),
        **named(arguments, "status", "stop_reason", "agent", "since", "until", "effect", *_WORDS),
    )


def _pairs(given: Collection[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise Refusal(f"{option} {each!r} is not NAME=VALUE")
        if pairs.setdefault(name, value) != value:
            raise Refusal(f"{option} {name!r} cannot be both {pairs[name]!r} and {value!r}")
    return pairs


def _sizes(given: Collection[str] | None, option: str) -> dict[Measure, float]:
    sizes: dict[Measure, float] = {}
    for name, value in _pairs(given, option).items():
        each = f"{name}={value}"
        measure = _MEASURES.get(name)
        if measure is None:
            raise Refusal(f"{option} {each!r}: a run has no {name!r}, there are {', '.join(MEASURES)}")
        try:
            sizes[measure] = float(value)
        except ValueError:
            raise Refusal(f"{option} {each!r}: {value!r} is no number") from None
    return sizes


def _cells(row: RunRow, *, is_priced: bool) -> list[str]:
    cost = "" if row.cost_usd is None else f"{'at least ' if row.is_unpriced else ''}{dollars(row.cost_usd)}"
    return [
        stream_name(row.stream),
        str(row.ordinal),
        row.name,
        f"{row.status}, crashed" if row.is_crashed else row.status,
        how_it_stopped(row.stop_reason, answered=row.answered),
        row.error_type or "",
        str(row.steps),
        f"{row.active_seconds:.2f} s",
        *([cost] if is_priced else []),
        f"{row.started_at:%Y-%m-%d %H:%M:%S}",
    ]
