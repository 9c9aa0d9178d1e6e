"""The spans of all golden streams hold together, and every try that began is told of when its run has ended."""

from pathlib import Path

import pytest

from steptrail.domain.agent.events import InferenceStarted, ToolCallDeferred, ToolExecutionStarted
from steptrail.domain.flow.events import ExecutionFinished, NodeAttemptStarted
from tests.golden import flows, streams
from tests.harness.spans import hold_together, spans_of

STREAMS = [
    *(("agent", path) for path in sorted(streams.FOLDER.glob("*.jsonl"))),
    *(("flow", path) for path in sorted(flows.FOLDER.glob("*.jsonl"))),
]
BEGINNINGS = (InferenceStarted, ToolCallDeferred, ToolExecutionStarted, NodeAttemptStarted)
TRIES = ("chat ", "execute_tool ", "try ")


@pytest.mark.parametrize(("kind", "path"), STREAMS, ids=[path.stem for _, path in STREAMS])
def test_every_try_of_a_run_that_has_ended_is_told_of_under_a_span_of_the_run(kind: str, path: Path) -> None:
    records = flows.read(path) if kind == "flow" else streams.read(path)
    spans = spans_of(f"{kind}:s", records)
    hold_together(spans)
    begun = sum(isinstance(each.event, BEGINNINGS) for each in records)
    told = [span for span in spans if span.name.startswith(TRIES)]
    if isinstance(records[-1].event, ExecutionFinished):
        assert len(told) == begun
        assert {span.parent_id for span in told} <= {span.span_id for span in spans}
