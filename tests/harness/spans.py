"""Reads the spans of whole streams, and says what holds of the spans of any stream."""

from collections.abc import Iterable, Sequence
from typing import Any

from steptrail.domain.kernel.record import Recorded
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.span import Span


def spans_of(stream: str, records: Iterable[Recorded[Any]], *, parts: bool = True) -> tuple[Span, ...]:
    """Return the spans of a stream."""
    return SpanFold(stream, parts=parts).apply(records)


def hold_together(spans: Sequence[Span]) -> None:
    """Assert what holds of all spans: one id each, none ends before it begins, a parent is of the same trace."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert span.end >= span.start
        assert (len(span.trace_id), len(span.span_id)) == (32, 16)
        if span.parent_id in by_id:
            assert by_id[span.parent_id].trace_id == span.trace_id


def drawn(spans: Sequence[Span]) -> list[str]:
    """Return the tree of spans as lines, children under their parents in the order of their beginning."""
    ids = {span.span_id for span in spans}
    below: dict[str | None, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.start):
        below.setdefault(span.parent_id if span.parent_id in ids else None, []).append(span)

    def lines(parent: str | None, depth: int) -> Iterable[str]:
        for span in below.get(parent, []):
            yield f"{'  ' * depth}{span.name}{' !' if span.is_error else ''}"
            yield from lines(span.span_id, depth + 1)

    return list(lines(None, 0))
