"""`export --otlp`: the spans of recorded runs, for a receiver of OpenTelemetry."""

import argparse
import asyncio
from functools import partial
from typing import get_args

from steptrail.domain.errors import PASSING, FollowerBusy, NotExported, StoreSetBack, stream_name
from steptrail.infrastructure.telemetry.otlp import SpanSender
from steptrail.infrastructure.telemetry.recorded import export_spans
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.infrastructure.telemetry.telemetry import checked_share
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Parser, store_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.masking import Masking
from steptrail.projections.telemetry.openinference import Flavour, with_openinference
from steptrail.projections.telemetry.span import Span, TracePer

_AGAIN_SECONDS = 5.0


def add_span_options(export: Parser) -> None:
    """Add the options of spans."""
    export.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="URL",
        help="send spans to a receiver of OpenTelemetry (default: OTEL_EXPORTER_OTLP_ENDPOINT, or this machine): "
        "those of ID and all below it, or of the whole store",
    )
    export.add_argument(
        "--follow",
        action="store_true",
        help="with --otlp: go on with what comes, until Ctrl-C; the next time it goes on where it was",
    )
    export.add_argument(
        "--place", metavar="NAME", default="otlp", help="the name under which --follow keeps its place (default: otlp)"
    )
    export.add_argument(
        "--sample", metavar="SHARE", type=float, default=1.0, help="with --otlp: the share of traces, from 0 to 1"
    )
    export.add_argument("--no-steps", action="store_true", help="with --otlp: no spans of steps and visits of nodes")
    export.add_argument(
        "--trace-per",
        choices=get_args(TracePer),
        default="run",
        help="with --otlp: what one trace is made of (default: run)",
    )
    export.add_argument(
        "--flavour",
        choices=get_args(Flavour),
        help="with --otlp: the attributes of these conventions too",
    )
    export.add_argument(
        "--content",
        action="store_true",
        help="with --otlp: also what was said, arguments and results, without what --redact names",
    )


def spans_exported(arguments: argparse.Namespace, output: Output) -> None:
    """Send the spans. Raises `NotExported` for a receiver that takes none."""
    if arguments.out is not None or arguments.as_test:
        raise Refusal("--otlp sends spans: leave out --out and --as-test")
    if arguments.redact and not arguments.content:
        raise Refusal("spans hold no content, unless you add --content: leave out --redact")
    if arguments.follow and arguments.id is not None:
        raise Refusal("--follow is for all runs of the store: leave out ID")
    checked_share(arguments.sample)
    sender = SpanSender(arguments.otlp or None)
    try:
        told = asyncio.run(_sent(arguments, sender, output))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not arguments.follow:
            raise
        return
    finally:
        sender.close()
    output.answer({"spans": told}, f"sent {told} spans")


async def _sent(arguments: argparse.Namespace, sender: SpanSender, output: Output) -> int:
    def note(error: Exception) -> None:
        output.note(f"steptrail: {one_line(str(error))}")

    async def send(spans: list[Span]) -> int:
        if arguments.flavour is not None:
            spans = [with_openinference(span) for span in spans]
        while True:
            try:
                return await asyncio.to_thread(sender.send, spans)
            except NotExported as error:
                if not arguments.follow:
                    raise
                note(error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async with Steptrail.open(store_of(arguments), create=False, read_only=not arguments.follow) as trail:
        masking = Masking(arguments.redact) if arguments.content else None
        parts, per = not arguments.no_steps, arguments.trace_per
        folds = partial(SpanFolds, trail.store, parts=parts, trace_per=per, masking=masking)
        exported = partial(export_spans, send=send, share=arguments.sample, at_once=32 if masking else 512)
        while arguments.follow:
            try:
                async with trail.follower(arguments.place, wait=True, on_corrupt=note) as follower:
                    return await exported(follower.entries, folds(), keep=follower.keep)
            except (*PASSING, FollowerBusy, StoreSetBack) as error:
                # The place that was kept is where to go on, in a log that may be an older one by then.
                note(error)
                await asyncio.sleep(_AGAIN_SECONDS)
        if arguments.id is None:
            async with trail.subscribe(follow=False, on_corrupt=note) as entries:
                return await exported(entries, folds())
        told, of_tree = 0, folds()
        tree = await trail.tree(stream_name((await trail.find_any(arguments.id)).stream_id))
        for _, each in tree.walk():
            async with trail.subscribe(session=stream_name(each.run.stream), follow=False) as entries:
                told += await exported(entries, of_tree)
        return told
