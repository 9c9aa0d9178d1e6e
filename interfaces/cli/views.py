"""`views`, `rebuild` and `sql`: the read models of a store, how they stand, made anew, and asked."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time as clock
from typing import cast

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.views.database import MOST_BYTES
from steptrail.interfaces.cli.asking import asked, in_store, note_lag
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, age, amount, projection_option, seconds
from steptrail.interfaces.python.loading_projections import load_projections
from steptrail.interfaces.python.views import SqlAnswer, ViewsStatus
from steptrail.projections.camel_form import camel_fields
from steptrail.projections.rendering import many

_MOST_ROWS, _LONGEST_SECONDS, _MOST_MEGABYTES = 1_000, 5.0, MOST_BYTES // 1_000_000


def register(commands: Commands) -> None:
    """Add the commands."""
    views = commands.add("views", _views, "Show how far the read models have come, or prune them.")
    views.add_argument(
        "--prune",
        metavar="AGE",
        type=age,
        help="say how many runs ended longer ago than 400d, 12h or 2w; with --yes delete their rows, but no sums",
    )
    views.add_argument("--yes", action="store_true", help="with --prune: delete them")
    rebuild = commands.add("rebuild", _rebuild, "Make the read models anew from the beginning of the log.")
    projection_option(views)
    projection_option(rebuild)
    rebuild.add_argument("--whole", action="store_true", help="also the rows that were pruned")
    sql = commands.add("sql", _sql, "Ask the read models in SQL; `SELECT * FROM view_columns` lists what there is.")
    sql.add_argument("text", metavar="SELECT", help='the question, such as "SELECT status, count(*) FROM executions …"')
    sql.add_argument("values", metavar="VALUE", nargs="*", help="what $1, $2 and so on stand for, as texts")
    sql.add_argument("--limit", type=amount, metavar="N", default=_MOST_ROWS, help=f"at most N rows ({_MOST_ROWS:,})")
    sql.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        default=_LONGEST_SECONDS,
        help=f"give the question up after so long ({_LONGEST_SECONDS:g})",
    )


def _views(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.prune is not None:
        return _prune(arguments, output)
    if arguments.yes:
        raise Refusal("--yes is for --prune: without it nothing is deleted")

    found = in_store(arguments, lambda trail: trail.views.status())
    if output.as_json:
        output.data([camel_fields(each) for each in found])
        return
    rows = [
        [
            each.name,
            str(each.version),
            str(each.generation),
            str(each.position),
            str(each.lag),
            f"{each.at:%Y-%m-%d %H:%M:%S}" if each.at is not None else "",
            f"{each.bytes / 1e6:,.1f} MB",
            ", ".join(_troubles(each)),
        ]
        for each in found
    ]
    output.table(["NAME", "VERSION", "GENERATION", "POSITION", "LAG", "COUNTED TO (UTC)", "SIZE", ""], rows)
    for place in dict.fromkeys(each.place for each in found):
        output.note(f"steptrail: they are kept in {place}")
    if any(each.damaged for each in found):
        output.note("steptrail: `steptrail doctor` says what is damaged")
    for each in found:
        if each.error is not None:
            output.note(f"steptrail: {each.name} stopped at position {each.error_position}:")
            output.note(each.error.strip().rpartition("\n")[2])


def _troubles(each: ViewsStatus) -> Iterator[str]:
    if each.error:
        yield "stopped"
    if each.skipped:
        yield f"{each.skipped} skipped"
    if each.damaged:
        yield f"{each.damaged} damaged"
    if each.erased_at is not None:
        yield f"{each.erased} erased still in sums since {each.erased_at:%Y-%m-%d %H:%M}"
    if each.pruned_before is not None:
        yield f"pruned before {each.pruned_before:%Y-%m-%d}"


def _prune(arguments: argparse.Namespace, output: Output) -> None:
    own, is_dry = load_projections(arguments.projection), not arguments.yes
    report = in_store(
        arguments,
        lambda trail: trail.views.prune(older_than=arguments.prune, dry_run=is_dry),
        read_only=is_dry,
        projections=own,
    )
    data = {"before": report.before.isoformat(), "runs": report.runs, "dryRun": report.is_dry_run}
    what = f"the rows of {many(report.runs, 'run')} that ended before {report.before:%Y-%m-%d %H:%M} UTC"
    told = f"{what} would be deleted; nothing was done" if report.is_dry_run else f"deleted {what}; sums stay"
    output.answer(data, told)


def _rebuild(arguments: argparse.Namespace, output: Output) -> None:
    own = load_projections(arguments.projection)
    generation = in_store(
        arguments, lambda trail: trail.views.rebuild(whole=arguments.whole), read_only=False, projections=own
    )
    output.answer({"generation": generation}, f"the read models were made anew: generation {generation}")


def _sql(arguments: argparse.Namespace, output: Output) -> None:
    answer: SqlAnswer = asked(
        arguments,
        lambda trail: trail.views.sql(
            arguments.text, *arguments.values, timeout=arguments.timeout, limit=arguments.limit
        ),
    )
    rows = [[_plain(value) for value in row] for row in answer.rows]
    names = list(answer.columns)
    if output.as_json:
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Refusal(f"two columns are named {twice!r}, and a field of JSON is there once: name them with AS")
        output.data(
            {
                "rows": [dict(zip(names, row, strict=True)) for row in rows],
                "isCut": answer.is_cut,
                "asOf": answer.as_of,
                "lag": answer.lag,
            }
        )
        return
    output.table(names, [[_shown(value) for value in row] for row in rows], is_whole=True)
    if answer.is_cut:
        why = (
            "`--limit` shows more" if len(rows) == arguments.limit else f"no answer is larger than {_MOST_MEGABYTES} MB"
        )
        output.note(f"steptrail: these are the first {many(len(rows), 'row')}, and there are more: {why}")
    note_lag(output, answer.lag)


def _shown(value: JsonValue) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list) else str(value)


def _plain(value: object) -> JsonValue:
    """Return a value of an answer as JSON has it: instants in ISO 8601, bytes in hex, exact decimals as numbers."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime | date | clock):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("Sequence[object]", value)]
    text = str(value)
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text
