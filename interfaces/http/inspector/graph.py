"""The graph of a workflow on the page of a run: what became of each node, and which edges were taken."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from steptrail.domain.errors import CorruptRecord, stream_name
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.flow_graph import DRAWN_TYPES, drawn_run
from steptrail.projections.flow_layout import Layout

_MOST: Final = 20_000
"""Events of a run beyond which its graph is not drawn unasked; `steptrail flow draw` draws any."""


async def graph_of(trail: Steptrail, stream: str, count: int) -> Layout | None:
    """Return the graph of a run of a workflow; None for any other stream, and for a very long one."""
    if not stream.startswith("flow:") or count > _MOST:
        return None
    try:
        records: Sequence[Any] = await trail.handle(stream_name(stream)).history(types=DRAWN_TYPES)
    except CorruptRecord:
        return None
    return await asyncio.to_thread(_picture, records)  # of thousands of nodes this may take seconds


def _picture(records: Sequence[Any]) -> Layout | None:
    try:
        drawn = drawn_run(record.event for record in records)
    except ValueError:  # a newer version recorded the workflow
        return None
    return None if drawn is None else Layout(drawn)
